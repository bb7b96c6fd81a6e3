package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// A regression is a program that random schedules found to be wrong.
type regression struct {
	name     string
	text     string
	sizes    [][]int64
	schedule func(t *testing.T, s *schedule.Scheduled)
	options  Options
}

var regressions = []regression{
	// All results of a reduction across threads are guarded where one has no room
	// for points without an element.
	{name: "results laid out differently", text: `%0 = tensor f32 [-1] contiguity=[yes]
%1, %2, %3 = welford %0 dims=[0]
output %1
output %2
output %3
`, sizes: [][]int64{{2}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		must(t, s.Split(tv(s, 1), 0, 3, true), s.Split(tv(s, 2), 0, 3, true), s.Split(tv(s, 3), 0, 3, true))
		first, err := s.RFactor(tv(s, 1), []int{1})
		must(t, err)
		for _, v := range first {
			must(t, s.Split(v, 0, 3, true), s.Parallelize(v, 2, schedule.TIDx), s.SetMemory(v, schedule.Shared))
		}
		must(t, s.SetAllocation(first[1], s.Fusion().Val(first[1]).Domain.Logical, nil))
	}},
}

func TestRegressions(t *testing.T) {
	for _, x := range regressions {
		t.Run(x.name, func(t *testing.T) {
			s := parsed(t, x.text)
			f := frozen(s)
			x.schedule(t, s)
			k, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, x.sizes...), x.options)
			require.NoError(t, err, "%v\n%v", s, k)
		})
	}
}
