package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
)

func pathText(s *Scheduled, path []hop) string {
	text := ""
	for _, h := range path {
		arrow := " up to "
		if h.edge == nil {
			arrow = " beside "
		} else if h.down {
			arrow = " down to "
		}
		text += s.name(h.from) + arrow + s.name(h.to) + "\n"
	}
	return text
}

// The maximum spanning tree takes the ways that lose the fewest axes.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		name, text string
		reference  int
		want       string
	}{
		{"normalisation", pointwise, 4, "tv4 up to tv1\ntv4 up to tv3\ntv1 down to tv2\n"},
		{"broadcast first", `%0 = tensor f32 [10, 6] contiguity=[yes, yes]
%1 = neg %0
%2 = sum %1 dims=[1] keepdim=false dtype=f32
%3 = broadcast %2 is_broadcast_dim=[false, true]
%4 = sub %3, %1
output %4
`, 4, "tv4 up to tv3\ntv4 up to tv1\ntv1 down to tv2\n"},
		{"parts of an axis", `%0 = tensor f32 [4, 6] contiguity=[yes, yes]
%1 = neg %0
%2 = exp %1
%3 = sum %1 dims=[1] keepdim=false dtype=f32
%4 = broadcast %3 is_broadcast_dim=[false, true]
%5 = expand %4 shape=[4, 6]
%6 = reshape %5 new_shape=[24]
%7 = reshape %2 new_shape=[24]
%8 = add %6, %7
output %8
`, 8, "tv8 up to tv6\ntv8 up to tv7\ntv6 up to tv5\ntv7 up to tv2\ntv5 up to tv4\ntv2 up to tv1\ntv1 down to tv3\n"},
		{"from the reduction", pointwise, 2, "tv2 up to tv1\ntv1 down to tv4\ntv4 up to tv3\n"},
		{"transpose", "%0 = tensor f32 [4, 6] contiguity=[yes, yes]\n%1 = neg %0\n%2 = permute %1 dims=[1, 0]\n%3 = exp %2\noutput %3\n", 3, "tv3 up to tv2\ntv2 up to tv1\n"},
		{"reshape", "%0 = tensor f32 [4, 6] contiguity=[yes, yes]\n%1 = neg %0\n%2 = reshape %1 new_shape=[24]\n%3 = exp %2\n%4 = exp %1\noutput %3\noutput %4\n", 4, "tv4 up to tv1\ntv1 down to tv2\ntv2 down to tv3\n"},
		{"cat", "%0 = tensor f32 [4, 6] contiguity=[yes, yes]\n%1 = neg %0\n%2 = exp %0\n%3 = cat [%1, %2] dim=1 manual_padding=false\noutput %3\n", 3, "tv3 up to tv1\ntv3 up to tv2\n"},
		{"welford", "%0 = tensor f32 [4, 6] contiguity=[yes, yes]\n%1 = neg %0\n%2, %3, %4 = welford %1 dims=[1]\noutput %2\noutput %3\noutput %4\n", 2, "tv2 up to tv1\ntv2 beside tv3\ntv2 beside tv4\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := parsed(t, c.text)
			require.Equal(t, c.want, pathText(s, s.spread(tv(s, c.reference), nil)))
		})
	}
}

