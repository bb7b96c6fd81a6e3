package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
)

func TestSentence(t *testing.T) {
	require.Equal(t, "shape [3, 4] has 2 dimensions", sentence("shape %v has %d dimensions", []int64{3, 4}, 2))
	require.Equal(t, "1 dimension and 2 dimensions", sentence("%d dimensions and %d dimensions", 1, 2))
	require.Equal(t, "2 dimensions and 1 dimension", sentence("%d dimensions and %d dimensions", 2, int64(1)))
	require.Equal(t, "100% of 1 entry", sentence("%d%% of %d entries", 100, 1))
	require.Equal(t, "size 1 and 1 of the dimensions", sentence("size %d and %d of the dimensions", 1, 1))
	require.Equal(t, "1 of 1 input", sentence("%v of %d inputs", 1, 1))
}

// A mistake that an expansion or the inference of its operations finds is that
// of the operation which was called, also when it shows at run time only.
func TestErrorsNameTheCalledOperation(t *testing.T) {
	f := NewFusion()
	x, err := f.DefineTensor(TensorDescription{Shape: []int64{-1, 4}, Contiguity: []Tri{Yes, Yes}, DType: dtype.Float})
	require.NoError(t, err)
	given := []Given{givenVal(x), givenList(givenInt(5), givenInt(4), givenInt(5)), givenList(givenInt(0), givenInt(2))}
	_, err = f.Call(BroadcastInDimOp, given, nil)
	require.EqualError(t, err, "broadcast_in_dim(): the size of dimension 2 must be 1 or that of shape, got 4 and 5")
	require.IsType(t, &InvalidArgument{}, err)

	given[1] = givenList(givenInt(5), givenInt(4), givenInt(4))
	v, err := f.Call(BroadcastInDimOp, given, nil)
	require.NoError(t, err)
	require.NoError(t, f.AddOutput(v[0], NoVal))
	_, err = f.Bind([]InputValue{{Tensor: true, DType: dtype.Float, Sizes: []int64{3, 4}}})
	require.EqualError(t, err, "broadcast_in_dim(): the size of dimension 0 must be 1 or that of shape, got 3 and 5")

	_, err = f.Call(ExpandOp, []Given{givenVal(x), givenList(givenInt(3), givenInt(3))}, nil)
	require.EqualError(t, err, "expand(): the size of dimension 1 must be 1 or that of shape, got 4 and 3")
}
