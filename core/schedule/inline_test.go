package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

const softmaxLike = `%0 = tensor f32 [3, 4] contiguity=[yes, yes]
%1 = exp %0
%2 = max %1 dims=[1] keepdim=false dtype=null
%3 = broadcast %2 is_broadcast_dim=[false, true]
%4 = sub %1, %3
output %4
`

func TestMaxPosition(t *testing.T) {
	const mul = "%0 = tensor f32 [4, 4] contiguity=[yes, yes]\n%1 = neg %0\n%2 = exp %1\noutput %2\n"
	for _, c := range []struct {
		name, text string
		tensor     int
		prepare    func(s *Scheduled) error
		bestEffort bool
		want       Limit
	}{
		{"all", mul, 1, nil, false, Limit{Position: 2}},
		{"input", mul, 0, nil, false, Limit{0, "input", "tv0 is an input of the fusion and is not computed"}},
		{"no consumer", mul, 2, nil, false, Limit{0, "no consumer", "tv2 is read by nothing that it could be computed in"}},
		{"reduction output", softmaxLike, 2, nil, false, Limit{1, "reduction", "axis 1 of tv2 is reduced: its result is complete only after the loop"}},
		{"persistent", softmaxLike, 1, nil, false, Limit{1, "persistent", "axis 1 of tv1 is needed completely by a consumer before another consumer can read its first element"}},
		{"extra broadcast", "%0 = tensor f32 [4] contiguity=[yes]\n%1 = neg %0\n%2 = broadcast %1 is_broadcast_dim=[true, false]\noutput %2\n", 1, nil, false, Limit{Position: 1}},
		{"vector", mul, 1, func(s *Scheduled) error { return s.Parallelize(tv(s, 1), 1, Vectorize) }, false,
			Limit{1, "parallel type", "axis 1 of tv1 is vectorize: no other statement can be among its iterations"}},
		{"vector consumer", mul, 1, func(s *Scheduled) error { return s.Parallelize(tv(s, 2), 1, Vectorize) }, false,
			Limit{1, "parallel type", "axis 1 of tv2, which reads tv1, is vectorize: its iterations are kept together"}},
		{"unroll", mul, 1, func(s *Scheduled) error { return s.Parallelize(tv(s, 1), 0, Unroll) }, true,
			Limit{0, "unroll", "axis 0 of tv1 is unrolled, and its iterations are kept together"}},
		{"unroll asked for", mul, 1, func(s *Scheduled) error { return s.Parallelize(tv(s, 1), 0, Unroll) }, false, Limit{Position: 2}},
		{"other factor", mul, 1, func(s *Scheduled) error { return s.Split(tv(s, 1), 1, 2, true) }, false,
			Limit{1, "no counterpart", "axis 1 of tv1 does not correspond to axis 1 of tv2, its consumer: they are made by different transforms or are not at the same place"}},
		{"resize", "%0 = tensor f32 [4, 8] contiguity=[yes, yes]\n%1 = neg %0\n%2 = pad %1 pad_widths=[1, 1, 0, 0] value=0:f64\noutput %2\n", 1, nil, false,
			Limit{1, "no counterpart", "axis 1 of tv1 does not correspond to axis 1 of tv2, its consumer: they are made by different transforms or are not at the same place"}},
		{"scanned", "%0 = tensor f32 [4, 8] contiguity=[yes, yes]\n%1 = cumsum %0 dim=1\n%2 = neg %1\noutput %2\n", 1, nil, false,
			Limit{1, "persistent", "axis 1 of tv1 is needed completely by a consumer before another consumer can read its first element"}},
		{"scan", "%0 = tensor f32 [4, 8] contiguity=[yes, yes]\n%1 = neg %0\n%2 = cumsum %1 dim=1\noutput %2\n", 1, nil, false,
			Limit{1, "no counterpart", "axis 1 of tv1 does not correspond to axis 1 of tv2, its consumer: they are made by different transforms or are not at the same place"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := parsed(t, c.text)
			if c.prepare != nil {
				require.NoError(t, c.prepare(s))
			}
			require.Equal(t, c.want, s.MaxPosition(tv(s, c.tensor), c.bestEffort))
		})
	}
}