// The reduction axis of the sum follows the output's, by way of what both read.
func TestTransformLike(t *testing.T) {
	s := parsed(t, pointwise)
	out := tv(s, 4)
	steps(t, s.Split(out, 1, 4, true), s.Split(out, 0, 5, false), s.Reorder(out, map[int]int{0: -1}))
	require.Empty(t, done[[]core.Refusal](t)(s.TransformLike(out, nil)))
	for _, n := range []int{1, 2} {
		require.Equal(t, []int64{2, 2, 4, 5}, extents(s, s.Loop(tv(s, n))))
	}
	require.Equal(t, []int64{2, 1, 1, 5}, extents(s, s.Loop(tv(s, 3))))
	require.Equal(t, core.Reduce, s.kind(s.Loop(tv(s, 2))[1]))
	require.NoError(t, s.Verify())

	// Once more: what is there already is kept, with its parallel types.
	kept := s.Loop(tv(s, 1))[3]
	require.NoError(t, s.Parallelize(tv(s, 1), 3, TIDx))
	require.NoError(t, s.Split(out, 0, 2, true))
	require.Empty(t, done[[]core.Refusal](t)(s.TransformLike(out, nil)))
	require.Equal(t, []int64{1, 2, 2, 4, 5}, extents(s, s.Loop(tv(s, 1))))
	require.Equal(t, kept, s.Loop(tv(s, 1))[4])

	s.tensors[tv(s, 1)].position = 1
	require.NoError(t, s.Split(out, -1, 2, true))
	refused := done[[]core.Refusal](t)(s.TransformLike(out, nil))
	require.Equal(t, "tv1 is inlined already; transform before inlining", refused[0].Sentence)
	require.Equal(t, []int64{1, 2, 2, 4, 5}, extents(s, s.Loop(tv(s, 2))))
	_, err := s.TransformLike(tv(s, 0), nil)
	require.Error(t, err)
}

func TestTransformLikeSelected(t *testing.T) {
	s := parsed(t, pointwise)
	out := tv(s, 4)
	require.NoError(t, s.Merge(out, 0, 1))
	require.Empty(t, done[[]core.Refusal](t)(s.TransformLike(out, []core.ValID{tv(s, 1)})))
	require.Equal(t, []int64{60}, extents(s, s.Loop(tv(s, 1))))
	require.Equal(t, []int64{10, 1}, extents(s, s.Loop(tv(s, 3))))
	// The sum would merge an axis that it reduces with one that it does not.
	refused := done[[]core.Refusal](t)(s.TransformLike(out, nil))
	require.Len(t, refused, 1)
	require.Equal(t, "tv2", refused[0].Tensor)
	require.ErrorContains(t, &Refused{refused[0]}, "cannot be merged")
}

func TestTransformBackward(t *testing.T) {
	s := parsed(t, pointwise)
	out := tv(s, 4)
	steps(t, s.Split(out, 0, 5, true), s.Split(out, 2, 4, true))
	require.Empty(t, done[[]core.Refusal](t)(s.TransformBackward(out, 2, []core.ValID{tv(s, 2)})))
	require.Equal(t, []int64{2, 5, 1}, extents(s, s.Loop(tv(s, 3))))
	require.Equal(t, []int64{2, 5, 6}, extents(s, s.Loop(tv(s, 2))))
	require.Equal(t, []int64{10, 6}, extents(s, s.Loop(tv(s, 1))))
	_, err := s.TransformBackward(tv(s, 2), -1, []core.ValID{out})
	require.EqualError(t, err, "bounded_transform_backward(): tv2 is not computed from tv4")
	_, err = s.TransformBackward(out, 5, nil)
	require.ErrorContains(t, err, "out of range")
}

