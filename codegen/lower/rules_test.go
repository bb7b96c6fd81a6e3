package lower

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// A need is the smallest program that needs a rule.
type need struct {
	rule     rule
	name     string
	text     string
	sizes    [][]int64
	schedule func(t *testing.T, s *schedule.Scheduled)
	refusal  string // why the program is refused with the rule; without it, it computes something wrong
}

func merged(t *testing.T, s *schedule.Scheduled, tensors ...int) {
	for _, n := range tensors {
		must(t, s.Merge(tv(s, n), 0, 1))
	}
}

var needs = []need{
	{rule: ownStorage, name: "compact storage", text: `%0 = tensor f32 [3] contiguity=[yes]
%1 = tensor f32 [2, 3] contiguity=[yes, yes]
%2 = tensor f32 [4, 3] contiguity=[yes, yes]
%3 = set %0
%4 = broadcast %3 is_broadcast_dim=[true, false]
%5 = neg %4
%6 = mul %4, %1
%7 = add %5, %2
output %6
output %7
`, sizes: [][]int64{{3}, {2, 3}, {4, 3}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		merged(t, s, 4, 5, 6, 7)
		must(t, s.InlineAt(tv(s, 4), 1, false))
	}},
	{rule: ownLoopsFirst, name: "own loop first", text: `%0 = tensor f32 [6] contiguity=[yes]
%1 = set %0
%2 = reshape %1 new_shape=[3, 2]
%3 = sum %2 dims=[1] keepdim=false dtype=f32
%4 = broadcast %3 is_broadcast_dim=[false, true]
%5 = sub %2, %4
output %5
`, sizes: [][]int64{{6}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		merged(t, s, 2, 4, 5)
		must(t, s.InlineAt(tv(s, 4), 1, false), s.InlineAt(tv(s, 3), 1, false))
	}},
	{rule: initByLogical, name: "initialisation of a first step", text: `%0 = tensor f32 [12] contiguity=[yes]
%1 = sum %0 dims=[0] keepdim=false dtype=f32
output %1
`, sizes: [][]int64{{12}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		must(t, s.Split(tv(s, 1), 0, 3, true))
		p, err := s.RFactor(tv(s, 1), []int{1})
		must(t, err, s.SetMemory(p[0], schedule.Global), s.Split(p[0], 0, 3, false))
	}},
	{rule: forwardResize, name: "slice looped over its root", text: `%0 = tensor f32 [3] contiguity=[yes]
%1 = slice %0 start_indices=[1] end_indices=[3] strides=[1] manual_normalization=true
output %1
`, sizes: [][]int64{{3}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		v := tv(s, 1)
		must(t, s.SetLoop(v, s.Fusion().Val(v).Domain.Root))
	}},
	{rule: onceAtPromotedLoops, name: "repeated sum", text: `%0 = tensor f32 [2, 4] contiguity=[yes, yes]
%1 = tensor f32 [3, 2] contiguity=[yes, yes]
%2 = sum %0 dims=[1] keepdim=false dtype=f32
%3 = broadcast %2 is_broadcast_dim=[true, false]
%4 = add %3, %1
output %2
output %4
`, sizes: [][]int64{{2, 4}, {3, 2}}, refusal: "is reduced in a loop that", schedule: func(t *testing.T, s *schedule.Scheduled) {
		merged(t, s, 3, 4)
		for _, n := range []int{2, 3, 4} {
			must(t, s.Split(tv(s, n), 0, 3, true), s.Reorder(tv(s, n), map[int]int{0: 1}))
		}
		must(t, s.InlineAt(tv(s, 3), 1, false), s.InlineAt(tv(s, 2), 1, false))
	}},
	{rule: onceAroundLoops, name: "sum in registers of an outer loop", text: `%0 = tensor f32 [4, 2] contiguity=[yes, yes]
%1 = tensor f32 [3, 4] contiguity=[yes, yes]
%2 = sum %0 dims=[1] keepdim=false dtype=f32
%3 = broadcast %2 is_broadcast_dim=[true, false]
%4 = add %3, %1
output %4
`, sizes: [][]int64{{4, 2}, {3, 4}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		must(t, s.Parallelize(tv(s, 2), 0, schedule.Unroll), s.Parallelize(tv(s, 3), 1, schedule.Unroll), s.Parallelize(tv(s, 4), 1, schedule.Unroll))
		must(t, s.InlineAt(tv(s, 3), 2, false), s.InlineAt(tv(s, 2), 1, false))
	}},
	{rule: shiftedBefore, name: "rows that begin elsewhere", text: `%0 = tensor f32 [3, 5] contiguity=[yes, yes]
%1 = sum %0 dims=[1] keepdim=false dtype=f32
output %1
`, sizes: [][]int64{{3, 5}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		must(t, s.AlignRows(tv(s, 1), 0, 1, 2), s.Parallelize(tv(s, 1), 0, schedule.BIDx))
	}},
	{rule: sharesShifted, name: "shared by rows that begin elsewhere", text: `%0 = tensor f32 [5] contiguity=[yes]
%1 = tensor f32 [2, 5] contiguity=[yes, yes]
%2 = set %0
%3 = broadcast %2 is_broadcast_dim=[true, false]
%4 = add %3, %1
output %4
`, sizes: [][]int64{{5}, {2, 5}}, refusal: "in the shape of loops that begin elsewhere in each row", schedule: func(t *testing.T, s *schedule.Scheduled) {
		must(t, s.AlignRows(tv(s, 4), 0, 1, 2), s.Parallelize(tv(s, 4), 0, schedule.TIDy))
		_, err := s.TransformLike(tv(s, 4), nil)
		must(t, err, s.SetMemory(tv(s, 2), schedule.Shared))
	}},
}

// Each program is right, or refused, and is neither without its rule.
func TestNeeds(t *testing.T) {
	for _, x := range needs {
		t.Run(x.name, func(t *testing.T) {
			s := parsed(t, x.text)
			f := frozen(s)
			x.schedule(t, s)
			inputs := fusionfuzz.Inputs(f, 7, x.sizes...)
			k, err := checkWith(s, f, inputs, Options{})
			var unsupported *core.Unsupported
			if x.refusal != "" {
				require.True(t, errors.As(err, &unsupported), "%v", err)
				require.Contains(t, err.Error(), x.refusal)
			} else {
				require.NoError(t, err, "%v", k)
			}
			_, err = checkWith(s, f, inputs, Options{omitted: x.rule})
			require.Error(t, err)
			if x.refusal != "" {
				require.False(t, errors.As(err, &unsupported), "%v", err)
			}
		})
	}
}
