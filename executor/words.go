package executor

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// hostWords are the scalars of kernels that differ from call to call.
type hostWords struct {
	list []hostWord
}

// A hostWord is 64 bits of a number as an element of a type lies in memory: its
// only ones but for the largest type.
type hostWord struct {
	c     *compiled
	to    dtype.Type
	value kir.HostValue
	at    int // the byte of the element that it begins with
}

// add returns the index of a word of the argument a, at a byte of its element.
func (w *hostWords) add(x hostWord) int {
	if i := slices.Index(w.list, x); i >= 0 {
		return i
	}
	w.list = append(w.list, x)
	return len(w.list) - 1
}

func (w *hostWords) evaluate(inputs []Input, words []uint64) error {
	if len(words) != len(w.list) {
		return fmt.Errorf("%d words for %d scalars", len(words), len(w.list))
	}
	for i, x := range w.list {
		x.c.lock.Lock()
		v, err := x.c.valueOf(inputs, x.value, x.to)
		x.c.lock.Unlock()
		if err != nil {
			return err
		}
		bytes := elementOf(v)
		words[i] = binary.LittleEndian.Uint64(bytes[x.at:])
	}
	return nil
}

func (c *compiled) valueOf(inputs []Input, h kir.HostValue, to dtype.Type) (scalar.Value, error) {
	f := c.s.Fusion()
	if h.Tensor != core.NoVal {
		x := &inputs[slices.Index(f.Inputs(), h.Tensor)]
		return core.ConvertScalar(to, element(x.DType, unsafe.Slice((*byte)(x.Data), x.DType.Size()))), nil
	}
	b, err := f.Bind(valuesOf(inputs))
	if err != nil {
		return scalar.Value{}, err
	}
	v, err := b.Value(h.Scalar)
	return core.ConvertScalar(to, v), err
}

// elementOf returns v as it lies in memory, and zeros.
func elementOf(v scalar.Value) (bytes [16]byte) {
	switch t := v.Type; {
	case t.IsFloat():
		dtype.StoreFloat(t, bytes[:], v.Re)
	case t.IsComplex():
		dtype.StoreComplex(t, bytes[:], complex(v.Re, v.Im))
	default:
		dtype.StoreInt(t, bytes[:], v.I)
	}
	return bytes
}
