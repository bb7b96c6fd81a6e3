package core

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// countingFrom is an array of first, first+1, ...
func countingFrom(t dtype.Type, first float64, shape ...int64) *Array {
	values := make([]float64, NumElements(shape))
	for i := range values {
		values[i] = first + float64(i)
	}
	return array(t, shape, values...)
}

func TestMatmul(t *testing.T) {
	f := dtype.Float
	for _, c := range []struct {
		name  string
		a, b  *Array
		shape []int64
		want  []float64
	}{
		{"matrices", countingFrom(f, 1, 2, 3), countingFrom(f, 1, 3, 2), []int64{2, 2}, []float64{22, 28, 49, 64}},
		{"vectors", countingFrom(f, 1, 3), countingFrom(f, 4, 3), nil, []float64{32}},
		{"vector and matrix", countingFrom(f, 1, 3), countingFrom(f, 1, 3, 2), []int64{2}, []float64{22, 28}},
		{"matrix and vector", countingFrom(f, 1, 2, 3), countingFrom(f, 1, 3), []int64{2}, []float64{14, 32}},
		{"batches", countingFrom(f, 1, 2, 1, 2), countingFrom(f, 1, 2, 2, 1), []int64{2, 1, 1}, []float64{5, 25}},
		{"batch against matrix", countingFrom(f, 1, 2, 2, 2), countingFrom(f, 1, 2, 2), []int64{2, 2, 2}, []float64{7, 10, 15, 22, 23, 34, 31, 46}},
		{"matrix against batch", countingFrom(f, 1, 1, 2), countingFrom(f, 1, 2, 2, 1), []int64{2, 1, 1}, []float64{5, 11}},
		{"vector against batch", countingFrom(f, 1, 2), countingFrom(f, 1, 2, 2, 1), []int64{2, 1}, []float64{5, 11}},
		{"batch against vector", countingFrom(f, 1, 2, 1, 2), countingFrom(f, 1, 2), []int64{2, 1}, []float64{5, 11}},
		{"broadcast batches", countingFrom(f, 1, 2, 1, 1, 2), countingFrom(f, 1, 1, 2, 2, 1), []int64{2, 2, 1, 1}, []float64{5, 11, 11, 25}},
		{"aligned batches", countingFrom(f, 1, 2, 1, 1, 2), countingFrom(f, 1, 2, 2, 1), []int64{2, 2, 1, 1}, []float64{5, 11, 11, 25}},
		{"empty sum", countingFrom(f, 1, 2, 0), countingFrom(f, 1, 0, 2), []int64{2, 2}, make([]float64, 4)},
		{"no rows", countingFrom(f, 1, 0, 2), countingFrom(f, 1, 2, 3), []int64{0, 3}, nil},
		{"int32 wraps", array(dtype.Int32, []int64{2}, math.MaxInt32, math.MaxInt32), array(dtype.Int32, []int64{2}, 1, 2), nil, []float64{math.MaxInt32 - 2}},
		{"complex", array(dtype.ComplexFloat, []int64{2}, 1, 2), array(dtype.ComplexFloat, []int64{2}, 3, 4), nil, []float64{11}},
		{"rounded once", array(dtype.BFloat16, []int64{3}, 256, 1, 1), array(dtype.BFloat16, []int64{3}, 1, 1, 1), nil, []float64{258}},
	} {
		t.Run(c.name, func(t *testing.T) {
			requireArray(t, evalCall(t, "matmul", dense(c.a, c.b), nil)[0], c.a.Type, c.shape, c.want...)
		})
	}
	imaginary := array(dtype.ComplexDouble, []int64{1}, 0)
	imaginary.C[0] = 2i
	require.Equal(t, []complex128{-4}, evalCall(t, "matmul", dense(imaginary, imaginary), nil)[0].C)
	expanded := []operandCase{{array(f, []int64{2, 2}, 1, 2, 1, 2), []int{0}}, {array(f, []int64{2, 2}, 3, 3, 4, 4), []int{1}}}
	requireArray(t, evalCall(t, "matmul", expanded, nil)[0], f, []int64{2, 2}, 11, 11, 11, 11)
}

