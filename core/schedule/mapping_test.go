package schedule

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
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

// What is reshaped there and back has the axes that it had: 24 as 6*4 and joined
// again, or 6*4 as 24 and parted again, but not 24 parted otherwise.
func TestReshapedThereAndBack(t *testing.T) {
	for _, x := range []struct {
		shape, between, back []int64
		same                 bool
	}{
		{[]int64{24}, []int64{6, 4}, []int64{24}, true},
		{[]int64{6, 4}, []int64{24}, []int64{6, 4}, true},
		{[]int64{2, 6, 4}, []int64{2, 3, 8}, []int64{2, 6, 4}, true}, // groups of channels
		{[]int64{6, 4}, []int64{24}, []int64{4, 6}, false},
	} {
		f := core.NewFusion()
		v, err := f.DefineTensor(core.TensorDescription{Shape: x.shape, Contiguity: slices.Repeat([]core.Tri{core.Yes}, len(x.shape)), DType: dtype.Int})
		require.NoError(t, err)
		back := v
		for _, shape := range [][]int64{x.between, x.back} {
			var sizes []scalar.ID
			for _, n := range shape {
				sizes = append(sizes, f.Scalars().Int(n))
			}
			out, err := f.Apply(core.ReshapeOp, core.TensorOf(back), core.ScalarsOf(sizes...))
			require.NoError(t, err)
			back = out[0]
		}
		require.NoError(t, f.AddOutput(back, core.NoVal))
		f.Freeze()
		m := done[*Mapping](t)(Map(New(f)))
		for k, a := range f.Val(v).Domain.Logical {
			require.Equal(t, x.same, m.Exact(a) == m.Exact(f.Val(back).Domain.Logical[k]), "%v", x)
		}
	}
}

// A split that leaves holes is undone by no merge.
func TestProductsOfSplits(t *testing.T) {
	for size, same := range map[string]bool{"12": true, "10": false} {
		s := parsed(t, "%0 = tensor i64 ["+size+"] contiguity=[yes]\n%1 = neg %0\noutput %1\n")
		v := tv(s, 1)
		steps(t, s.Split(v, 0, 4, true), s.Merge(v, 0, 1))
		all := map[core.TransformID]bool{}
		for _, id := range s.transforms() {
			all[id] = true
		}
		c := newClasses(s.f, all, nil)
		for _, id := range s.transforms() {
			c.add(id)
		}
		require.Equal(t, same, c.same(s.f.Val(v).Domain.Logical[0], s.Loop(v)[0]), size)
	}
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
