package lower

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

const (
	two30 = 1 << 30
	two31 = 1 << 31
	two32 = 1 << 32
)

// pointwise merges all of the output, splits it by 128 and spreads it over blocks
// and threads.
func pointwise(t *testing.T, s *schedule.Scheduled) {
	out := s.Fusion().Outputs()[0].Val
	for len(s.Loop(out)) > 1 {
		must(t, s.Merge(out, 0, 1))
	}
	must(t, s.Split(out, 0, 128, true))
	_, err := s.TransformLike(out, nil)
	must(t, err)
	parallelised(t, s, 0, schedule.BIDx)
	parallelised(t, s, 1, schedule.TIDx)
	must(t, s.InlineMost(nil, nil))
}

func serial(t *testing.T, s *schedule.Scheduled) { must(t, s.InlineMost(nil, nil)) }

// The index type holds every index of the launch, also where there is no element,
// for pretended sizes and strides.
func TestIndexType(t *testing.T) {
	const (
		vector = "%0 = tensor f32 [-1] contiguity=[yes]\n%1 = neg %0\noutput %1\n"
		matrix = "%0 = tensor f32 [-1, -1] contiguity=[no, no]\n%1 = neg %0\noutput %1\n"
	)
	vectorised := func(t *testing.T, s *schedule.Scheduled) { scheduleCached(t, s, schedule.Vectorize) }
	for _, x := range []struct {
		name     string
		text     string
		schedule func(*testing.T, *schedule.Scheduled)
		sizes    []int64 // of %0
		strides  []int64
		want     dtype.Type
	}{
		{"vector", vector, pointwise, []int64{1000}, []int64{1}, dtype.Int32},
		{"last that fits", vector, pointwise, []int64{two31 - 128}, []int64{1}, dtype.Int32},
		{"index beyond the end", vector, pointwise, []int64{two31 - 127}, []int64{1}, dtype.Int},
		{"serial", vector, serial, []int64{two31 - 2}, []int64{1}, dtype.Int32},
		{"serial end", vector, serial, []int64{two31}, []int64{1}, dtype.Int},
		{"large", vector, pointwise, []int64{two32}, []int64{1}, dtype.Int},
		{"just beyond 32 bits", vector, pointwise, []int64{two32 + 5}, []int64{1}, dtype.Int},
		{"stride", matrix, serial, []int64{2, 4}, []int64{two30, 1}, dtype.Int32},
		{"wide stride", matrix, serial, []int64{2, 4}, []int64{two31 - 4, 1}, dtype.Int},
		{"wider stride", matrix, serial, []int64{2, 4}, []int64{two32, 1}, dtype.Int},
		{"sum of offsets", matrix, serial, []int64{2, 2}, []int64{two30, two30}, dtype.Int},
		{"expanded", matrix, serial, []int64{1 << 20, 4}, []int64{0, 1}, dtype.Int32},
		{"expanded output", matrix, serial, []int64{1 << 29, 4}, []int64{0, 1}, dtype.Int},
		{"merged", matrix, pointwise, []int64{1 << 15, 1 << 15}, []int64{1 << 15, 1}, dtype.Int32},
		{"merged beyond", matrix, pointwise, []int64{1 << 16, 1 << 15}, []int64{1 << 15, 1}, dtype.Int},
		{"a part of a product that is 0", "%0 = tensor f32 [-1, -1, -1] contiguity=[yes, yes, yes]\n%1 = neg %0\noutput %1\n", pointwise, []int64{1 << 16, 1 << 16, 0}, nil, dtype.Int},
		{"padded", "%0 = tensor f32 [-1] contiguity=[yes]\n%1 = pad %0 pad_widths=[2147483600, 0] value=0:f64\noutput %1\n", serial, []int64{10}, []int64{1}, dtype.Int32},
		{"padded too far", "%0 = tensor f32 [-1] contiguity=[yes]\n%1 = pad %0 pad_widths=[2147483640, 0] value=0:f64\noutput %1\n", serial, []int64{10}, []int64{1}, dtype.Int},
		{"cut at the start", "%0 = tensor f32 [-1] contiguity=[yes]\n%1 = pad %0 pad_widths=[-2147483600, 0] value=0:f64\noutput %1\n", serial, []int64{2147483610}, []int64{1}, dtype.Int32},
		{"cut too far", "%0 = tensor f32 [-1] contiguity=[yes]\n%1 = pad %0 pad_widths=[-2147483700, 0] value=0:f64\noutput %1\n", serial, []int64{2147483710}, []int64{1}, dtype.Int},
		{"vectors", addText, vectorised, []int64{two31 - 16}, []int64{1}, dtype.Int32},
		{"vectors beyond", addText, vectorised, []int64{two31}, []int64{1}, dtype.Int},
		{"gather", "%0 = tensor f32 [-1, 1] contiguity=[yes, none]\n%1 = tensor i64 [4, 1] contiguity=[yes, none]\n%2 = index_select %0, %1 dim=0\noutput %2\n", serial, []int64{two31 - 8, 1}, []int64{1, 1}, dtype.Int32},
		{"gather beyond", "%0 = tensor f32 [-1, 3] contiguity=[yes, yes]\n%1 = tensor i64 [4, 1] contiguity=[yes, none]\n%2 = index_select %0, %1 dim=0\noutput %2\n", serial, []int64{two30, 3}, []int64{3, 1}, dtype.Int},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := parsed(t, x.text)
			x.schedule(t, s)
			value := func(h kir.HostValue) (int64, bool) {
				if h.Stride >= 0 {
					return x.strides[h.Stride], true
				}
				n, err := s.Fusion().Scalars().Eval(h.Scalar, func(y scalar.ID) (scalar.Value, error) {
					return scalar.Value{Type: dtype.Index, I: x.sizes[s.Fusion().Scalars().Tag(y).Dim]}, nil
				}, core.EvalOpaque, nil)
				return n.I, err == nil
			}
			k, err := lowered(s, Options{Value: value, Alignment: func(core.ValID) int { return 16 },
				Promise: func(kir.HostValue) scalar.Facts {
					return scalar.Facts{Lo: min(1, slices.Min(x.sizes)), Hi: math.MaxInt64, Divisor: 1}
				}})
			if x.text == addText {
				k, err = lowered(s, Options{Value: value, Alignment: func(core.ValID) int { return 16 },
					Promise: func(kir.HostValue) scalar.Facts { return scalar.Facts{Lo: 1, Hi: math.MaxInt64, Divisor: 4} }})
			}
			require.NoError(t, err)
			require.Equal(t, x.want, k.Index, "%v", k)
			integers, err := k.Integers(func(_ int, a *kir.Argument) (int64, error) { n, _ := value(a.Host); return n, nil })
			require.NoError(t, err)
			over := overflows(t, k, integers)
			require.False(t, over && k.Index == dtype.Int32, "%v", k)
		})
	}
}

