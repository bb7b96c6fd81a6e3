package schedule

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// requireEval interprets s and compares the outputs with those of its fusion.
func requireEval(t *testing.T, s *Scheduled) {
	t.Helper()
	require.NoError(t, s.f.Verify())
	m := done[*Mapping](t)(Map(s))
	var inputs []*core.Array
	for _, v := range s.f.Inputs() {
		a := core.NewArray(s.f.Val(v).DType, extents(s, s.f.Axes(v)))
		for i := range a.I {
			a.I[i] = int64(i*i%11) - 3
		}
		inputs = append(inputs, a)
	}
	want := done[[]*core.Array](t)(s.f.Eval(inputs, make([]scalar.Value, len(inputs)), core.RandomState{}))
	require.NoError(t, execute(m, inputs, want))
}

func steps(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

const biasText = `%0 = tensor i64 [SIZE] contiguity=[yes]
%1 = tensor i64 [SIZE, 12] contiguity=[yes, yes]
%2 = neg %0
%3 = broadcast %2 is_broadcast_dim=[false, true]
%4 = sub %1, %3
output %4
`

// What is outer in an axis does not cover what is outer in its inner part.
func TestCoverageOfAPartOfAPart(t *testing.T) {
	s := parsed(t, strings.ReplaceAll(biasText, "SIZE", "2"))
	z := tv(s, 4)
	steps(t, s.Split(z, 1, 1, true), s.Merge(z, 0, 1), s.Split(z, 1, 2, true), s.Merge(z, 0, 1), s.Split(z, 1, 1, true), s.Merge(z, 0, 1))
	require.Equal(t, []int64{48, 1}, extents(s, s.Loop(z)))
	done[[]core.Refusal](t)(s.TransformLike(z, nil))
	steps(t, s.InlineAt(tv(s, 3), 1, false), s.InlineAt(tv(s, 2), 1, false))
	m := done[*Mapping](t)(Map(s))
	require.Equal(t, []int64{48}, extents(m.s, []core.AxisID{m.Promotion(s.Loop(tv(s, 2))[0])}))
	requireEval(t, s)
}

// In step 4 a replay takes all inputs as the loops run.
func TestReplayOfLoopsOfOneExtent(t *testing.T) {
	s := parsed(t, strings.ReplaceAll(biasText, "SIZE", "4"))
	z := tv(s, 4)
	steps(t, s.Merge(z, 0, 1), s.Split(z, 0, 2, true), s.Split(z, 1, 1, true), s.Split(z, 1, 5, true), s.Merge(z, 0, 1),
		s.Merge(z, 1, 2), s.Split(z, 0, 5, true))
	require.Equal(t, []int64{5, 5, 5}, extents(s, s.Loop(z)))
	done[[]core.Refusal](t)(s.TransformLike(z, nil))
	steps(t, s.InlineAt(tv(s, 3), 2, false), s.InlineAt(tv(s, 2), 1, false))
	require.Equal(t, 7, replays(done[*Mapping](t)(Map(s))))
	requireEval(t, s)
}

// A loop class's promotion covers those of its members, not only the members.
func TestChoiceCoversPromotions(t *testing.T) {
	s := parsed(t, strings.NewReplacer("SIZE", "6", "12", "5").Replace(biasText))
	z := tv(s, 4)
	steps(t, s.Split(z, 1, 2, true), s.Merge(z, 0, 1), s.Split(z, 0, 7, true), s.Reorder(z, map[int]int{2: 0}))
	done[[]core.Refusal](t)(s.TransformLike(z, nil))
	steps(t, s.InlineAt(tv(s, 3), 1, false), s.InlineAt(tv(s, 2), 1, false))
	requireEval(t, s)
}

// A replay does not mix a promoted input with an unresolved broadcast.
func TestReplayOfAllBroadcasts(t *testing.T) {
	for _, inner := range []int{1, 2} {
		s := parsed(t, `%0 = tensor i64 [6] contiguity=[yes]
%1 = tensor i64 [6, 5, 3] contiguity=[yes, yes, yes]
%2 = neg %0
%3 = broadcast %2 is_broadcast_dim=[false, true, true]
%4 = sub %1, %3
output %4
`)
		z := tv(s, 4)
		steps(t, s.Merge(z, 0, 1), s.Split(z, 0, 4, true), s.Merge(z, 1, 2))
		done[[]core.Refusal](t)(s.TransformLike(z, nil))
		steps(t, s.InlineAt(tv(s, 3), inner, false), s.InlineAt(tv(s, 2), 1, false))
		require.Equal(t, 5-2*inner, replays(done[*Mapping](t)(Map(s))))
		requireEval(t, s)
	}
}

// Where a class is both promoted by step 4 and shared, what covers more is pushed.
func TestPushOfWhatCoversMore(t *testing.T) {
	s := parsed(t, `%0 = tensor i64 [3] contiguity=[yes]
%1 = tensor i64 [3, 3] contiguity=[yes, yes]
%2 = tensor i64 [4, 3, 3] contiguity=[yes, yes, yes]
%3 = neg %0
%4 = broadcast %3 is_broadcast_dim=[false, true]
%5 = mul %4, %1
%6 = broadcast %5 is_broadcast_dim=[true, false, false]
%7 = add %6, %2
output %7
`)
	z := tv(s, 7)
	steps(t, s.Merge(z, 0, 1), s.Split(z, 0, 6, true), s.Merge(z, 1, 2), s.Split(z, 1, 3, true), s.Reorder(z, map[int]int{0: 2}))
	require.Equal(t, []int64{6, 3, 2}, extents(s, s.Loop(z)))
	done[[]core.Refusal](t)(s.TransformLike(z, nil))
	for _, n := range []int{6, 5, 4, 3} {
		require.NoError(t, s.InlineAt(tv(s, n), 1, false))
	}
	requireEval(t, s)
	m := done[*Mapping](t)(Map(s))
	for _, n := range []int{3, 4, 5, 6} {
		require.Equal(t, []int64{6, 3, 2}, extents(m.s, []core.AxisID{m.Promotion(s.Loop(tv(s, n))[0]), m.Promotion(s.Loop(tv(s, n))[1]), m.Promotion(s.Loop(tv(s, n))[2])}))
	}
}

// A loop over a broadcast that nothing resolves runs once, also where it is
// pushed through a split.
func TestPushOfABroadcast(t *testing.T) {
	s := parsed(t, `%0 = tensor i64 [1, 12] contiguity=[none, yes]
%1 = tensor i64 [1, 1, 12] contiguity=[none, none, yes]
%2 = sum %0 dims=[1] keepdim=false dtype=i64
%3 = broadcast %2 is_broadcast_dim=[false, true, true]
%4 = mul %1, %3
output %4
`)
	z := tv(s, 4)
	steps(t, s.Split(z, 1, 4, true), s.Merge(z, 0, 1), s.Merge(z, 1, 2), s.Reorder(z, map[int]int{1: 0}), s.Split(z, 0, 1, true), s.Split(z, 2, 4, false))
	require.Equal(t, []int64{12, 1, 1, 1}, extents(s, s.Loop(z)))
	done[[]core.Refusal](t)(s.TransformLike(z, nil))
	steps(t, s.InlineAt(tv(s, 3), 3, false), s.InlineAt(tv(s, 2), 1, false))
	m := done[*Mapping](t)(Map(s))
	for _, a := range s.Loop(tv(s, 3)) {
		require.NotEqual(t, int64(4), extents(m.s, []core.AxisID{m.Promotion(a)})[0])
	}
	requireEval(t, s)
}

// Axes of one tensor that come together through others are refused: the root
// axis 3 of the reshape would be its logical axis 3 too.
func TestSelfMapping(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"transpose", "%2 = permute %1 dims=[1, 0]\n%3 = add %1, %2\noutput %3\n"},
		{"shift", "%2 = pad %1 pad_widths=[1, -1, 0, 0] value=0:i64\n%3 = add %1, %2\noutput %3\n"},
		{"first", "%2 = pad %1 pad_widths=[0, -5, 0, 0] value=0:i64\n%3 = add %1, %2\noutput %3\n"},
		{"with its parts", "%2 = reshape %1 new_shape=[36]\n%3 = broadcast %2 is_broadcast_dim=[false, true, true]\n%4 = broadcast %1 is_broadcast_dim=[true, false, false]\n%5 = add %3, %4\noutput %5\n"},
		{"with a shifted one", "%2 = sum %1 dims=[1] keepdim=false dtype=i64\n%3 = pad %2 pad_widths=[1, -1] value=0:i64\n%4 = broadcast %2 is_broadcast_dim=[true, false]\n%5 = broadcast %3 is_broadcast_dim=[false, true]\n%6 = add %4, %5\noutput %6\n"},
		{"in two orders", "%2 = permute %1 dims=[1, 0]\n%3 = reshape %1 new_shape=[36]\n%4 = reshape %2 new_shape=[36]\n%5 = add %3, %4\noutput %5\n"},
		{"regrouped", "%2 = reshape %1 new_shape=[2, 3, 6]\n%3 = reshape %2 new_shape=[3, 2, 6]\n%4 = permute %2 dims=[1, 0, 2]\n%5 = add %3, %4\noutput %5\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := parsed(t, "%0 = tensor i64 [6, 6] contiguity=[yes, yes]\n%1 = neg %0\n"+c.text)
			_, err := Map(s)
			var refused *Refused
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "self-mapping", refused.Rule)
		})
	}
	// The uses of an input need nothing in common.
	for _, text := range []string{"%1 = permute %0 dims=[1, 0]\n%2 = add %0, %1\noutput %2\n", "%1 = pad %0 pad_widths=[0, -5, 0, 0] value=0:i64\n%2 = add %0, %1\noutput %2\n"} {
		s := parsed(t, "%0 = tensor i64 [6, 6] contiguity=[yes, yes]\n"+text)
		require.False(t, done[*Mapping](t)(Map(s)).MapsThroughInputs())
		requireEval(t, s)
		require.NoError(t, s.InlineMost(nil, nil))
		requireEval(t, s)
	}
}

