package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

const twoSteps = `%0 = tensor f32 [10, 6] contiguity=[yes, yes]
%1 = neg %0
%2 = add %1, 1:f64
output %2
`

// splitAllocation lays tv1 out as [6, 4, 3] in memory m: columns, and rows in
// groups, which do not divide them.
func splitAllocation(t *testing.T, s *schedule.Scheduled, m schedule.Memory) {
	v := tv(s, 1)
	must(t, s.Split(v, 0, 3, true), s.SetMemory(v, m))
	loop := s.Loop(v)
	must(t, s.SetAllocation(v, []core.AxisID{loop[2], loop[0], loop[1]}, nil))
}

// A tensor lies in memory as the schedule says, wherever that is, or is
// refused.
func TestAllocation(t *testing.T) {
	for _, x := range []struct {
		name     string
		schedule func(t *testing.T, s *schedule.Scheduled)
		shape    []int64 // of tv1
		refusal  string
	}{
		{name: "registers", schedule: func(t *testing.T, s *schedule.Scheduled) { splitAllocation(t, s, schedule.Local) }, shape: []int64{6, 4, 3}},
		{name: "shared memory", schedule: func(t *testing.T, s *schedule.Scheduled) { splitAllocation(t, s, schedule.Shared) }, shape: []int64{6, 4, 3}},
		{name: "global memory", schedule: func(t *testing.T, s *schedule.Scheduled) { splitAllocation(t, s, schedule.Global) }, shape: []int64{6, 4, 3}},
		{name: "left of the position", shape: []int64{3}, schedule: func(t *testing.T, s *schedule.Scheduled) {
			splitAllocation(t, s, schedule.Local)
			must(t, s.Split(tv(s, 2), 0, 3, true))
			for _, n := range []int{1, 2} {
				must(t, s.Reorder(tv(s, n), map[int]int{2: 1}))
			}
			must(t, s.InlineAt(tv(s, 1), 2, false))
		}},
		{name: "merged", shape: []int64{60}, schedule: func(t *testing.T, s *schedule.Scheduled) {
			v := tv(s, 1)
			must(t, s.Merge(v, 1, 0), s.SetMemory(v, schedule.Global), s.SetAllocation(v, s.Loop(v), nil))
		}},
		{name: "logical axes of split loops", shape: []int64{6, 10}, schedule: func(t *testing.T, s *schedule.Scheduled) {
			v := tv(s, 1)
			d := s.Fusion().Val(v).Domain.Logical
			must(t, s.Split(v, 0, 3, true), s.SetMemory(v, schedule.Shared), s.SetAllocation(v, []core.AxisID{d[1], d[0]}, nil))
		}},
		{name: "split of an output", schedule: func(t *testing.T, s *schedule.Scheduled) {
			v := tv(s, 2)
			must(t, s.Split(v, 0, 5, true), s.SetAllocation(v, s.Loop(v), nil))
		}, refusal: "tv2 is an input or output and is laid out along axes that are made from its dimensions, which strides of dimensions do not tell: cache it"},
		{name: "swizzle of a loop that takes no room", schedule: func(t *testing.T, s *schedule.Scheduled) {
			v := tv(s, 1)
			must(t, s.SetMemory(v, schedule.Shared), s.Split(tv(s, 2), 1, 2, true), s.Split(v, 1, 2, true), s.InlineAt(v, 1, false))
			must(t, s.SetAllocation(v, s.Loop(v), nil), s.SwizzleXOR(v, 0, 2))
		}, refusal: "tv1 is swizzled along an axis that it does not store: loops left of where it is inlined, or of blocks, take no room"},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := parsed(t, twoSteps)
			f := frozen(s)
			x.schedule(t, s)
			require.NoError(t, s.Verify())
			k, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, []int64{10, 6}), Options{})
			if x.refusal != "" {
				require.ErrorContains(t, err, x.refusal)
				return
			}
			require.NoError(t, err, "%v", k)
			require.Equal(t, x.shape, shapeOf(t, k, "tv1"))
		})
	}
}

func shapeOf(t *testing.T, k *kir.Kernel, name string) []int64 {
	var shape []int64
	for _, b := range k.Buffers {
		if b.Name != name {
			continue
		}
		for _, n := range b.Shape {
			size, ok := k.Scalars.ConstInt(n)
			require.True(t, ok)
			shape = append(shape, size)
		}
	}
	return shape
}

// What promoted loops compute has no room along the tensor's own axes.
func TestAllocationOfPromoted(t *testing.T) {
	s := parsed(t, `%0 = tensor f32 [3] contiguity=[yes]
%1 = tensor f32 [2, 3] contiguity=[yes, yes]
%2 = set %0
%3 = broadcast %2 is_broadcast_dim=[true, false]
%4 = mul %3, %1
output %4
`)
	merged(t, s, 3, 4)
	must(t, s.InlineAt(tv(s, 3), 1, false), s.SetAllocation(tv(s, 3), s.Fusion().Val(tv(s, 3)).Domain.Logical, nil))
	_, err := lowered(s, Options{})
	require.ErrorContains(t, err, "tv3 has an allocation domain and is computed in loops that run over more than its axes: inline less")
}

// An input lies where the caller has it: what a schedule says of it promises
// nothing that the host does not check.
func TestAllocationOfInput(t *testing.T) {
	for _, x := range []struct {
		contiguity string
		order      [2]int
		promise    core.Tri
		taken      bool
	}{
		{"[yes, yes]", [2]int{0, 1}, core.Yes, true},
		{"[no, yes]", [2]int{0, 1}, core.No, true},
		{"[no, yes]", [2]int{0, 1}, core.Yes, false},
		{"[yes, yes]", [2]int{1, 0}, core.Yes, false},
	} {
		s := parsed(t, "%0 = tensor f32 [6, 5] contiguity="+x.contiguity+"\n%1 = neg %0\noutput %1\n")
		v := tv(s, 0)
		axes := s.Fusion().Val(v).Domain.Logical
		must(t, s.SetAllocation(v, []core.AxisID{axes[x.order[0]], axes[x.order[1]]}, []core.Tri{x.promise, core.Yes}))
		_, err := lowered(s, Options{})
		if x.taken {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "tv0 is an input and lies in memory as the caller has it: its order and its contiguity are said where it is defined")
		}
	}
}

// An output has the order in memory of the input that it overwrites.
func TestAllocationOfAlias(t *testing.T) {
	s := parsed(t, `%0 = tensor f32 [6, 5] contiguity=[yes, yes]
%1 = neg %0
output %1 alias %0
`)
	loop := s.Loop(tv(s, 1))
	must(t, s.SetAllocation(tv(s, 1), []core.AxisID{loop[1], loop[0]}, nil))
	_, err := lowered(s, Options{})
	require.ErrorContains(t, err, "tv1 is written to the memory of tv0 and has an allocation domain of another order")
}