// overflows evaluates what the kernel computes at corners of the ranges of its
// indices, and reports whether some number has more than 32 bits.
func overflows(t *testing.T, k *kir.Kernel, integers *kir.Integers) bool {
	r := rand.New(rand.NewPCG(1, 2))
	grid, block, _, err := integers.Launched()
	require.NoError(t, err)
	over := false
	for range 200 {
		value, symbols := map[scalar.ID]*big.Int{}, map[kir.SymbolID]int64{}
		for i, s := range k.Symbols {
			id := kir.SymbolID(i)
			if n, ok := integers.Of(id); ok {
				symbols[id] = n
			} else if s.Kind == kir.BlockIdx {
				symbols[id] = r.Int64N(2) * (grid[s.Dim] - 1)
			} else if s.Kind == kir.ThreadIdx {
				symbols[id] = r.Int64N(2) * (block[s.Dim] - 1)
			} else if s.Kind == kir.LetIndex {
				n, _ := integers.Of(0) // the size that is gathered from
				symbols[id] = r.Int64N(2) * (n - 1)
			}
		}
		e := &bigEvaluation{k: k, value: value, symbols: symbols}
		var visit func(b kir.Block)
		visit = func(b kir.Block) {
			for _, s := range b {
				if f, ok := s.(*kir.For); ok {
					symbols[f.Symbol] = r.Int64N(2) * (e.of(f.Stop).Int64() - 1)
				}
				statementExprs(k, s, func(id scalar.ID) { e.of(id) })
				switch s := s.(type) {
				case *kir.For:
					visit(s.Body)
				case *kir.If:
					visit(s.Then)
					visit(s.Else)
				}
			}
		}
		visit(k.Body)
		over = over || e.over
	}
	return over
}

