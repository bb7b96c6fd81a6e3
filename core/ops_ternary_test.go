package core

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

func TestWhere(t *testing.T) {
	n := quietNaN
	cond := bools(true, false, true)
	x, y := floats(dtype.Float, 1, 2, n), floats(dtype.Float, 10, negativeZero, 30)
	requireFloats(t, []float64{1, negativeZero, n}, resultOf(t, "where", cond, x, y).F, "where")
	requireFloats(t, []float64{1, negativeZero, n}, resultOf(t, "where", ints(dtype.Int, 7, 0, -1), x, y).F, "where of integers")
	require.Equal(t, []int64{1<<53 + 1, 2, 1<<53 + 1}, resultOf(t, "where", cond, 1<<53+1, 2).I)
	require.Equal(t, []complex128{1i, 2, 1i}, resultOf(t, "where", cond, 1i, 2).C)
	require.Equal(t, "101", truth(t, resultOf(t, "where", cond, true, false)))
	requireFloats(t, x.F, resultOf(t, "where", true, x, y).F, "where of a number")
	requireFloats(t, []float64{0.5, -infinity, 0.5}, resultOf(t, "where", cond, 0.5, math.Inf(-1)).F, "where of numbers")
	require.Equal(t, scalar.Value{Type: dtype.Double, Re: 2}, folded(t, "where", false, 1, 2.0))
	// The condition broadcasts as any operand.
	got := resultOf(t, "where", shaped(bools(true, false), 2, 1), x, y)
	require.Equal(t, []int64{2, 3}, got.Shape)
	requireFloats(t, []float64{1, 2, n, 10, negativeZero, 30}, got.F, "where with a broadcast condition")
}

func TestClamp(t *testing.T) {
	n, i := quietNaN, infinity
	x := floats(dtype.Float, -5, 0.5, 5, n, i, -i)
	for _, c := range []struct {
		low, high any
		want      []float64
	}{
		{-1.0, 1.0, []float64{-1, 0.5, 1, n, 1, -1}},
		{-1.0, nil, []float64{-1, 0.5, 5, n, i, -1}},
		{nil, 1, []float64{-5, 0.5, 1, n, 1, -i}},
		{3, 2, []float64{2, 2, 2, n, 2, 2}},
		{n, 2.0, []float64{n, n, n, n, n, n}},
		{floats(dtype.Float, 0, 1, 2, 3, 4, 5), nil, []float64{0, 1, 5, n, i, 5}},
	} {
		requireFloats(t, c.want, resultOf(t, "clamp", x, c.low, c.high).F, "clamp")
	}
}

func TestClampOfIntegers(t *testing.T) {
	require.Equal(t, []int64{-1, 3, 1<<53 + 1}, resultOf(t, "clamp", ints(dtype.Int, -5, 3, highest), -1, 1<<53+1).I)
	require.Equal(t, []int64{9, 3}, resultOf(t, "clamp", ints(dtype.UInt64, -1, 3), 2, 9).I)
	require.Equal(t, scalar.Value{Type: dtype.Int, I: 4}, folded(t, "clamp", 7, 1, 4))
	require.Equal(t, scalar.Value{Type: dtype.Int, I: 7}, folded(t, "clamp", 7, 1, nil))
	require.Equal(t, scalar.Value{Type: dtype.Double, Re: 1.5}, folded(t, "clamp", 1, 1.5, nil))
	_, _, _, err := callOn(t, "clamp", floats(dtype.Float, 1, 2), nil, nil)
	require.EqualError(t, err, "clamp(): min and max are both None; give one of them")
	require.IsType(t, &InvalidArgument{}, err)
	_, err = Parse("%0 = tensor f32 [4] contiguity=[yes]\n%1 = clamp %0, none, 1:f64\noutput %1\n")
	require.ErrorContains(t, err, "min and max must both be given")
}

