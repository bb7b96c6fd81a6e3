package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
)

// A row has a norm of all its elements, also where they are one element shown
// several times: its axis is not a broadcast in the result.
func TestEmbeddingOfExpandedRows(t *testing.T) {
	f := NewFusion()
	input, err := f.DefineTensor(TensorDescription{Shape: []int64{2}, Contiguity: []Tri{Yes}, DType: dtype.Int})
	require.NoError(t, err)
	weight, err := f.DefineTensor(TensorDescription{Shape: []int64{3, 5}, Contiguity: []Tri{Yes, NotApplicable}, DType: dtype.Float})
	require.NoError(t, err)
	rows, err := f.Call(EmbeddingFwdOp, []Given{givenVal(input), givenVal(weight)}, []Keyword{named("max_norm", givenFloat(1.5))})
	require.NoError(t, err)
	require.Equal(t, Broadcast, f.Axis(f.Axes(weight)[1]).Kind)
	require.Equal(t, Iter, f.Axis(f.Axes(rows[0])[1]).Kind)
}