type bigEvaluation struct {
	k       *kir.Kernel
	value   map[scalar.ID]*big.Int
	symbols map[kir.SymbolID]int64
	over    bool
}

func (e *bigEvaluation) of(id scalar.ID) *big.Int {
	if v, ok := e.value[id]; ok {
		return v
	}
	t := e.k.Scalars
	v := new(big.Int)
	if n, ok := t.ConstInt(id); ok {
		v.SetInt64(n)
	} else if t.Op(id) == scalar.Symbol {
		v.SetInt64(e.symbols[kir.SymbolID(t.Tag(id).Val)])
	}
	args := t.Args(id)
	for i, a := range args {
		x := e.of(a)
		switch {
		case i == 0:
			v.Set(x)
		case t.Op(id) == scalar.Add:
			v.Add(v, x)
		case t.Op(id) == scalar.Mul:
			v.Mul(v, x)
		case t.Op(id) == scalar.FloorDiv && x.Sign() > 0:
			v.Div(v, x)
		case t.Op(id) == scalar.Mod && x.Sign() > 0:
			v.Mod(v, x)
		case t.Op(id) == scalar.Min && x.Cmp(v) < 0 || t.Op(id) == scalar.Max && x.Cmp(v) > 0:
			v.Set(x)
		}
		e.over = e.over || !t.Type(id).IsBool() && (!v.IsInt64() || int64(int32(v.Int64())) != v.Int64())
	}
	if t.Type(id).IsBool() || t.Op(id) == scalar.Select {
		v.SetInt64(0)
	}
	e.value[id] = v
	return v
}

// Without the integers of a launch the facts decide, and Options.Index above all.
func TestIndexTypeOfFacts(t *testing.T) {
	for _, x := range []struct {
		options Options
		want    dtype.Type
	}{
		{Options{}, dtype.Int},
		{Options{Promise: func(kir.HostValue) scalar.Facts { return scalar.Range(1, 40000) }}, dtype.Int32},
		{Options{Promise: func(kir.HostValue) scalar.Facts { return scalar.Range(1, 50000) }}, dtype.Int}, // squared
		{Options{Index: dtype.Int32}, dtype.Int32},
	} {
		s := parsed(t, bias)
		must(t, s.InlineMost(nil, nil))
		k, err := Lower(s, x.options)
		require.NoError(t, err)
		require.Equal(t, x.want, k.Index)
	}
}

// A reduction across blocks counts arrivals in 64 bits, which is no reason for
// wide indices.
func TestIndexTypeOfTickets(t *testing.T) {
	for _, x := range features {
		if x.name != "rows of a grid" {
			continue
		}
		s := parsed(t, x.text)
		f := frozen(s)
		x.schedule(t, s)
		value := func(kir.HostValue) (int64, bool) { return 3, true }
		k, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, x.sizes...), Options{Value: value})
		require.NoError(t, err)
		require.Equal(t, dtype.Int32, k.Index)
	}
}