func TestInlineAt(t *testing.T) {
	s := parsed(t, softmaxLike)
	x := tv(s, 1)
	require.EqualError(t, s.InlineAt(x, 3, false), "inline_at(): position 3 is out of range for tv1, which has 2 axes")
	require.EqualError(t, s.InlineAt(x, -1, false), "inline_at(): position 2 is too far for tv1: axis 1 of tv1 is needed completely by a consumer before another consumer can read its first element")
	// The maximum and its broadcast are outside of the loop that what they stem
	// from and what reads them would share.
	require.EqualError(t, s.InlineAt(x, 1, false), "inline_at(): position 1 is not possible for tv1: the loops of tv1, tv2, tv4, tv3 cannot be put in an order: a tensor is computed outside of the loop that holds both what it reads and what reads it")
	require.NoError(t, s.InlineAt(x, 1, true))
	require.Equal(t, 0, s.Position(x))
	require.NoError(t, s.InlineAt(tv(s, 3), 2, false))
	require.NoError(t, s.InlineAt(tv(s, 2), 1, false))
	require.NoError(t, s.InlineAt(x, -2, false))
	require.NoError(t, s.Verify())
	require.Equal(t, softmaxNest, done[*Mapping](t)(Map(s)).LoopNest())
}

const softmaxNest = `for 0 < 3
  for 1 < 4
    tv1 = exp(tv0)
  for 1 < 4
    tv2 = max(tv1)
  for 1 < 4
    tv3 = broadcast(tv2)
    tv4 = sub(tv1, tv3)
`

func TestInlineMost(t *testing.T) {
	s := parsed(t, softmaxLike)
	require.NoError(t, s.InlineMost(nil, nil))
	require.Equal(t, softmaxNest, done[*Mapping](t)(Map(s)).LoopNest())
	require.NoError(t, s.Verify())

	require.NoError(t, s.InlineMost(nil, []core.AxisID{s.Loop(tv(s, 3))[0]}))
	require.Equal(t, 0, s.Position(tv(s, 3)))
	require.NoError(t, s.InlineMost([]core.ValID{tv(s, 3)}, nil))
	require.Equal(t, 2, s.Position(tv(s, 3)))
	require.NoError(t, s.Verify())
}

func TestInlineAllAt(t *testing.T) {
	s := parsed(t, softmaxLike)
	require.NoError(t, s.InlineAllAt(tv(s, 4), 1, false, nil))
	require.Equal(t, []int{1, 1, 1}, []int{s.Position(tv(s, 1)), s.Position(tv(s, 2)), s.Position(tv(s, 3))})
	s = parsed(t, softmaxLike)
	require.Error(t, s.InlineAllAt(tv(s, 4), 2, false, nil))
	require.Equal(t, []int{0, 0, 0}, []int{s.Position(tv(s, 1)), s.Position(tv(s, 2)), s.Position(tv(s, 3))})
	require.NoError(t, s.InlineAllAt(tv(s, 4), -1, true, nil))
	require.Equal(t, softmaxNest, done[*Mapping](t)(Map(s)).LoopNest())
	require.ErrorContains(t, s.InlineAllAt(tv(s, 4), 3, true, nil), "out of range")
}

