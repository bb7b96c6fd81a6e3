package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
)

// An Index is an Int in memory, and callers have no other tensor to give.
func TestBindTakesIntsForIndex(t *testing.T) {
	f := NewFusion()
	x, err := f.DefineTensor(TensorDescription{Shape: []int64{-1}, Contiguity: []Tri{Yes}, DType: dtype.Index})
	require.NoError(t, err)
	y, err := f.Apply(SetOp, TensorOf(x))
	require.NoError(t, err)
	require.NoError(t, f.AddOutput(y[0], NoVal))
	_, err = f.Bind([]InputValue{{Tensor: true, DType: dtype.Int, Sizes: []int64{3}}})
	require.NoError(t, err)
	_, err = f.Bind([]InputValue{{Tensor: true, DType: dtype.Int32, Sizes: []int64{3}}})
	require.ErrorContains(t, err, "input 0 (tv0) has dtype Int32, but the definition says Index")
}
