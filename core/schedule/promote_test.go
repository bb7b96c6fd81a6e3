package schedule

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
)

// example is z = broadcast(x[6]) + y[6, 5], with x and y cached, z merged and
// split by 4, and the others alike.
type example struct {
	s            *Scheduled
	xc, yc, b, z core.ValID
	merged       core.AxisID // of z
	outer, inner core.AxisID // of z
}

func newExample(t *testing.T) *example {
	s := parsed(t, `%0 = tensor f32 [6] contiguity=[yes]
%1 = tensor f32 [6, 5] contiguity=[yes, yes]
%2 = broadcast %0 is_broadcast_dim=[false, true]
%3 = add %2, %1
output %3
`)
	x := &example{s: s, b: tv(s, 2), z: tv(s, 3)}
	x.xc = done[core.ValID](t)(s.CacheAfter(tv(s, 0), nil))
	x.yc = done[core.ValID](t)(s.CacheAfter(tv(s, 1), nil))
	require.NoError(t, s.Merge(x.z, 0, 1))
	x.merged = s.Loop(x.z)[0]
	require.NoError(t, s.Split(x.z, 0, 4, true))
	x.outer, x.inner = s.Loop(x.z)[0], s.Loop(x.z)[1]
	refused, err := s.TransformLike(x.z, nil)
	require.NoError(t, err)
	require.Empty(t, refused)
	require.Equal(t, []int64{2, 4}, extents(s, s.Loop(x.xc)))
	require.Equal(t, []int64{2, 4}, extents(s, s.Loop(x.b)))
	require.Equal(t, []int64{8, 4}, extents(s, s.Loop(x.yc)))
	return x
}

func (x *example) at(t *testing.T, xc, b, yc int) *Mapping {
	x.s.tensors[x.xc].position, x.s.tensors[x.b].position, x.s.tensors[x.yc].position = xc, b, yc
	return done[*Mapping](t)(Map(x.s))
}

// replays returns how many transforms promotion has made.
func replays(m *Mapping) int { return len(m.transforms) - len(m.s.transforms()) }

// isReplay checks that the promotion of a is no axis of a tensor but the inner
// part of a split by 4 of z's merged axis.
func (x *example) isReplay(t *testing.T, m *Mapping, a core.AxisID) {
	q := m.Promotion(a)
	require.GreaterOrEqual(t, int(q), x.s.f.NumAxes())
	split := m.f.Transform(m.f.Axis(q).Def)
	require.Equal(t, core.Split, split.Kind)
	require.Equal(t, q, split.Out[1])
	require.Equal(t, m.Exact(x.merged), m.Exact(split.In[0]))
	require.Equal(t, m.LoopClass(q), m.LoopClass(a))
}

func TestPromotionOfTheExample(t *testing.T) {
	x := newExample(t)
	loop := func(v core.ValID, k int) core.AxisID { return x.s.Loop(v)[k] }
	isZ := func(m *Mapping, a, z core.AxisID) {
		t.Helper()
		require.Equal(t, m.Exact(z), m.Exact(m.Promotion(a)))
	}
	m := x.at(t, 2, 2, 2) // fully inlined
	require.Equal(t, 0, replays(m))
	for _, v := range []core.ValID{x.xc, x.b, x.yc, x.z} {
		isZ(m, loop(v, 0), x.outer)
		isZ(m, loop(v, 1), x.inner)
	}
	require.Equal(t, `for 0 < 8
  for 1 < 4
    tv4 = set(tv0)
    tv2 = broadcast(tv4)
    tv5 = set(tv1)
    tv3 = add(tv2, tv5)
`, m.LoopNest())

	m = x.at(t, 1, 1, 1) // partially
	for _, v := range []core.ValID{x.xc, x.b, x.yc, x.z} {
		isZ(m, loop(v, 0), x.outer)
	}
	x.isReplay(t, m, loop(x.xc, 1))
	x.isReplay(t, m, loop(x.b, 1))
	require.NotEqual(t, m.LoopClass(loop(x.xc, 1)), m.LoopClass(loop(x.b, 1)))
	require.Equal(t, 2, replays(m))
	require.Equal(t, `for 0 < 8
  for 1 < 4
    tv4 = set(tv0)
  for 1 < 4
    tv2 = broadcast(tv4)
  for 1 < 4
    tv5 = set(tv1)
  for 1 < 4
    tv3 = add(tv2, tv5)
`, m.LoopNest())

	m = x.at(t, 1, 2, 2)
	require.Equal(t, 1, replays(m))
	x.isReplay(t, m, loop(x.xc, 1))
	isZ(m, loop(x.b, 1), x.inner)

	m = x.at(t, 2, 1, 2)
	x.isReplay(t, m, loop(x.xc, 1))
	require.Equal(t, m.LoopClass(loop(x.xc, 1)), m.LoopClass(loop(x.b, 1)))

	for _, ca := range []int{0, 1, 2} { // b apart from z: nothing is promoted
		m = x.at(t, ca, 0, 2)
		for _, v := range []core.ValID{x.xc, x.b} {
			require.Equal(t, []int64{2, 4}, extents(x.s, []core.AxisID{m.Promotion(loop(v, 0)), m.Promotion(loop(v, 1))}))
		}
	}
}