func TestMatmulErrors(t *testing.T) {
	f := dtype.Float
	for _, c := range []struct {
		a, b *Array
		want string
	}{
		{countingFrom(f, 1, 2, 3), countingFrom(f, 1, 2, 3), "matmul(): the sizes of the summed dimensions of arg1 and arg2 must be equal, got 3 and 2"},
		{countingFrom(f, 1, 2, 3), countingFrom(dtype.Double, 1, 3, 3), "matmul(): arg1 is Float and arg2 is Double; cast one of them"},
		{countingFrom(dtype.Bool, 1, 2), countingFrom(dtype.Bool, 1, 2), "matmul(): arg1 must be of numeric, not bool type, got Bool"},
		{countingFrom(f, 1), countingFrom(f, 1, 1), "matmul(): arg1 has no dimensions; it must have at least one"},
		{countingFrom(f, 1, 1), countingFrom(f, 1), "matmul(): arg2 has no dimensions; it must have at least one"},
		{countingFrom(f, 1, 2, 1, 2), countingFrom(f, 1, 3, 2, 1), "matmul(): sizes of the batch dimensions must be equal or broadcast, got 2 and 3"},
	} {
		require.EqualError(t, callError(t, "matmul", dense(c.a, c.b), nil), c.want)
	}
	g := NewFusion()
	given := define(t, g, dense(countingFrom(f, 1, 2, 3), countingFrom(f, 1, 3, 2)), false)
	out, err := g.Call(MatmulOp, given, nil)
	require.NoError(t, err)
	require.NoError(t, g.AddOutput(out[0], NoVal))
	_, err = g.Eval([]*Array{countingFrom(f, 1, 2, 3), countingFrom(f, 1, 2, 3)}, make([]scalar.Value, 2), RandomState{})
	require.EqualError(t, err, "matmul(): the sizes of the summed dimensions of arg1 and arg2 must be equal, got 3 and 2")
	root := g.Val(out[0]).Domain.Root
	require.Equal(t, Reduce, g.Axis(root[2]).Kind)
	e := g.Expr(g.Val(out[0]).Def)
	require.Equal(t, []int{0, -1, 1}, MatmulOp.AxisMap(g, e, 0, 0))
	require.Equal(t, []int{-1, 1, 0}, MatmulOp.AxisMap(g, e, 1, 0))
	require.Equal(t, []int{1}, MatmulOp.NeedsWhole(g, e))
	batches := operandCase{array(f, []int64{2, 1, 1}, 1, 1), []int{0}}
	out, err = g.Call(MatmulOp, define(t, g, []operandCase{batches, batches}, true), nil)
	require.NoError(t, err)
	require.Equal(t, Iter, g.Axis(g.Axes(out[0])[0]).Kind, "a product is written in full")
}

// A product of matrices that exist may have more elements than any tensor.
func TestHugeProduct(t *testing.T) {
	f := NewFusion()
	var given []Given
	for _, shape := range [][]int64{{1 << 40, 1 << 20}, {1 << 20, 1 << 40}} {
		v, err := f.DefineTensor(TensorDescription{Shape: shape, Contiguity: []Tri{Yes, Yes}, DType: dtype.Half})
		require.NoError(t, err)
		given = append(given, givenVal(v))
	}
	_, err := f.Call(MatmulOp, given, nil)
	require.EqualError(t, err, "matmul(): the result would have more than 2^63-1 elements")
}

func TestLinear(t *testing.T) {
	f := dtype.Float
	a, w := countingFrom(f, 1, 2, 3), countingFrom(f, 1, 2, 3)
	requireArray(t, evalCall(t, "linear", dense(a, w), nil)[0], f, []int64{2, 2}, 14, 32, 32, 77)
	requireArray(t, evalCall(t, "linear", dense(a, w, array(f, []int64{2}, 10, 20)), nil)[0], f, []int64{2, 2}, 24, 52, 42, 97)
	requireArray(t, evalCall(t, "linear", dense(countingFrom(f, 1, 3), w), nil)[0], f, []int64{2}, 14, 32)
	requireArray(t, evalCall(t, "linear", dense(countingFrom(f, 1, 1, 2, 3), w), nil)[0], f, []int64{1, 2, 2}, 14, 32, 32, 77)
	requireArray(t, evalCall(t, "linear", dense(a, countingFrom(f, 1, 3), countingFrom(f, 5)), nil)[0], f, []int64{2}, 19, 37)
	requireArray(t, evalCall(t, "linear", dense(countingFrom(f, 1, 2, 0), countingFrom(f, 1, 2, 0), countingFrom(f, 5, 2)), nil)[0], f, []int64{2, 2}, 5, 6, 5, 6)
	require.EqualError(t, callError(t, "linear", dense(a, countingFrom(f, 1, 3, 2)), nil), "linear(): the sizes of the summed dimensions of arg1 and arg2 must be equal, got 3 and 2")
	require.EqualError(t, callError(t, "linear", dense(a, countingFrom(f, 1, 1, 2, 3)), nil), "linear(): arg2 has 3 dimensions; it must have 2, or 1 for a single output")
	require.EqualError(t, callError(t, "linear", dense(a, w, countingFrom(f, 1, 3)), nil), "linear(): the size of bias must be that of dimension 0 of arg2, got 3 and 2")
	require.EqualError(t, callError(t, "linear", dense(a, w, countingFrom(f, 1)), nil), "linear(): bias has 0 dimensions; beside arg2 with 2 it must have 1")
	require.EqualError(t, callError(t, "linear", dense(a, w, countingFrom(dtype.Half, 1, 2)), nil), "linear(): arg1 is Float and bias is Half; cast one of them")
	require.EqualError(t, callError(t, "linear", dense(countingFrom(f, 1), w), nil), "linear(): arg1 has no dimensions; it must have at least one")
	require.Contains(t, text(t, "linear", dense(a, w, countingFrom(f, 1, 2)), nil), "tv3 = fd.ops.linear(tv0, tv1, bias=tv2)\n")
}