// Almost-exact classes keep axes of one tensor apart, and holes visible.
func TestAlmostExact(t *testing.T) {
	s := parsed(t, "%0 = tensor i64 [6, 1] contiguity=[yes, none]\n%1 = neg %0\noutput %1\n")
	v := tv(s, 1)
	i, b := s.Loop(v)[0], s.Loop(v)[1]
	require.NoError(t, s.Merge(v, 0, 1))
	merged := s.Loop(v)[0]
	require.NoError(t, s.Split(v, 0, 1, true))
	outer, one := s.Loop(v)[0], s.Loop(v)[1]
	require.NoError(t, s.Split(v, 0, 6, true))
	six := s.Loop(v)[1]
	m := done[*Mapping](t)(Map(s))
	require.NotEqual(t, m.Exact(i), m.Exact(merged))
	for _, a := range []core.AxisID{merged, outer, six} {
		require.Equal(t, m.AlmostExact(i), m.AlmostExact(a))
	}
	require.NotEqual(t, m.AlmostExact(b), m.AlmostExact(one))

	require.NoError(t, s.Split(v, 2, 4, true)) // the 1 beside has a hole now
	m = done[*Mapping](t)(Map(s))
	require.NotEqual(t, m.AlmostExact(merged), m.AlmostExact(outer))

	s = parsed(t, "%0 = tensor i64 [1, 4] contiguity=[none, yes]\n%1 = neg %0\noutput %1\n")
	v = tv(s, 1)
	b = s.Loop(v)[0]
	require.NoError(t, s.Split(v, 1, 4, true))
	one = s.Loop(v)[1]
	require.NoError(t, s.Merge(v, 0, 1)) // of two of extent 1 the one that is no broadcast
	m = done[*Mapping](t)(Map(s))
	require.Equal(t, m.AlmostExact(one), m.AlmostExact(s.Loop(v)[0]))
	require.NotEqual(t, m.AlmostExact(b), m.AlmostExact(s.Loop(v)[0]))

	s = parsed(t, "%0 = tensor i64 [1, 3] contiguity=[none, yes]\n%1 = sum %0 dims=[1] keepdim=false dtype=i64\noutput %1\n")
	v = tv(s, 1)
	require.NoError(t, s.Split(v, 1, 3, true)) // (1, 3): the 3 is split again
	three := s.Loop(v)[2]
	require.NoError(t, s.Split(v, 2, 3, true))
	m = done[*Mapping](t)(Map(s))
	require.NotEqual(t, m.AlmostExact(s.Loop(v)[1]), m.AlmostExact(s.Loop(v)[2]))
	require.Equal(t, m.AlmostExact(three), m.AlmostExact(s.Loop(v)[3]))
}

