package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
)

const pointwise = `%0 = tensor f32 [10, 6] contiguity=[yes, yes]
%1 = neg %0
%2 = sum %1 dims=[1] keepdim=false dtype=f32
%3 = broadcast %2 is_broadcast_dim=[false, true]
%4 = sub %1, %3
output %4
`

func TestTransforms(t *testing.T) {
	s := parsed(t, pointwise)
	v := tv(s, 1)
	require.NoError(t, s.Split(v, 0, 4, true)) // 10 = 3*4 with holes
	require.Equal(t, []int64{3, 4, 6}, extents(s, s.Loop(v)))
	require.NoError(t, s.Split(v, -1, 4, false))
	require.Equal(t, []int64{3, 4, 4, 2}, extents(s, s.Loop(v)))
	require.NoError(t, s.Merge(v, 1, 2))
	require.Equal(t, []int64{3, 16, 2}, extents(s, s.Loop(v)))
	require.NoError(t, s.Reorder(v, map[int]int{-1: 0}))
	require.Equal(t, []int64{2, 3, 16}, extents(s, s.Loop(v)))
	require.NoError(t, s.Merge(v, -1, 0)) // any two, in either order
	require.Equal(t, []int64{3, 32}, extents(s, s.Loop(v)))
	require.NoError(t, s.Parallelize(v, 0, BIDx))
	require.NoError(t, s.SetMemory(v, Global))
	require.NoError(t, s.Verify())
	require.Equal(t, `tv1 global [i10{3} blockIdx.x, i15{32}]
`, firstLine(s.TensorText(v)))

	b := tv(s, 3)
	require.NoError(t, s.Split(b, 1, 4, true)) // the parts of a broadcast are broadcasts
	require.Equal(t, []int64{10, 1, 1}, extents(s, s.Loop(b)))
	require.True(t, s.isBroadcast(s.Loop(b)[2]))
	require.NoError(t, s.Merge(b, 1, 2))
	require.True(t, s.isBroadcast(s.Loop(b)[1]))
	require.NoError(t, s.Merge(b, 0, 1))
	require.Equal(t, core.Iter, s.kind(s.Loop(b)[0]))
}

func firstLine(text string) string {
	for i, c := range text {
		if c == '\n' {
			return text[:i+1]
		}
	}
	return text
}

