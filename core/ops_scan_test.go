package core

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

func TestScans(t *testing.T) {
	x := dense(array(dtype.Float, []int64{2, 3}, 1, 2, 3, 4, nan, 6))
	for _, c := range []struct {
		op       string
		dim      int64
		keywords []Keyword
		want     []float64
	}{
		{"cumsum", 1, nil, []float64{1, 3, 6, 4, nan, nan}},
		{"cumsum", 0, nil, []float64{1, 2, 3, 5, nan, 9}},
		{"cumsum", -1, []Keyword{named("init", givenInt(10))}, []float64{11, 13, 16, 14, nan, nan}},
		{"cumprod", 1, nil, []float64{1, 2, 6, 4, nan, nan}},
		{"cumprod", 0, []Keyword{named("init", givenFloat(0.5))}, []float64{0.5, 1, 1.5, 2, nan, 9}},
		{"cummax", 1, nil, []float64{1, 2, 3, 4, nan, nan}},
		{"cummin", 1, nil, []float64{1, 1, 1, 4, nan, nan}},
		{"cummin", 0, []Keyword{named("init", givenInt(2))}, []float64{1, 2, 2, 1, nan, 2}},
	} {
		out := evalCall(t, c.op, x, []Given{givenInt(c.dim)}, c.keywords...)
		requireArray(t, out[0], dtype.Float, []int64{2, 3}, c.want...)
	}
}

func TestScanTypes(t *testing.T) {
	for _, c := range []struct {
		op       string
		in, want dtype.Type
	}{
		{"cumsum", dtype.Int, dtype.Int}, {"cumsum", dtype.Int32, dtype.Int}, {"cumsum", dtype.Bool, dtype.Int},
		{"cumsum", dtype.BFloat16, dtype.BFloat16}, {"cumsum", dtype.UInt64, dtype.UInt64}, {"cumprod", dtype.ComplexFloat, dtype.ComplexFloat},
		{"cummax", dtype.BFloat16, dtype.BFloat16}, {"cummax", dtype.Bool, dtype.Bool}, {"cummin", dtype.Int32, dtype.Int32},
	} {
		require.Equal(t, c.want, evalCall(t, c.op, dense(array(c.in, []int64{2}, 1, 0)), []Given{givenInt(0)})[0].Type)
	}
	// The running sum is not rounded.
	x := dense(array(dtype.BFloat16, []int64{3}, 256, 1, 1))
	requireArray(t, evalCall(t, "cumsum", x, []Given{givenInt(0)})[0], dtype.BFloat16, []int64{3}, 256, 256, 258)
	requireArray(t, evalCall(t, "cumsum", dense(array(dtype.Int32, []int64{2}, math.MaxInt32, 1)), []Given{givenInt(0)})[0], dtype.Int, []int64{2}, math.MaxInt32, 1<<31)
}

func TestScanShapes(t *testing.T) {
	require.Empty(t, evalCall(t, "cumsum", dense(array(dtype.Float, []int64{2, 0})), []Given{givenInt(1)})[0].F)
	require.Empty(t, evalCall(t, "cummax", dense(array(dtype.Float, []int64{0, 2})), []Given{givenInt(1)})[0].F)
	requireArray(t, evalCall(t, "cumsum", dense(array(dtype.Float, []int64{1, 2}, 3, 4)), []Given{givenInt(0)})[0], dtype.Float, []int64{1, 2}, 3, 4)
	expanded := []operandCase{{array(dtype.Float, []int64{3, 2}, 1, 2, 1, 2, 1, 2), []int{0}}}
	requireArray(t, evalCall(t, "cumsum", expanded, []Given{givenInt(0)})[0], dtype.Float, []int64{3, 2}, 1, 2, 2, 4, 3, 6)
	f := NewFusion()
	out, err := f.Call(CumsumOp, append(define(t, f, expanded, true), givenInt(0)), nil)
	require.NoError(t, err)
	require.Equal(t, Iter, f.Axis(f.Axes(out[0])[0]).Kind)
	require.Equal(t, []int{0}, CumsumOp.NeedsWhole(f, f.Expr(f.Val(out[0]).Def)))
}

func TestScanErrors(t *testing.T) {
	x := dense(array(dtype.Float, []int64{2}, 1, 2))
	require.EqualError(t, callError(t, "cumsum", x, []Given{givenInt(1)}), "cumsum(): dim is 1, which is not a dimension of a tensor of rank 1: it must be from -1 to 0")
	require.EqualError(t, callError(t, "cumsum", x, nil), `cumsum() needs argument "dim"; its arguments are arg, dim, init`)
	require.EqualError(t, callError(t, "cummax", dense(array(dtype.ComplexFloat, []int64{1}, 1)), []Given{givenInt(0)}), "cummax(): arg must be of real type, got ComplexFloat")
	require.EqualError(t, callError(t, "cumsum", dense(array(dtype.Int, []int64{2}, 1, 2)), []Given{givenInt(0), givenFloat(0.5)}), "cumsum(): init is a number of type Double, which Int does not hold")
	require.EqualError(t, callError(t, "cumsum", dense(array(dtype.Float, nil, 1)), []Given{givenInt(0)}), "cumsum(): dim is 0, and a tensor with 0 dimensions has none")
}

// An init that is known at run time only is part of the result.
func TestScanSymbolicInit(t *testing.T) {
	f := NewFusion()
	x := define(t, f, dense(array(dtype.BFloat16, []int64{2}, 1, 2)), true)
	init, err := f.DefineScalar(dtype.Double)
	require.NoError(t, err)
	out, err := f.Call(CumprodOp, append(x, givenInt(0), givenVal(init)), nil)
	require.NoError(t, err)
	require.NoError(t, f.AddOutput(out[0], NoVal))
	require.NoError(t, f.Verify())
	got, err := f.Eval([]*Array{array(dtype.BFloat16, []int64{2}, 1, 2), nil}, []scalar.Value{{}, {Type: dtype.Double, Re: 1.5}}, RandomState{})
	require.NoError(t, err)
	requireArray(t, got[0], dtype.BFloat16, []int64{2}, 1.5, 3)
}