// Two slices of one tensor come together, as halves do in a rotary embedding:
// no loop has both the whole and a half.
func TestSlicesOfOneTensor(t *testing.T) {
	s := parsed(t, `%0 = tensor i64 [6, 6] contiguity=[yes, yes]
%1 = neg %0
%2 = pad %1 pad_widths=[0, -3, 0, 0] value=0:i64
%3 = pad %1 pad_widths=[-3, 0, 0, 0] value=0:i64
%4 = add %2, %3
%5 = mul %4, 3:i64
output %5
output %1
`)
	require.NoError(t, s.InlineMost(nil, nil))
	requireEval(t, s)
}

// Splits by 1 that almost-exact looks through bring others together, of which
// one is split again.
func TestAlmostExactByCongruence(t *testing.T) {
	s := parsed(t, "%0 = tensor i64 [3, 4] contiguity=[yes, yes]\n%1 = sum %0 dims=[1] keepdim=false dtype=i64\noutput %1\n")
	v := tv(s, 1)
	steps(t, s.Split(v, 1, 1, true), s.Merge(v, 1, 2), s.Split(v, 1, 1, true), s.Split(v, 2, 2, true), s.Split(v, 3, 4, true), s.Merge(v, 1, 2))
	require.Equal(t, []int64{3, 4, 1, 4}, extents(s, s.Loop(v)))
	requireEval(t, s)
}

