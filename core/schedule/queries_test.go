package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
)

func TestGraph(t *testing.T) {
	s := parsed(t, rowSum)
	script := done[Script](t)(ParseScript("tv1.split(1, 32)\ntv4.split(1, 32)\ninline_at(tv4, 1)"))
	require.NoError(t, s.Run(script))
	m := done[*Mapping](t)(Map(s))
	axis := func(v, k int) core.AxisID { return s.Loop(tv(s, v))[k] }
	for _, c := range []struct {
		mode       string
		a, b       core.AxisID
		want, then bool // then: after the logical axes were joined
	}{
		{"exact", axis(1, 0), axis(4, 0), true, true},
		{"exact", axis(1, 1), axis(4, 1), true, true},
		{"exact", axis(1, 1), axis(4, 2), false, false},
		{"exact", axis(3, 1), axis(4, 1), false, false},
		{"almost_exact", axis(3, 1), axis(3, 0), false, false},
		{"loop", axis(1, 0), axis(4, 0), true, true},
		{"loop", axis(1, 1), axis(4, 1), false, false},
		{"permissive", axis(3, 1), s.f.Val(tv(s, 4)).Domain.Logical[1], true, true},
		{"permissive", axis(3, 0), axis(4, 0), true, true},
		{"permissive", axis(3, 0), axis(4, 1), false, false},
	} {
		g := done[*Graph](t)(m.Graph(c.mode))
		require.Equal(t, c.want, done[bool](t)(g.Mapped(c.a, c.b)), "%s %d %d", c.mode, c.a, c.b)
		require.Equal(t, c.want, done[bool](t)(g.Mapped(c.b, c.a)), "%s %d %d", c.mode, c.b, c.a)
	}
	_, err := m.Graph("broadcast")
	require.ErrorContains(t, err, "permissive looks through broadcasts")
}

func TestGraphTakesPairs(t *testing.T) {
	s := parsed(t, "%0 = tensor f32 [8] contiguity=[yes]\n%1 = tensor f32 [8] contiguity=[yes]\n%2 = neg %0\n%3 = neg %1\noutput %2\noutput %3\n")
	require.NoError(t, s.Run(done[Script](t)(ParseScript("tv2.split(0, 2)\ntv3.split(0, 2)"))))
	m := done[*Mapping](t)(Map(s))
	a, b := s.f.Val(tv(s, 2)).Domain.Logical[0], s.f.Val(tv(s, 3)).Domain.Logical[0]
	inner := func(v int) core.AxisID { return s.Loop(tv(s, v))[1] }
	for _, mode := range []string{"exact", "almost_exact", "permissive", "loop"} {
		g := done[*Graph](t)(m.Graph(mode))
		require.False(t, done[bool](t)(g.Mapped(a, b)))
		require.NoError(t, g.Join(a, b))
		require.True(t, done[bool](t)(g.Mapped(b, a)))
		follows := mode == "exact" || mode == "almost_exact"
		require.Equal(t, follows, done[bool](t)(g.Mapped(inner(2), inner(3))), mode)
		_, err := g.Mapped(a, core.AxisID(s.f.NumAxes()))
		require.ErrorContains(t, err, "was made after the graph")
	}
	again := done[*Graph](t)(m.Graph("exact"))
	require.False(t, done[bool](t)(again.Mapped(a, b)), "a graph is a copy")
}
