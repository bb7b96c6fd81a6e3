package core

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/philox"
	"nvfuser_go/core/scalar"
)

var randomTypes = []dtype.Type{dtype.Double, dtype.Float, dtype.Half, dtype.BFloat16}

// The values are those of package philox at the row-major position, scaled and
// rounded once.
func TestRandomValues(t *testing.T) {
	bothModes(t, func(t *testing.T, p *viewProgram) {
		for _, dt := range randomTypes {
			k := keywords{"rng_seed": p.index(11), "rng_offset": p.index(8), "dtype": dt}
			uniform, normal := []float64{}, []float64{}
			for i := range int64(6) {
				uniform = append(uniform, dtype.Round(dt, 2+philox.Uniform(dt, 11, 8, i)*3))
				normal = append(normal, dtype.Round(dt, 0.1+2*philox.Normal(dt, 11, 8, i)))
			}
			p.gives(p.call("uniform", 2, 5.0, []any{p.index(2), 3}, k), []int64{2, 3}, uniform...)
			p.gives(p.call("normal", 0.1, p.scalar(scalar.Value{Type: dtype.Double, Re: 2}), []int{6}, k), []int64{6}, normal...)
			p.gives(p.call("uniform", 0, 1, []int{0}, k), []int64{0})
			p.gives(p.call("normal", 0, 1, []int{}, k), []int64{}, philox.Normal(dt, 11, 8, 0))
		}
	})
}

// Without a seed the n-th random op that is used draws at offset 4n of the run.
func TestRandomStreams(t *testing.T) {
	p := newViewProgram(t, false)
	x := p.tensor(dtype.Half, 2, 2)
	unused := p.call("uniform", 0, 1, []int{3})
	a, b := p.call("rand_like", x), p.call("randn_like", x)
	for _, v := range []ValID{b, a} {
		require.NoError(t, p.f.AddOutput(v, NoVal))
	}
	require.Equal(t, dtype.Half, p.f.Val(a).DType)
	require.NotEqual(t, unused, a)
	p.f.Freeze()
	require.NoError(t, p.f.Verify())
	out, err := p.f.Eval(p.arrays, p.scalars, RandomState{Seed: 5, Offset: 100})
	require.NoError(t, err)
	for i := range int64(4) {
		require.Equal(t, philox.Normal(dtype.Half, 5, 100, i), out[0].F[i])
		require.Equal(t, philox.Uniform(dtype.Half, 5, 104, i), out[1].F[i])
	}
}

// Values stay below maxval though rounding would reach it.
func TestUniformStaysBelow(t *testing.T) {
	for _, dt := range randomTypes {
		for _, r := range [][2]float64{{0, 1}, {-1, 0}, {-1e-7, 0}, {1, 1.0625}, {0, 1e-300}, {-2, -1.9375}, {3, 3}, {0, 1e300}, {0.1, 0.2}} {
			for i := range int64(3000) {
				x := uniformValue(dt, r[0], r[1], 1, 4, i)
				if r[0] < r[1] {
					require.Less(t, x, r[1], "%v", dt)
				}
				require.GreaterOrEqual(t, x, dtype.Round(dt, r[0]), "%v", dt)
				require.Equal(t, x, dtype.Round(dt, x))
			}
		}
	}
	reached := false // the test would see a missing clamp
	for i := range int64(3000) {
		u := philox.Uniform(dtype.BFloat16, 1, 4, i)
		reached = reached || dtype.Round(dtype.BFloat16, 1+u*0.0625) >= 1.0625
	}
	require.True(t, reached)
}

func TestBelow(t *testing.T) {
	for _, c := range []struct {
		t       dtype.Type
		x, want float64
	}{
		{dtype.Double, 1, math.Nextafter(1, 0)}, {dtype.Double, 0, -math.SmallestNonzeroFloat64}, {dtype.Double, -1, math.Nextafter(-1, -2)},
		{dtype.Float, 1, 1 - 0x1p-24}, {dtype.Float, 0, -0x1p-149}, {dtype.Float, 1e40, math.MaxFloat32}, {dtype.Float, 1 + 0x1p-30, 1},
		{dtype.Half, 1, 1 - 0x1p-11}, {dtype.Half, 0, -0x1p-24}, {dtype.Half, -1, -1 - 0x1p-10}, {dtype.Half, 0x1p-24, 0}, {dtype.Half, 1e9, 65504},
		{dtype.BFloat16, 1, 1 - 0x1p-8}, {dtype.BFloat16, -2, -2 - 0x1p-6}, {dtype.BFloat16, 3.01, 3},
	} {
		require.Equal(t, c.want, below(c.t, c.x), "%v %v", c.t, c.x)
	}
}

func TestRandomErrors(t *testing.T) {
	bothModes(t, func(t *testing.T, p *viewProgram) {
		p.fails("uniform(): rng_seed and rng_offset must be given together, or neither", "uniform", 0, 1, []int{2}, keywords{"rng_seed": 1})
		p.fails("normal(): rng_seed and rng_offset must be given together, or neither", "normal", 0, 1, []int{2}, keywords{"rng_offset": 1})
		p.fails("uniform() takes at most 3 positional arguments, got 4", "uniform", 0, 1, []int{2}, 1)
		p.fails("uniform(): dtype is Int; random numbers are of Double, Float, Half or BFloat16", "uniform", 0, 1, []int{2}, keywords{"dtype": dtype.Int})
		p.fails("normal(): dtype is Float8_e4m3fn", "normal", 0, 1, []int{2}, keywords{"dtype": dtype.Float8E4M3FN})
		p.fails("uniform(): maxval is complex, and the elements are Float", "uniform", 0, 1i, []int{2})
		p.fails("uniform(): dimension 0 of the result would have size -2", "uniform", 0, 1, []int{-2})
		p.fails("rand_like(): dtype is Int", "rand_like", p.tensor(dtype.Int, 2))
		p.fails("must be given together", "randn_like", p.float(2), 1)
		p.gives(p.call("rand_like", p.float(1), 3, 4), []int64{1}, philox.Uniform(dtype.Float, 3, 4, 0))
		e := p.call("expand", p.call("broadcast", p.float(), []bool{true}), []any{p.index(2)})
		p.gives(p.call("rand_like", e, 3, 4), []int64{2}, philox.Uniform(dtype.Float, 3, 4, 0), philox.Uniform(dtype.Float, 3, 4, 1))
	})
}