// A broadcast split by 4 has parts of extent 1, an axis of extent 1 has 4 of
// which 3 are holes: almost-exact classes do not take one for the other.
func TestSplitsOfOneAndOfABroadcast(t *testing.T) {
	s := parsed(t, `%0 = tensor i64 [3, 5] contiguity=[yes, yes]
%1 = tensor i64 [3] contiguity=[yes]
%2 = neg %0
%3 = broadcast %1 is_broadcast_dim=[false, true]
%4 = add %2, %3
%5 = neg %3
output %4
output %5
`)
	for _, n := range []int{2, 3, 4, 5} { // the last axis is split by 1
		require.NoError(t, s.Split(tv(s, n), 1, 1, true))
	}
	one, b := s.Loop(tv(s, 2))[2], s.Loop(tv(s, 5))[2]
	for _, n := range []int{3, 4} { // and that goes into the first
		require.NoError(t, s.Merge(tv(s, n), 2, 0))
	}
	for _, n := range []int{2, 5} { // or is split again
		require.NoError(t, s.Split(tv(s, n), 2, 4, false))
	}
	four, part := s.Loop(tv(s, 2))[2], s.Loop(tv(s, 5))[2]
	require.Equal(t, []int64{4, 1}, extents(s, []core.AxisID{four, part}))
	require.NoError(t, s.Merge(tv(s, 2), 1, 2))
	m := done[*Mapping](t)(Map(s))
	require.Equal(t, m.AlmostExact(one), m.AlmostExact(b))
	require.NotEqual(t, m.AlmostExact(four), m.AlmostExact(part))
	requireEval(t, s)
}

// A backward congruence needs equal inputs: 2*6 and 3*4 are both 12.
func TestMergesOfOneProduct(t *testing.T) {
	s := parsed(t, `%0 = tensor i64 [2, 6] contiguity=[yes, yes]
%1 = tensor i64 [3, 4] contiguity=[yes, yes]
%2 = neg %0
%3 = neg %1
%4 = reshape %2 new_shape=[12]
%5 = reshape %3 new_shape=[12]
%6 = add %4, %5
output %6
`)
	require.NoError(t, s.InlineMost(nil, nil))
	m := done[*Mapping](t)(Map(s))
	a, b := s.Loop(tv(s, 4))[0], s.Loop(tv(s, 5))[0]
	require.Equal(t, m.Exact(a), m.Exact(b))
	require.NotEqual(t, m.Exact(s.f.Val(tv(s, 4)).Domain.Root[0]), m.Exact(s.f.Val(tv(s, 5)).Domain.Root[0]))
	requireEval(t, s)
}

// A reduction over a split broadcast adds once.
func TestSplitBroadcastOfASum(t *testing.T) {
	s := parsed(t, "%0 = tensor i64 [2, 1, 3] contiguity=[yes, none, yes]\n%1 = sum %0 dims=[2] keepdim=false dtype=i64\noutput %1\n")
	require.NoError(t, s.Split(tv(s, 1), 1, 4, true))
	requireEval(t, s)
}