func TestTransformErrors(t *testing.T) {
	s := parsed(t, pointwise)
	x, v, sum, out := tv(s, 0), tv(s, 1), tv(s, 2), tv(s, 4)
	require.NoError(t, s.InlineAt(v, 1, true))
	require.NoError(t, s.Parallelize(out, 1, TIDx))
	for _, c := range []struct {
		err  error
		want string
	}{
		{s.Split(sum, 2, 4, true), "split(): axis 2 is out of range for tv2, which has 2 axes"},
		{s.Split(sum, -3, 4, true), "split(): axis -3 is out of range for tv2, which has 2 axes"},
		{s.Split(sum, 0, 0, true), "split(): factor is 0; it must be positive"},
		{s.Split(x, 0, 4, true), "split(): tv0 is an input of the fusion and has no loops; cache_after() makes a copy that has"},
		{s.Split(out, 1, 4, true), "split(): axis 1 of tv4 is parallelized as threadIdx.x; transform it before parallelize()"},
		{s.Merge(sum, 0, 1), "merge(): an axis of tv2 that is reduced and one that is not cannot be merged"},
		{s.Merge(out, 0, 0), "merge(): axis 0 of tv4 cannot be merged with itself"},
		{s.Reorder(out, map[int]int{0: 1, -2: 0}), "reorder(): axis 0 of tv4 is moved twice"},
		{s.Reorder(out, map[int]int{0: 1, 1: 1}), "reorder(): two axes of tv4 are moved to position 1"},
		{s.Reorder(out, map[int]int{0: 2}), "reorder(): axis 2 is out of range for tv4, which has 2 axes"},
		{s.Parallelize(out, 0, TIDx), "parallelize(): axes 0 and 1 of tv4 cannot both be threadIdx.x"},
		{s.Parallelize(sum, 1, Vectorize), "parallelize(): axis 1 of tv2 cannot be vectorize, because it is reduced"},
		{s.Parallelize(x, 0, TIDx), "parallelize(): tv0 is an input of the fusion and has no loops; cache_after() makes a copy that has"},
		{s.SetMemory(x, Shared), "set_memory_type(): tv0 is an input of the fusion, which lives in global memory; cache it to have a copy in shared memory"},
		{s.SetMemory(out, Local), "set_memory_type(): tv4 is an output of the fusion, which lives in global memory; cache it to have a copy in local memory"},
		{s.SetBuffering(out, 3, 2), "circular_buffer(): tv4 is in global memory"},
		{s.SetBuffering(v, 2, 2), "circular_buffer(): 2 stages with a prefetch distance of 2; 1 <= distance < stages must hold"},
		{s.SetCopy(v, AsyncCopy, CacheUnspecified), "tv1 is not a copy: it cannot be loaded by another instruction or with a cache hint"},
		{s.SetAllocation(v, s.Loop(v)[:1], nil), "set_allocation_domain(): the domain for tv1 is not made from all of its axes by splits and merges"},
		{s.SetAllocation(v, []core.AxisID{s.Loop(v)[0], s.Loop(v)[0]}, nil), "set_allocation_domain(): axis 1 of the domain for tv1 is there twice"},
		{s.SetAllocation(v, s.Loop(v), []core.Tri{core.Yes}), "set_allocation_domain(): 1 contiguity flags for 2 axes of tv1"},
		{s.SetAllocation(v, s.Loop(v), []core.Tri{core.Yes, core.NotApplicable}), "set_allocation_domain(): contiguity[1] of tv1 must be True or False, because the axis is neither a broadcast nor reduced"},
		{s.SetLoop(sum, s.Loop(sum)[:1]), "set_loop_domain(): the domain for tv2 is not made from all of its axes by splits and merges"},
		{s.SwizzleXOR(v, 0, 1), "swizzle(): tv1 must be in shared memory and have an allocation domain"},
	} {
		require.EqualError(t, c.err, c.want)
	}
	require.NoError(t, s.InlineMost(nil, nil))
	require.Equal(t, 1, s.Position(v))
	require.EqualError(t, s.Split(v, 0, 2, true), "split(): axis 0 of tv1 is left of position 1, where tv1 is computed inside its consumer; transform before inlining")
	require.EqualError(t, s.Reorder(v, map[int]int{0: 1}), "reorder(): tv1 has 1 axis computed inside its consumer; reorder before inlining")
	require.EqualError(t, s.SetLoop(v, s.Loop(v)), "set_loop_domain(): tv1 is inlined; set the domain before")
}

// A schedule of symbolic sizes has extents that are expressions.
func TestSymbolicExtents(t *testing.T) {
	s := parsed(t, "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1 = neg %0\noutput %1\n")
	v := tv(s, 1)
	require.NoError(t, s.Merge(v, 0, 1))
	require.NoError(t, s.Split(v, 0, 128, true))
	require.Equal(t, "ceilDiv(tv0.0*tv0.1, 128)", s.extentText(s.Loop(v)[0]))
	require.EqualError(t, s.Parallelize(v, 0, Vectorize), "parallelize(): axis 0 of tv1 cannot be vectorize, because its extent is not a constant")
	require.NoError(t, s.Parallelize(v, 1, TIDx))
	require.NoError(t, s.Verify())
	m := done[*Mapping](t)(Map(s))
	require.Equal(t, "for 0 < ceilDiv(tv0.0*tv0.1, 128)\n  for 1 < 128 threadIdx.x\n    tv1 = neg(tv0)\n", m.LoopNest())
}

func TestAllocationAndSwizzle(t *testing.T) {
	s := parsed(t, "%0 = tensor f32 [32, 32] contiguity=[yes, yes]\n%1 = neg %0\n%2 = exp %1\noutput %2\n")
	v := tv(s, 1)
	require.NoError(t, s.SetMemory(v, Shared))
	require.NoError(t, s.Split(v, 1, 4, true))
	loop := s.Loop(v)
	require.NoError(t, s.SetAllocation(v, []core.AxisID{loop[1], loop[0], loop[2]}, nil))
	require.NoError(t, s.SwizzleXOR(v, 1, 0))
	require.EqualError(t, s.SetMemory(v, Local), "set_memory_type(): tv1 has a swizzle, which is for shared memory")
	require.EqualError(t, s.SwizzleXOR(v, 0, 3), "swizzle(): 0 and 3 are not two axes of the 3 in the allocation domain of tv1")
	require.Equal(t, []Swizzle{{loop[0], loop[1]}}, s.Swizzles(v))
	require.NoError(t, s.Verify())
	require.NoError(t, s.SetBuffering(v, 3, 2))
	require.Equal(t, Buffering{3, 2}, s.Buffering(v))
	require.NoError(t, s.Verify())
}