// One reader of n passes over a broadcast axis that the other does not have:
// each position is within its maximum, and the two have no nest of loops.
func TestPositionsTogether(t *testing.T) {
	s := parsed(t, "%3 = tensor f32 [2, 3] contiguity=[yes, yes]\n"+
		"%0 = tensor f32 [3] contiguity=[yes]\n%1 = neg %0\n%2 = broadcast %1 is_broadcast_dim=[true, false]\n%4 = add %2, %3\n%5 = exp %1\noutput %4\noutput %5\n")
	b, n := tv(s, 3), tv(s, 2)
	s.tensors[b].position, s.tensors[n].position = 2, 1
	require.Equal(t, 1, s.MaxPosition(n, true).Position)
	_, err := Map(s)
	require.EqualError(t, err, "loop 0 around tv5 would have to be inside different loops for the tensors that share it")
	require.NoError(t, s.InlineMost(nil, nil))
	require.NoError(t, s.Verify())
	require.Equal(t, []int{2, 0}, []int{s.Position(b), s.Position(n)})
}

// p, tv2, is not inlined, but it and its reader c, tv3, share a loop by way of what both
// read, and c reads all of p in each iteration.
func TestSharedLoopOfOtherIterations(t *testing.T) {
	s := parsed(t, `%0 = tensor i64 [1, 2, 3] contiguity=[none, yes, yes]
%1 = neg %0
%2 = add %1, %0
%3 = sum %2 dims=[1] keepdim=false dtype=i64
%4 = broadcast %3 is_broadcast_dim=[false, true, false]
%5 = mul %2, %4
%6 = add %1, %5
output %6
`)
	for _, n := range []int{1, 2, 4, 5, 6} {
		require.NoError(t, s.Merge(tv(s, n), 0, 1))
	}
	for _, n := range []int{5, 4, 3, 1} {
		require.GreaterOrEqual(t, s.MaxPosition(tv(s, n), true).Position, 1)
		s.tensors[tv(s, n)].position = 1
	}
	_, err := Map(s)
	require.EqualError(t, err, "tv2 and tv3 would be in one loop, in which tv3 reads elements of tv2 of other iterations")
	require.NoError(t, s.InlineMost(nil, nil))
	require.NoError(t, s.Verify())
	requireEval(t, s)
}

// The results of one expression run in one loop.
func TestSiblings(t *testing.T) {
	s := parsed(t, `%0 = tensor f32 [3, 4] contiguity=[yes, yes]
%1, %2, %3 = welford %0 dims=[1]
%4 = neg %2
%5 = exp %4
output %5
output %1
`)
	require.NoError(t, s.InlineMost(nil, nil))
	require.Equal(t, []int{1, 1, 1}, []int{s.Position(tv(s, 1)), s.Position(tv(s, 2)), s.Position(tv(s, 4))})
	require.NoError(t, s.Verify())
	require.Equal(t, "for 0 < 3\n  for 1 < 4\n    tv1, tv2, tv3 = welford(tv0)\n  tv4 = neg(tv2)\n  tv5 = exp(tv4)\n", done[*Mapping](t)(Map(s)).LoopNest())
}

// The work of inlining and mapping grows with the fusion, not with its square.
func TestGrowth(t *testing.T) {
	chain := func(n int) *Scheduled {
		f := core.NewFusion()
		v := done[core.ValID](t)(f.DefineTensor(core.TensorDescription{Shape: []int64{64, 32}, Contiguity: []core.Tri{core.Yes, core.Yes}, DType: dtype.Float}))
		for range n {
			out := done[[]core.ValID](t)(f.Apply(core.Lookup("neg"), core.TensorOf(v)))
			v = out[0]
		}
		require.NoError(t, f.AddOutput(v, core.NoVal))
		f.Freeze()
		s := New(f)
		require.NoError(t, s.Merge(v, 0, 1))
		require.NoError(t, s.Split(v, 0, 128, true))
		done[[]core.Refusal](t)(s.TransformLike(v, nil))
		return s
	}
	allocations := func(n int) float64 {
		s := chain(n)
		return testing.AllocsPerRun(1, func() {
			require.NoError(t, s.InlineMost(nil, nil))
			done[*Mapping](t)(Map(s))
		})
	}
	small, large := allocations(100), allocations(1000)
	require.Less(t, large/small, 13.0)
}