// What is reshaped there and back makes the classes of axes a cycle: 2*3 is made
// from 6, and 6 from 2*3.
func TestCoverageOfACycle(t *testing.T) {
	s := parsed(t, `%0 = tensor i64 [6, 2, 3] contiguity=[yes, yes, yes]
%1 = tensor i64 [6] contiguity=[yes]
%2 = neg %0
%3 = reshape %2 new_shape=[2, 3, 6]
%4 = broadcast %1 is_broadcast_dim=[true, true, false]
%5 = add %3, %4
%6 = reshape %3 new_shape=[6, 2, 3]
%7 = sub %6, %2
output %5
output %7
`)
	v := tv(s, 7)
	steps(t, s.Split(v, 1, 4, false), s.Merge(v, 0, 1), s.Reorder(v, map[int]int{1: 2}))
	done[[]core.Refusal](t)(s.TransformLike(v, nil))
	steps(t, s.InlineMost(nil, nil))
	requireEval(t, s)
}

// A broadcast that meets in another tensor the axis that it is merged with here would make a loop
// over that axis twice.
func TestMergedWithItself(t *testing.T) {
	s := parsed(t, `%0 = tensor i64 [12] contiguity=[yes]
%1 = tensor i64 [] contiguity=[]
%2 = broadcast %0 is_broadcast_dim=[true, false]
%3 = broadcast %1 is_broadcast_dim=[true, true]
%4 = sub %2, %3
%5 = squeeze %3 dims=[1] squeeze_expanded=false
%6 = mul %5, %0
output %4
output %6
`)
	apart := s.Clone()
	v := tv(s, 4)
	steps(t, s.Merge(v, 0, 1), s.Split(v, 0, 7, true))
	done[[]core.Refusal](t)(s.TransformLike(v, nil))
	requireEval(t, s) // each in loops of its own
	steps(t, s.InlineMost(nil, nil))
	_, err := Map(s)
	var refused *Refused
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "self-mapping", refused.Rule)

	steps(t, apart.InlineMost(nil, nil)) // two loops, of which each tensor has its own
	requireEval(t, apart)
}

