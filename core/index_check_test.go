package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// Each operation that is told positions by a tensor has three more outputs that bound them.
func TestIndexChecks(t *testing.T) {
	f := NewFusion()
	x := define(t, f, dense(array(dtype.Float, []int64{3, 4}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)), false)[0]
	index := define(t, f, dense(array(dtype.Int32, []int64{2}, -7, 9)), false)[0]
	matrix := define(t, f, dense(array(dtype.UInt64, []int64{2, 3}, 5, 6, 7, -1, 9, 10)), false)[0]
	row := define(t, f, dense(array(dtype.Int, []int64{3, 1}, 1, -1, 1)), false)[0]
	value := define(t, f, dense(array(dtype.Float, []int64{2, 4}, 1, 2, 3, 4, 5, 6, 7, 8)), false)[0]
	f.SetLocation(Location{"model.py", 11})
	for _, c := range []struct {
		op   string
		args []Given
	}{
		{"index_select", []Given{x, index, givenInt(1)}}, {"take_along_axis", []Given{x, row, givenInt(1)}},
		{"gather", []Given{x, matrix, givenInt(1)}}, {"scatter", []Given{x, matrix, givenFloat(1), givenInt(1)}},
		{"embedding_fwd", []Given{matrix, x}}, {"index_put_accumulate", []Given{x, index, value}}, {"select", []Given{x, givenInt(0), givenInt(0)}},
	} {
		out, err := f.Call(Lookup(c.op), c.args, nil)
		require.NoError(t, err, c.op)
		require.NoError(t, f.AddOutput(out[0], NoVal))
	}
	f.Freeze()
	before := f.String()
	g, checks, err := f.WithIndexChecks()
	require.NoError(t, err)
	require.NoError(t, g.Verify())
	require.Equal(t, before, f.String())
	require.Len(t, checks, 6)
	require.Equal(t, IndexCheck{IndexSelectOp, "index", f.Name(f.Inputs()[1]), false, "arg", 1, Location{"model.py", 11}}, checks[0])
	require.Equal(t, IndexCheck{EmbeddingFwdOp, "input", f.Name(f.Inputs()[2]), true, "weight", 0, Location{"model.py", 11}}, checks[4])
	got, err := g.Eval([]*Array{array(dtype.Float, []int64{3, 4}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), array(dtype.Int32, []int64{2}, -7, 9),
		array(dtype.UInt64, []int64{2, 3}, 5, 6, 7, -1, 9, 10), array(dtype.Int, []int64{3, 1}, 1, -1, 1), array(dtype.Float, []int64{2, 4}, 1, 2, 3, 4, 5, 6, 7, 8)}, make([]scalar.Value, 5), RandomState{})
	require.NoError(t, err)
	require.Len(t, got, 7+18)
	var bounds []int64
	for _, x := range got[7:] {
		require.Empty(t, x.Shape)
		bounds = append(bounds, x.I[0])
	}
	require.Equal(t, []int64{-7, 9, 4, -1, 1, 4, -1, 10, 4, -1, 10, 4, -1, 10, 3, -7, 9, 3}, bounds)
}