func TestGroupedMm(t *testing.T) {
	f := dtype.Float
	ends := func(n ...float64) *Array { return array(dtype.Int32, []int64{int64(len(n))}, n...) }
	for _, c := range []struct {
		name       string
		a, b, ends *Array
		shape      []int64
		want       []float64
	}{
		{"rows", countingFrom(f, 1, 4, 2), countingFrom(f, 1, 2, 2, 1), ends(1, 3), []int64{4, 1}, []float64{5, 25, 39, 0}},
		{"columns", countingFrom(f, 1, 2, 1, 2), countingFrom(f, 1, 2, 3), ends(1, 2), []int64{1, 3}, []float64{9, 26, 0}},
		{"summed", countingFrom(f, 1, 1, 4), countingFrom(f, 1, 4, 1), ends(1, 3), []int64{2, 1, 1}, []float64{1, 13}},
		{"an empty group", countingFrom(f, 1, 2, 1), countingFrom(f, 1, 3, 1, 1), ends(1, 1, 2), []int64{2, 1}, []float64{1, 6}},
		{"beyond the end", countingFrom(f, 1, 1, 2), countingFrom(f, 1, 2, 1), ends(9, 9), []int64{2, 1, 1}, []float64{5, 0}},
		{"negative", countingFrom(f, 1, 1, 2), countingFrom(f, 1, 2, 1), ends(-1, 2), []int64{2, 1, 1}, []float64{0, 5}},
		{"no groups", countingFrom(f, 1, 2, 1), countingFrom(f, 1, 0, 1, 1), ends(), []int64{2, 1}, []float64{0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			requireArray(t, evalCall(t, "grouped_mm", dense(c.a, c.b, c.ends), nil)[0], f, c.shape, c.want...)
		})
	}
	for _, c := range []struct {
		a, b, ends *Array
		want       string
	}{
		{countingFrom(f, 1, 1, 1, 1), countingFrom(f, 1, 1, 1, 1), ends(1), "grouped_mm(): mat1 has 3 dimensions and mat2 3; they must have 2 and 3, 3 and 2, or 2 and 2"},
		{countingFrom(f, 1, 2, 2), countingFrom(f, 1, 2, 2, 2), ends(1), "grouped_mm(): the size of offsets must be that of dimension 0 of mat2, got 1 and 2"},
		{countingFrom(f, 1, 2, 2, 2), countingFrom(f, 1, 2, 2), ends(1, 2, 3), "grouped_mm(): the size of offsets must be that of dimension 0 of mat1, got 3 and 2"},
		{countingFrom(f, 1, 2, 3), countingFrom(f, 1, 2, 2), ends(1), "grouped_mm(): the sizes of the summed dimensions of mat1 and mat2 must be equal, got 3 and 2"},
		{countingFrom(f, 1, 2, 3), countingFrom(f, 1, 2, 2), array(dtype.Int, nil, 1), "grouped_mm(): offsets has 0 dimensions; it must have one"},
		{countingFrom(f, 1, 2, 3), countingFrom(dtype.Half, 1, 2, 2), ends(1), "grouped_mm(): mat1 is Float and mat2 is Half; cast one of them"},
	} {
		require.EqualError(t, callError(t, "grouped_mm", dense(c.a, c.b, c.ends), nil), c.want)
	}
}