// What is stored as promoted loops run has an element for each of their iterations.
// Loops of a reader that are split further run past the last of them, at points that
// are in range along its own axes.
func TestSplitsOfPromotedLoopsOfReaders(t *testing.T) {
	for _, c := range []struct{ name, text, script string }{
		{"of a copy", `%0 = tensor i64 [4, 1] contiguity=[yes, none]
%1 = tensor i64 [33, 4, 1] contiguity=[yes, yes, none]
%2 = broadcast %0 is_broadcast_dim=[true, false, false]
%3 = mul %2, %1
output %3
`, `tv4 = tv2.cache_before()
tv2.merge(0, 1)
tv2.split(0, 5, False)
tv2.split(1, 3)
tv2.reorder({0: 3})
tv2.merge(2, 3)
transform_like(tv2, [tv0, tv4, tv1, tv3])
tv2.split(2, 4)
inline_at(tv2, 2, False, [tv2])
inline_at(tv4, 1, False, [tv4])
`},
		{"whole, of a sum", `%0 = tensor i64 [2, 8] contiguity=[yes, yes]
%1 = tensor i64 [1] contiguity=[none]
%2 = sum %0 dims=[0] keepdim=false dtype=i64
%3 = broadcast %2 is_broadcast_dim=[true, false]
%4 = mul %0, %3
%5 = set %4
%6 = sub %1, %2
output %5
output %6
`, `tv5.merge(0, 1)
tv5.split_whole(0, 16)
transform_like(tv5, [tv0, tv2, tv3, tv4, tv1, tv6])
inline_at(tv5, 1, True)
tv6.split_whole(1, 18)
`},
		{"of what is computed again", `%0 = tensor i64 [5, 3] contiguity=[yes, yes]
%1 = tensor i64 [5, 6, 3] contiguity=[yes, yes, yes]
%2 = broadcast %0 is_broadcast_dim=[false, true, false]
%3 = mul %1, %2
output %3
`, `tv4 = tv2.cache_after(set, unspecified, True, [tv3])
tv5 = tv2.recompute()
tv6 = tv4.recompute([tv3])
tv3.split_whole(1, 7)
tv3.merge(2, 3)
transform_like(tv3, [tv0, tv5, tv6, tv1])
tv6.split(2, 2)
inline_most()
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := parsed(t, c.text)
			require.NoError(t, s.Run(done[Script](t)(ParseScript(c.script))))
			requireEval(t, s)
		})
	}
}

// What is cut to one element is that wherever loops of readers lead, which may pass it.
func TestOneElementInAPromotedLoop(t *testing.T) {
	s := parsed(t, `%0 = tensor i64 [6] contiguity=[yes]
%1 = tensor i64 [1, 33] contiguity=[none, yes]
%2 = neg %0
%3 = pad %2 pad_widths=[-3, -2] value=7:i64
%4 = broadcast %3 is_broadcast_dim=[false, true]
%5 = sub %4, %1
%6 = add %4, 2:i64
output %5
output %6
`)
	require.NoError(t, s.Run(done[Script](t)(ParseScript("tv5.merge(0, 1)\ntv5.split_whole(0, 34)\ntransform_like(tv5, [tv0, tv2, tv3, tv4, tv6])\ninline_most()\n"))))
	requireEval(t, s)
}

// A loop is written out for all tensors in it, also if one alone says so, and what is
// reduced again and again in it then has no element for each iteration.
func TestLoopThatAnotherTensorUnrolls(t *testing.T) {
	for unroll, want := range map[string]string{"": "right", "tv8.parallelize(0, unroll)\n": "refused: storage"} {
		s := parsed(t, `%0 = tensor i64 [5] contiguity=[yes]
%1 = tensor i64 [4, 5] contiguity=[yes, yes]
%2 = broadcast %0 is_broadcast_dim=[true, false]
%3 = mul %2, %1
%4 = max %1 dims=[1] keepdim=false dtype=null
%5 = broadcast %4 is_broadcast_dim=[false, true]
%6 = add %5, %1
output %3
output %6
`)
		script := `tv7 = tv1.cache_after()
tv8 = tv7.recompute([tv3, tv6])
tv3.merge(0, 1)
tv3.split(0, 4)
transform_like(tv3, [tv0, tv2, tv1, tv8, tv7, tv4, tv5, tv6])
` + unroll + `inline_at(tv5, 2, False, [tv5])
inline_at(tv4, 2, False, [tv4])
inline_at(tv8, 2, False, [tv8])
inline_at(tv7, 1, False, [tv7])
inline_at(tv2, 1, False, [tv2])
`
		require.NoError(t, s.Run(done[Script](t)(ParseScript(script))))
		x, y := core.NewArray(s.f.Val(tv(s, 0)).DType, []int64{5}), core.NewArray(s.f.Val(tv(s, 1)).DType, []int64{4, 5})
		for i := range y.I {
			y.I[i] = int64(i * i % 7)
		}
		values := done[[]*core.Array](t)(s.f.Eval([]*core.Array{x, y}, make([]scalar.Value, 2), core.RandomState{}))
		result, err := Interpret(s, []*core.Array{x, y}, values)
		require.NoError(t, err)
		require.Equal(t, want, result)
	}
}

// What is needed after a loop of a reader is not computed in it if that loop has no
// iteration; whole splits of nothing have iterations without an element.
func TestLoopsOverNothing(t *testing.T) {
	s := parsed(t, `%0 = tensor i64 [1, 7] contiguity=[none, yes]
%1 = reshape %0 new_shape=[1, 7]
%2 = expand %1 shape=[0, 7]
%3 = sum %2 dims=[0, 1] keepdim=false dtype=i64
output %1
output %3
`)
	requireEval(t, s)
	require.NoError(t, s.InlineMost(nil, nil))
	x := core.NewArray(s.f.Val(tv(s, 0)).DType, []int64{1, 7})
	want := done[[]*core.Array](t)(s.f.Eval([]*core.Array{x}, make([]scalar.Value, 1), core.RandomState{}))
	result, err := Interpret(s, []*core.Array{x}, want)
	require.NoError(t, err)
	require.Equal(t, "refused: empty loop", result)

	for _, script := range []string{"tv2.split_whole(0, 3)\n", "tv2.merge(0, 1)\ntv2.split_whole(0, 9)\n", "tv2.merge(1, 0)\ntv2.split_whole(0, 9)\n"} {
		s = parsed(t, "%0 = tensor i64 [0, 7] contiguity=[yes, yes]\n%1 = neg %0\n%2 = neg %1\noutput %2\n")
		require.NoError(t, s.Run(done[Script](t)(ParseScript(script+"transform_like(tv2, [tv0, tv1])\ninline_most()\n"))))
		requireEval(t, s)
	}
}