func TestParallelizeLike(t *testing.T) {
	s := parsed(t, pointwise)
	out := tv(s, 4)
	require.NoError(t, s.Split(out, 1, 4, true))
	require.Empty(t, done[[]core.Refusal](t)(s.TransformLike(out, nil)))
	steps(t, s.Parallelize(out, 0, BIDx), s.Parallelize(out, 1, TIDx), s.Parallelize(out, 2, Unroll))
	types := func(n int) []Parallel {
		var p []Parallel
		for _, a := range s.Loop(tv(s, n)) {
			p = append(p, s.Parallel(a))
		}
		return p
	}
	require.NoError(t, s.ParallelizeLike(out, -1, []core.ValID{tv(s, 1)}, []Parallel{BIDx, TIDx}))
	require.Equal(t, []Parallel{BIDx, TIDx, Serial}, types(1))
	require.Equal(t, []Parallel{Serial, Serial, Serial}, types(2))
	require.NoError(t, s.Parallelize(tv(s, 3), 2, Unswitch)) // stays
	require.NoError(t, s.ParallelizeLike(out, -1, nil, nil))
	require.Equal(t, []Parallel{BIDx, TIDx, Unroll}, types(2))
	require.Equal(t, []Parallel{BIDx, TIDx, Unswitch}, types(3))
	require.Equal(t, Serial, s.Parallel(s.Loop(tv(s, 0))[0]))
	require.Error(t, s.ParallelizeLike(out, 4, nil, nil))

	// Through a broadcast: the row's merged loops stand for the output's.
	s = parsed(t, "%0 = tensor f32 [5] contiguity=[yes]\n%1 = tensor f32 [6, 5] contiguity=[yes, yes]\n%2 = neg %0\n%3 = broadcast %2 is_broadcast_dim=[true, false]\n%4 = add %3, %1\noutput %4\n")
	out = tv(s, 4)
	steps(t, s.Merge(out, 0, 1), s.Split(out, 0, 4, true), s.Parallelize(out, 0, BIDx), s.Parallelize(out, 1, TIDx))
	require.Empty(t, done[[]core.Refusal](t)(s.TransformLike(out, nil)))
	require.NoError(t, s.ParallelizeLike(out, -1, nil, nil))
	require.Equal(t, []int64{2, 4}, extents(s, s.Loop(tv(s, 2))))
	require.Equal(t, []Parallel{BIDx, TIDx}, types(2))
	require.NoError(t, s.InlineMost(nil, nil))
	require.NoError(t, s.Verify())
}

// relaid is a norm of rows that is written in windows of 2 by 3 rows.
const relaid = `%0 = tensor i64 [4, 6, 8] contiguity=[yes, yes, yes]
%1 = sum %0 dims=[2] keepdim=false dtype=i64
%2 = broadcast %1 is_broadcast_dim=[false, false, true]
%3 = sub %0, %2
%4 = reshape %3 new_shape=[2, 2, 2, 3, 8]
%5 = permute %4 dims=[0, 2, 1, 3, 4]
%6 = reshape %5 new_shape=[4, 6, 8]
output %6
`

// Loops over rows go through what is reshaped after they are reduced: the reshapes are undone.
func TestTransformLikeUndoesReshapes(t *testing.T) {
	s := parsed(t, relaid)
	sum := tv(s, 1)
	steps(t, s.Merge(sum, 0, 1), s.Split(sum, 0, 5, true))
	for range 2 { // the second time nothing is left to do
		require.Empty(t, done[[]core.Refusal](t)(s.TransformLike(sum, nil)))
		for _, n := range []int{3, 4, 5, 6} {
			require.Equal(t, []int64{5, 5, 8}, extents(s, s.Loop(tv(s, n))))
		}
	}
	transforms := s.f.NumTransforms()
	require.Empty(t, done[[]core.Refusal](t)(s.TransformLike(sum, nil)))
	require.Equal(t, transforms, s.f.NumTransforms())
	require.NoError(t, s.Parallelize(sum, 0, BIDx))
	require.NoError(t, s.ParallelizeLike(sum, -1, nil, nil))
	require.NoError(t, s.InlineMost(nil, nil))
	require.Equal(t, []int{2, 3, 3, 3}, []int{s.Position(sum), s.Position(tv(s, 3)), s.Position(tv(s, 4)), s.Position(tv(s, 5))})
	require.NoError(t, s.Verify())
	m := done[*Mapping](t)(Map(s))
	for _, n := range []int{3, 4, 5, 6} {
		require.Equal(t, m.LoopClass(s.Loop(sum)[1]), m.LoopClass(s.Loop(tv(s, n))[1]))
		require.Equal(t, m.Exact(s.Loop(sum)[0]), m.Exact(s.Loop(tv(s, n))[0]))
	}
}
