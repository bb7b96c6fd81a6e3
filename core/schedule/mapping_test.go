package schedule

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
)

// A mapping is read by many at once, and does not see what becomes of its
// schedule.
func TestMappingIsImmutable(t *testing.T) {
	x := newExample(t)
	m := x.at(t, 1, 1, 1)
	want := m.LoopNest()
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for a := range m.Fusion().NumAxes() {
				id := core.AxisID(a)
				_, _, _ = m.Exact(id), m.AlmostExact(id), m.LoopClass(id)
			}
			_ = m.Permissive(x.xc, x.s.Loop(x.xc)[0], x.b, x.s.Loop(x.b)[0])
			_ = m.LoopNest()
		})
	}
	wait.Wait()
	require.NoError(t, x.s.InlineMost(nil, nil))
	require.NoError(t, x.s.Split(x.z, 1, 2, true))
	require.Equal(t, want, m.LoopNest())
}

// What the classes say of the worked example.
func TestMappingQueries(t *testing.T) {
	x := newExample(t)
	m := x.at(t, 0, 0, 0)
	b, z := x.s.f.Val(x.b).Domain.Logical, x.s.f.Val(x.z).Domain.Logical
	require.Equal(t, m.Exact(b[0]), m.Exact(z[0]))
	require.NotEqual(t, m.Exact(b[1]), m.Exact(z[1]))
	require.True(t, m.Permissive(x.b, b[1], x.z, z[1]))
	require.True(t, m.Permissive(x.b, x.s.Loop(x.b)[0], x.z, x.outer))
	require.False(t, m.Permissive(x.b, b[0], x.z, x.outer))
	require.False(t, m.Permissive(x.z, z[0], x.b, b[0])) // no such edge
	require.True(t, m.MapsThroughInputs())
	require.False(t, m.IsPromoted(x.outer))
}

func BenchmarkInlineAndMap(b *testing.B) {
	f, err := core.Parse(pointwise)
	require.NoError(b, err)
	f.Freeze()
	for b.Loop() {
		s := New(f)
		if s.InlineMost(nil, nil) != nil {
			b.Fatal()
		}
		if _, err := Map(s); err != nil {
			b.Fatal(err)
		}
	}
}
