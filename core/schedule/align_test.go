package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
)

// Whoever follows aligned rows is shifted by the same phase, broadcasts stay one, and the two
// steps of a reduction know whose rows they are.
func TestAlignRows(t *testing.T) {
	s := parsed(t, "%0 = tensor i64 [-1, -1] contiguity=[yes, yes]\n%1 = sum %0 dims=[1] keepdim=false dtype=i64\n%2 = broadcast %1 is_broadcast_dim=[false, true]\n%3 = sub %0, %2\noutput %3\n")
	out := tv(s, 3)
	done[core.ValID](t)(s.CacheAfter(tv(s, 0), nil))
	for _, x := range []struct {
		row, column int
		width       int64
		want        string
	}{
		{0, 2, 4, "align_rows(): axis 2 is out of range for tv3, which has 2 axes"},
		{-3, 1, 4, "align_rows(): axis -3 is out of range for tv3, which has 2 axes"},
		{1, 1, 4, "align_rows(): axis 1 of tv3 is given as the row and as the column"},
		{0, 1, 1, "align_rows(): width is 1; it must be a power of two from 2 to 128"},
		{0, 1, 6, "align_rows(): width is 6; it must be a power of two from 2 to 128"},
		{0, 1, 256, "align_rows(): width is 256; it must be a power of two from 2 to 128"},
	} {
		require.EqualError(t, s.AlignRows(out, x.row, x.column, x.width), x.want)
	}
	require.EqualError(t, s.AlignRows(out, 0, 1, 4, 0), "align_rows(): axis 0 of tv3 is given twice")
	require.EqualError(t, s.AlignRows(tv(s, 1), 1, 0, 2), "align_rows(): axis 1 of tv1 is reduced; rows are what is kept")
	require.EqualError(t, s.AlignRows(tv(s, 0), 0, 1, 2), "align_rows(): tv0 is an input of the fusion and has no loops; cache_after() makes a copy that has")
	require.NoError(t, s.AlignRows(out, 0, 1, 4))
	require.Contains(t, s.TensorText(out), "= shift i7 by i6 * tv0.1 % 4\n")
	require.NoError(t, s.SplitWhole(out, 1, 12))
	require.NoError(t, s.Split(out, 2, 4, true))
	require.NoError(t, s.Split(out, 0, 2, true))
	require.Empty(t, done[[]core.Refusal](t)(s.TransformLike(out, nil)))
	require.Equal(t, []int64{1, 3, 4}, extents(s, s.Loop(tv(s, 1))[2:]))
	require.Equal(t, []int64{1, 1, 1}, extents(s, s.Loop(tv(s, 2))[2:]))
	rows := s.Phases()[0].Rows
	partial := done[[]core.ValID](t)(s.RFactor(tv(s, 1), []int{2, 3}))[0]
	require.Equal(t, rows, s.Phases()[0].Rows, "of another tensor")
	require.Equal(t, []int64{1, 3, 4}, extents(s, s.Loop(partial)[2:]))
	require.NoError(t, s.InlineMost(nil, nil))
	require.NoError(t, s.Verify())
	require.Equal(t, s.String(), s.Clone().String())
}

// A reduction in two steps whose rows are aligned leaves the phase to the first of them.
func TestRowsOfTwoSteps(t *testing.T) {
	s := parsed(t, rowSum)
	sum := tv(s, 2)
	require.NoError(t, s.AlignRows(sum, 0, 1, 2))
	require.NoError(t, s.Split(sum, 1, 2, true))
	partial := done[[]core.ValID](t)(s.RFactor(sum, []int{2}))[0]
	require.Contains(t, s.axesOf(partial), s.Phases()[0].Rows[0])
	require.NoError(t, s.Verify())
}

// The rows of several axes are counted together.
func TestAlignRowsOfSeveralAxes(t *testing.T) {
	s := parsed(t, "%0 = tensor f32 [-1, -1, -1] contiguity=[yes, yes, yes]\n%1 = neg %0\noutput %1\n")
	out := tv(s, 1)
	require.NoError(t, s.AlignRows(out, 1, 2, 8, 0))
	require.Contains(t, s.TensorText(out), "= shift i5 by (i3 * tv0.1 + i4) * tv0.2 % 8\n")
	require.NoError(t, s.Verify())
	require.Equal(t, s.String(), s.Clone().String())
}
