package hostshim

import (
	"encoding/binary"
	"fmt"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/philox"
	"nvfuser_go/core/scalar"
)

// An Argument is the value of one: Memory of a Pointer, else Number, in I but
// for a ValueScalar.
type Argument struct {
	Number scalar.Value
	Memory []byte
}

// NewLaunch returns a launch of a kernel, printed as the function called name,
// with one argument for each of its own. It fails if the size of the launch
// cannot be computed from them.
func NewLaunch(k *kir.Kernel, name string, arguments ...Argument) (*Launch, error) {
	layout := cuda.Layout(k)
	if len(arguments) != len(layout.Fields) {
		return nil, fmt.Errorf("kernel %s takes %d arguments, got %d", k.Name, len(layout.Fields), len(arguments))
	}
	l := &Launch{Kernel: name, Cluster: k.Launch.Cluster, Cooperative: k.Launch.Cooperative, Parameters: make([]byte, layout.Size)}
	sizes := map[scalar.ID]int64{}
	for i, given := range arguments {
		field := layout.Fields[i]
		place := l.Parameters[field.Offset : field.Offset+field.Size]
		switch a := &k.Arguments[i]; a.Kind {
		case kir.Pointer:
			l.Buffers = append(l.Buffers, Buffer{Parameter: field.Offset, Bytes: given.Memory})
		case kir.IndexScalar:
			sizes[k.Symbols[a.Symbol].Expr] = given.Number.I
			dtype.StoreInt(k.Index, place, given.Number.I)
		case kir.ValueScalar:
			store(a.DType, place, given.Number)
		case kir.RandomSeed:
			for i, word := range philox.Keys(uint64(given.Number.I)) {
				binary.LittleEndian.PutUint32(place[4*i:], word)
			}
		default:
			dtype.StoreInt(dtype.Int, place, given.Number.I)
		}
	}
	memo := map[scalar.ID]scalar.Value{}
	value := func(id scalar.ID) (n int64, err error) {
		v, err := k.Scalars.Eval(id, func(s scalar.ID) (scalar.Value, error) {
			n, ok := sizes[s]
			if !ok {
				return scalar.Value{}, fmt.Errorf("kernel %s: the launch depends on %s, which is no argument", k.Name, k.Expr(s))
			}
			return scalar.Value{Type: dtype.Index, I: n}, nil
		}, nil, memo)
		return v.I, err
	}
	var err error
	for d := range 3 {
		if l.Grid[d], err = value(k.Launch.Grid[d]); err != nil {
			return nil, err
		}
		if l.Block[d], err = value(k.Launch.Block[d]); err != nil {
			return nil, err
		}
	}
	l.Shared, err = value(k.Launch.Shared)
	return l, err
}

func store(t dtype.Type, place []byte, v scalar.Value) {
	switch {
	case t.IsFloat():
		dtype.StoreFloat(t, place, v.Re)
	case t.IsComplex():
		dtype.StoreComplex(t, place, complex(v.Re, v.Im))
	default:
		dtype.StoreInt(t, place, v.I)
	}
}
