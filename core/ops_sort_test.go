package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// The orders are those of torch, with stable=True.
func TestArgsort(t *testing.T) {
	x := array(dtype.Float, []int64{6}, 3, nan, -1, nan, inf, -1)
	requireArray(t, evalCall(t, "argsort", dense(x), []Given{givenInt(0)})[0], dtype.Int, []int64{6}, 2, 5, 0, 4, 1, 3)
	requireArray(t, evalCall(t, "argsort", dense(x), []Given{givenInt(0), givenBool(true), givenBool(true)})[0], dtype.Int, []int64{6}, 1, 3, 4, 0, 2, 5)
	y := array(dtype.Int32, []int64{2, 3}, 3, 1, 2, -1, -3, -2)
	requireArray(t, evalCall(t, "argsort", dense(y), []Given{givenInt(-1)})[0], dtype.Int, []int64{2, 3}, 1, 2, 0, 1, 2, 0)
	requireArray(t, evalCall(t, "argsort", dense(y), []Given{givenInt(0)})[0], dtype.Int, []int64{2, 3}, 1, 1, 1, 0, 0, 0)
	requireArray(t, evalCall(t, "argsort", dense(array(dtype.Bool, []int64{3}, 1, 0, 1)), []Given{givenInt(0)})[0], dtype.Int, []int64{3}, 1, 0, 2)
	big := array(dtype.UInt64, []int64{2}, 0, 1)
	big.I[0] = -1
	requireArray(t, evalCall(t, "argsort", dense(big), []Given{givenInt(0)})[0], dtype.Int, []int64{2}, 1, 0)
	ties := evalCall(t, "argsort", dense(pattern(1, 1, 100)), []Given{givenInt(0), givenBool(true)})[0]
	for i := 1; i < ties.Len(); i++ { // 9 or 10 elements of each of 11 values
		if a, b := ties.I[i-1], ties.I[i]; a%11 == b%11 {
			require.Less(t, a, b)
		}
	}
	require.Empty(t, evalCall(t, "argsort", dense(array(dtype.Float, []int64{0, 3})), []Given{givenInt(0)})[0].I)
	expanded := []operandCase{{array(dtype.Float, []int64{3}, 1, 1, 1), []int{0}}}
	requireArray(t, evalCall(t, "argsort", expanded, []Given{givenInt(0)})[0], dtype.Int, []int64{3}, 0, 1, 2)
	require.EqualError(t, callError(t, "argsort", dense(array(dtype.ComplexFloat, []int64{1}, 1)), []Given{givenInt(0)}), "argsort(): arg must be of real type, got ComplexFloat")
	require.EqualError(t, callError(t, "argsort", dense(array(dtype.Float, nil, 1)), []Given{givenInt(0)}), "argsort(): dim is 0, and a tensor with 0 dimensions has none")
}

func TestTopk(t *testing.T) {
	x := array(dtype.Float, []int64{5}, 3, nan, -1, nan, inf)
	out := evalCall(t, "topk", dense(x), []Given{givenInt(4)})
	requireArray(t, out[0], dtype.Float, []int64{4}, nan, nan, inf, 3)
	requireArray(t, out[1], dtype.Int, []int64{4}, 1, 3, 4, 0)
	out = evalCall(t, "topk", dense(x), []Given{givenInt(4)}, named("largest", givenBool(false)), named("sorted", givenBool(true)))
	requireArray(t, out[0], dtype.Float, []int64{4}, -1, 3, inf, nan)
	requireArray(t, out[1], dtype.Int, []int64{4}, 2, 0, 4, 1)
	y := array(dtype.BFloat16, []int64{2, 3}, 5, 5, 1, 7, 8, 8)
	out = evalCall(t, "topk", dense(y), []Given{givenInt(1), givenInt(0)})
	requireArray(t, out[0], dtype.BFloat16, []int64{1, 3}, 7, 8, 8)
	requireArray(t, out[1], dtype.Int, []int64{1, 3}, 1, 1, 1)
	out = evalCall(t, "topk", dense(y), []Given{givenInt(2)})
	requireArray(t, out[1], dtype.Int, []int64{2, 2}, 0, 1, 1, 2)
	out = evalCall(t, "topk", dense(y), []Given{givenInt(0)})
	require.Equal(t, []int64{2, 0}, out[0].Shape)
	require.EqualError(t, callError(t, "topk", dense(y), []Given{givenInt(4)}), "topk(): k must be from 0 to the size of dimension 1, got 4 and 3")
	require.EqualError(t, callError(t, "topk", dense(y), []Given{givenInt(-1)}), "topk(): k must be from 0 to the size of dimension 1, got -1 and 3")
	require.EqualError(t, callError(t, "topk", dense(y), []Given{givenInt(1 << 62)}), "topk(): k must be from 0 to the size of dimension 1, got 4611686018427387904 and 3")
	require.EqualError(t, callError(t, "topk", dense(array(dtype.Float, nil, 1)), []Given{givenInt(1)}), "topk(): dim is -1, and a tensor with 0 dimensions has none")
	require.Contains(t, text(t, "topk", dense(y), []Given{givenInt(2), givenInt(-2)}), "tv1, tv2 = fd.ops.topk(tv0, k=2, dim=0)\n")
}

func TestTopkAtRunTime(t *testing.T) {
	f := NewFusion()
	x := define(t, f, dense(array(dtype.Float, []int64{2}, 1, 2)), false)
	k, err := f.DefineScalar(dtype.Int)
	require.NoError(t, err)
	out, err := f.Call(TopkOp, append(x, givenVal(k)), nil)
	require.NoError(t, err)
	require.NoError(t, f.AddOutput(out[1], NoVal))
	require.NoError(t, f.Verify())
	run := func(k int64) ([]*Array, error) {
		return f.Eval([]*Array{array(dtype.Float, []int64{2}, 1, 2), nil}, []scalar.Value{{}, {Type: dtype.Int, I: k}}, RandomState{})
	}
	got, err := run(2)
	require.NoError(t, err)
	requireArray(t, got[0], dtype.Int, []int64{2}, 1, 0)
	_, err = run(3)
	require.EqualError(t, err, "topk(): k must be from 0 to the size of dimension 0, got 3 and 2")
	_, err = run(-1)
	require.EqualError(t, err, "topk(): k must be from 0 to the size of dimension 0, got -1 and 2")
}
