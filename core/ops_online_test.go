package core

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
)

// The results are those of max() and of sum(exp(x - max)), to the last bit.
func TestMaxExpSum(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	x := floats(dtype.Float, 1, 2, 3, -inf, 5, -inf, -inf, -inf, -inf, 1, inf, 2, 1, nan, 2, 0.125, 1000, 999.75)
	x.Shape = []int64{6, 3}
	got := evalCall(t, "_max_exp_sum", dense(x), []Given{givenList(givenInt(1))})
	require.Equal(t, dtype.Float, got[0].Type)

	f := NewFusion()
	v := define(t, f, dense(x), true)[0].Val
	largest, err := f.Apply(MaxOp, TensorOf(v), IntsOf(1), BoolOf(true), DTypeOf(dtype.Null))
	require.NoError(t, err)
	d, err := f.Apply(SubOp, TensorOf(v), TensorOf(largest[0]))
	require.NoError(t, err)
	e, err := f.Apply(ExpOp, TensorOf(d[0]))
	require.NoError(t, err)
	sum, err := f.Apply(SumOp, TensorOf(e[0]), IntsOf(1), BoolOf(false), DTypeOf(dtype.Null))
	require.NoError(t, err)
	flat, err := f.Apply(SqueezeOp, TensorOf(largest[0]), IntsOf(1))
	require.NoError(t, err)
	want := evalOutputs(t, f, dense(x), []ValID{flat[0], sum[0]})
	requireEqualArrays(t, want[0], got[0])
	requireEqualArrays(t, want[1], got[1])

	none := &Array{Type: dtype.Float, Shape: []int64{2, 0}, F: []float64{}}
	got = evalCall(t, "_max_exp_sum", dense(none), []Given{givenList(givenInt(1))})
	require.Equal(t, []float64{-inf, -inf}, got[0].F)
	require.Equal(t, []float64{0, 0}, got[1].F)

	half := floats(dtype.Half, 1, 2)
	require.Equal(t, dtype.Float, evalCall(t, "_max_exp_sum", dense(half), []Given{givenList(givenInt(0))})[1].Type)
}
