package core

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

func TestFull(t *testing.T) {
	bothModes(t, func(t *testing.T, p *viewProgram) {
		v := p.call("full", []any{2, p.index(2)}, 7, dtype.Int)
		p.gives(v, []int64{2, 2}, 7, 7, 7, 7)
		p.gives(p.call("full", []int{}, 2.5, dtype.BFloat16), []int64{}, 2.5)
		p.gives(p.call("full", []any{3, 0}, 2.5, dtype.Float), []int64{3, 0})
		p.gives(p.call("full", []int{1}, 7.9, dtype.Int), []int64{1}, 7)
		p.gives(p.call("full", []int{1}, 0.1, dtype.Half), []int64{1}, dtype.Round(dtype.Half, 0.1))
		p.gives(p.call("full", []int{2}, math.NaN(), dtype.Bool), []int64{2}, 1, 1)
		p.gives(p.call("full", []int{2}, p.scalar(scalar.Value{Type: dtype.Double, Re: 1.5}), dtype.Float), []int64{2}, 1.5, 1.5)
		c, err := p.run(p.call("full", []int{1}, 1+2i, dtype.ComplexFloat))
		require.NoError(t, err)
		require.Equal(t, []complex128{1 + 2i}, c.C)
		p.gives(p.call("add", p.call("full", []int{1, 2}, 1.0, dtype.Float), p.float(3, 2)), []int64{3, 2}, 1, 2, 3, 4, 5, 6)

		p.fails("full(): dimension 1 of the result would have size -1", "full", []int{2, -1}, 0, dtype.Int)
		p.fails("full(): the result would have more than 2^63-1 elements", "full", []int{1 << 40, 1 << 40}, 0, dtype.Int)
		p.fails("full(): fill_value is complex, and the elements are Float", "full", []int{2}, 1i, dtype.Float)
		p.fails("full(): dtype is Null", "full", []int{2}, 1, dtype.Null)
		p.fails("full(): dtype is Float4_e2m1fn", "full", []int{2}, 1, dtype.Float4E2M1FN)
		p.fails("full(): shape[0] must be an int or an integer scalar, got 2.00000", "full", []any{2.0}, 1, dtype.Int)
		p.fails(`full() needs argument "dtype"`, "full", []int{2}, 1)
		if p.symbolic {
			require.Equal(t, "i2 s?", p.kinds(v))
			p.failsAtRun(p.call("full", []any{p.index(-2)}, 1, dtype.Int), "dimension 0 has size -2")
			p.failsAtRun(p.call("full", []any{p.index(1 << 40), p.index(1 << 40)}, 1, dtype.Int), "more than 2^63-1 elements")
		}
	})
}

func TestIota(t *testing.T) {
	bothModes(t, func(t *testing.T, p *viewProgram) {
		p.gives(p.call("iota", p.index(4)), []int64{4}, 0, 1, 2, 3)
		p.gives(p.call("iota", 3, 5), []int64{3}, 5, 6, 7)
		p.gives(p.call("iota", 3, p.index(1), p.index(-2)), []int64{3}, 1, -1, -3)
		p.gives(p.call("iota", 2, nil, 3), []int64{2}, 0, 3)
		p.gives(p.call("iota", 0), []int64{0})
		p.gives(p.call("iota", 1), []int64{1}, 0)
		p.gives(p.call("iota", 3, 1.75, 1.5), []int64{3}, 1, 2, 3)
		p.gives(p.call("iota", 3, 0.5, 0.25, dtype.Float), []int64{3}, 0.5, 0.75, 1)
		p.gives(p.call("iota", 3, keywords{"dtype": dtype.Half}), []int64{3}, 0, 1, 2)
		// One rounding: 2049 is not a Half, and 10 times the Half 0.1 is not 1.
		p.gives(p.call("iota", 2, 2048, 1, dtype.Half), []int64{2}, 2048, 2048)
		tenths := []float64{}
		for i := range 11 {
			tenths = append(tenths, dtype.Round(dtype.Half, float64(i)*0.1))
		}
		require.NotEqual(t, 10*dtype.Round(dtype.Half, 0.1), tenths[10])
		p.gives(p.call("iota", 11, 0, 0.1, dtype.Half), []int64{11}, tenths...)
		p.gives(p.call("iota", 2, math.MaxInt32, 1, dtype.Int32), []int64{2}, math.MaxInt32, math.MinInt32)
		p.gives(p.call("iota", 2, math.MaxInt64, 1), []int64{2}, math.MaxInt64, math.MinInt64)
		p.fails("iota(): dimension 0 of the result would have size -3", "iota", -3)
		p.fails("iota(): dtype is Bool, and must be an integer or floating-point type", "iota", 3, 0, 1, dtype.Bool)
		p.fails("iota(): dtype is ComplexFloat", "iota", 3, 0, 1, dtype.ComplexFloat)
		p.fails("iota(): dtype is Null", "iota", 3, 0, 1, dtype.Null)
		p.fails("iota(): step is complex, and the elements are Int", "iota", 3, 0, 1i)
		p.fails("iota(): length must be an int or an integer scalar, got 3.50000", "iota", 3.5)
	})
	p := newViewProgram(t, false)
	require.NoError(t, p.f.AddOutput(p.call("iota", 6, 0, 2), NoVal))
	require.NoError(t, p.f.AddOutput(p.call("iota", 6), NoVal))
	require.Equal(t, `%0 = iota length=6 start=0:i64 step=2:i64 dtype=i64
%1 = iota length=6 start=0:i64 step=1:i64 dtype=i64
output %0
output %1
`, p.f.String())
}

func TestTriu(t *testing.T) {
	bothModes(t, func(t *testing.T, p *viewProgram) {
		x := p.call("add", p.float(2, 3), 1.0)
		p.gives(p.call("triu", x), []int64{2, 3}, 1, 2, 3, 0, 5, 6)
		p.gives(p.call("triu", x, 1), []int64{2, 3}, 0, 2, 3, 0, 0, 6)
		p.gives(p.call("triu", x, p.index(-1)), []int64{2, 3}, 1, 2, 3, 4, 5, 6)
		p.gives(p.call("triu", x, math.MaxInt64), []int64{2, 3}, 0, 0, 0, 0, 0, 0)
		p.gives(p.call("triu", x, math.MinInt64), []int64{2, 3}, 1, 2, 3, 4, 5, 6)
		p.gives(p.call("triu", p.float(0, 3)), []int64{0, 3})
		p.gives(p.call("triu", p.float(2, 2, 1)), []int64{2, 2, 1}, 0, 0, 2, 0)
		e := p.call("expand", p.call("broadcast", p.float(2), []bool{true, false}), []any{p.index(2), 2})
		p.gives(p.call("triu", e), []int64{2, 2}, 0, 1, 0, 1)
		for _, dt := range []dtype.Type{dtype.Half, dtype.Int32, dtype.Int, dtype.Bool, dtype.Double, dtype.ComplexFloat, dtype.BFloat16} {
			p.gives(p.call("triu", p.tensor(dt, 2, 2), 1), []int64{2, 2}, 0, 1, 0, 0)
		}
		p.fails("triu(): arg has 1 dimension; it needs at least 2", "triu", p.float(3))
		p.fails("triu(): diagonal must be an int or an integer scalar, got 1.50000", "triu", x, 1.5)
	})
}