func TestThreshold(t *testing.T) {
	n := quietNaN
	requireFloats(t, []float64{7, 7, 2, n, 7}, resultOf(t, "threshold", floats(dtype.Float, -1, 1, 2, n, negativeZero), 1, 7).F, "threshold")
	require.Equal(t, []int64{7, 1<<53 + 1}, resultOf(t, "threshold", ints(dtype.Int, 1<<53, 1<<53+1), 1<<53, 7).I)
	require.Equal(t, []int64{-1, 9}, resultOf(t, "threshold", ints(dtype.UInt64, -1, 3), 4, 9).I)
	require.Equal(t, scalar.Value{Type: dtype.Int, I: 5}, folded(t, "threshold", 5, 4, 7))
}

func TestLerp(t *testing.T) {
	tenth := float64(float32(0.1))
	start, end := floats(dtype.Float, 1, 1e8, infinity), floats(dtype.Float, 3, tenth, infinity)
	requireFloats(t, []float64{1.5, 7.5e7, quietNaN}, resultOf(t, "lerp", start, end, 0.25).F, "lerp")
	requireFloats(t, []float64{3, tenth, quietNaN}, resultOf(t, "lerp", start, end, 1.0).F, "lerp with weight 1")
	requireFloats(t, []float64{2, 2}, resultOf(t, "lerp", ints(dtype.Int, 1, 3), ints(dtype.Int, 3, 1), 0.5).F, "lerp of integers")
	require.Equal(t, []complex128{1 + 1i}, resultOf(t, "lerp", complexes(dtype.ComplexFloat, 0), complexes(dtype.ComplexFloat, 2+2i), 0.5).C)
	require.Equal(t, 2.5, folded(t, "lerp", 1.0, 3.0, 0.75).Re)
}

func TestAddcmul(t *testing.T) {
	x, y, z := floats(dtype.Float, 1, 2), floats(dtype.Float, 3, 4), floats(dtype.Float, 5, -6)
	require.Equal(t, []float64{31, -46}, resultOf(t, "addcmul", x, y, z, 2).F)
	require.Equal(t, []int64{1 + 7<<53, 5}, resultOf(t, "addcmul", ints(dtype.Int, 1, 5), ints(dtype.Int, 1<<53, 0), 7, 1).I)
	require.Equal(t, []float64{1.5}, resultOf(t, "addcmul", ints(dtype.Int, 1), ints(dtype.Int, 1), true, 0.5).F)
	require.Equal(t, scalar.Value{Type: dtype.Int, I: 7}, folded(t, "addcmul", 1, 2, 3, true))
	// The scalar stays as the caller wrote it.
	f, v, _, err := callOn(t, "addcmul", x, y, z, 0.5)
	require.NoError(t, err)
	require.NoError(t, f.AddOutput(v, NoVal))
	require.Equal(t, `%0 = tensor f32 [-1] contiguity=[yes]
%1 = tensor f32 [-1] contiguity=[yes]
%2 = tensor f32 [-1] contiguity=[yes]
%3 = mul 0.5:f64, %1
%4 = mul %3, %2
%5 = add %0, %4
output %5
`, f.String())
}

func TestTernaryErrors(t *testing.T) {
	x, z := floats(dtype.Float, 1, 2), complexes(dtype.ComplexFloat, 1, 2)
	for _, c := range []struct {
		name string
		args []any
		want string
	}{
		{"where", []any{x, x, x}, "where(): cond must be of bool or integer type, got Float"},
		{"where", []any{0.5, x, x}, "where(): cond must be of bool or integer type, got Double"},
		{"clamp", []any{z, 0, 1}, "clamp(): x must be of real type, got ComplexFloat"},
		{"clamp", []any{x, nil, 1i}, "clamp(): max must be of real type, got ComplexDouble"},
		{"threshold", []any{x, 1i, 1}, "threshold(): thr must be of real type, got ComplexDouble"},
		{"threshold", []any{x, 1}, `threshold() needs argument "value"; its arguments are x, thr, value`},
		{"addcmul", []any{ints(dtype.UInt64, 1, 2), ints(dtype.Int, 1, 2), 1, 1}, "addcmul(): UInt64 and Int have no common type; cast one of them"},
	} {
		_, _, _, err := callOn(t, c.name, c.args...)
		require.IsType(t, &InvalidType{}, err)
		require.EqualError(t, err, c.want)
	}
}