// Without steps 4 and 5 xc's inner loop would run over its own axis while the
// outer one is z's.
func TestPartialInliningNeedsSteps4And5(t *testing.T) {
	x := newExample(t)
	x.at(t, 1, 1, 1)
	m := done[*Mapping](t)(mapWith(x.s, false))
	require.Equal(t, x.s.Loop(x.xc)[1], m.Promotion(x.s.Loop(x.xc)[1]))
}

func TestPromotionOfAnOuterProduct(t *testing.T) {
	s := parsed(t, `%0 = tensor f32 [6] contiguity=[yes]
%1 = tensor f32 [5] contiguity=[yes]
%2 = broadcast %0 is_broadcast_dim=[false, true]
%3 = broadcast %1 is_broadcast_dim=[true, false]
%4 = add %2, %3
output %4
`)
	x := &example{s: s, z: tv(s, 4), xc: tv(s, 2), yc: tv(s, 3)}
	require.NoError(t, s.Merge(x.z, 0, 1))
	x.merged = s.Loop(x.z)[0]
	require.NoError(t, s.Split(x.z, 0, 4, true))
	x.outer, x.inner = s.Loop(x.z)[0], s.Loop(x.z)[1]
	done[[]core.Refusal](t)(s.TransformLike(x.z, nil))
	for _, ca := range []int{1, 2} {
		s.tensors[x.xc].position, s.tensors[x.yc].position = ca, ca
		m := done[*Mapping](t)(Map(s))
		for _, v := range []core.ValID{x.xc, x.yc} {
			require.Equal(t, m.Exact(x.outer), m.Exact(m.Promotion(s.Loop(v)[0])))
			if ca == 2 {
				require.Equal(t, m.Exact(x.inner), m.Exact(m.Promotion(s.Loop(v)[1])))
			} else {
				x.isReplay(t, m, s.Loop(v)[1])
			}
		}
	}
}

// bias[5] + x[6, 5]: the bias, computed in the loops of both axes, is promoted;
// in the loop over its own axis only it would not be, but that loop is inner.
func TestPromotionOfABias(t *testing.T) {
	s := parsed(t, `%0 = tensor f32 [5] contiguity=[yes]
%1 = tensor f32 [6, 5] contiguity=[yes, yes]
%2 = neg %0
%3 = broadcast %2 is_broadcast_dim=[true, false]
%4 = add %3, %1
output %4
`)
	require.NoError(t, s.InlineMost(nil, nil))
	require.Equal(t, 1, s.Position(tv(s, 2)))
	require.Equal(t, 2, s.Position(tv(s, 3)))
	m := done[*Mapping](t)(Map(s))
	require.Equal(t, "for 0 < 6\n  for 1 < 5\n    tv2 = neg(tv0)\n    tv3 = broadcast(tv2)\n    tv4 = add(tv3, tv1)\n", m.LoopNest())
	require.Equal(t, m.Exact(s.Loop(tv(s, 4))[0]), m.Exact(m.Promotion(s.Loop(tv(s, 3))[0])))
}

const twoConsumers = `%0 = tensor f32 [6] contiguity=[yes]
%1 = tensor f32 [6, 5] contiguity=[yes, yes]
%2 = tensor f32 [6, SIZE] contiguity=[yes, yes]
%3 = broadcast %0 is_broadcast_dim=[false, true]
%4 = add %3, %1
%5 = mul %3, %2
`

// Two consumers resolve a broadcast by one axis, or by two.
func TestPromotionTowardsTwoConsumers(t *testing.T) {
	same := parsed(t, strings.Replace(twoConsumers, "SIZE", "5", 1)+"%6 = add %4, %5\noutput %6\n")
	require.NoError(t, same.InlineMost(nil, nil))
	require.Equal(t, 2, same.Position(tv(same, 3)))
	m := done[*Mapping](t)(Map(same))
	require.Equal(t, m.Exact(same.Loop(tv(same, 6))[1]), m.Exact(m.Promotion(same.Loop(tv(same, 3))[1])))

	two := parsed(t, strings.Replace(twoConsumers, "SIZE", "7", 1)+"output %4\noutput %5\n")
	two.tensors[tv(two, 3)].position = 2
	_, err := Map(two)
	require.EqualError(t, err, "a broadcast axis of tv3 is inlined into two different axes, of extent 5 (tv4) and 7 (tv5); inline it into one of them only")
}
