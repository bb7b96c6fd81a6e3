package lower

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// The mean of infinities of one sign and numbers is that infinity, wherever they
// stand, and the mean of both signs is NaN, as is the sum of squares. Large
// numbers whose difference overflows have a mean.
func TestWelfordOfInfinities(t *testing.T) {
	inf := math.Inf(1)
	rows := [][]float64{{inf}, {1, inf}, {inf, 1}, {2, inf, 1, 3, 4}, {inf, 2, inf}, {-inf, 5}, {inf, -inf}, {-inf, 1, inf}, {inf, math.NaN()}, {3e38, 3e38, -3e38, -3e38, 1e38}}
	const text = `%0 = tensor f32 [10, 40] contiguity=[yes, yes]
%1, %2, %3 = welford %0 dims=[1]
output %1
output %2
output %3
`
	serial := func(*testing.T, *schedule.Scheduled) {}
	merged := func(t *testing.T, s *schedule.Scheduled) {
		must(t, s.Split(tv(s, 1), 1, 4, true))
		_, err := s.RFactor(tv(s, 1), []int{1})
		must(t, err)
	}
	threads := func(t *testing.T, s *schedule.Scheduled) {
		must(t, s.Split(tv(s, 1), 1, 8, true))
		partial, err := s.RFactor(tv(s, 1), []int{1})
		must(t, err)
		for k, p := range partial {
			must(t, s.Parallelize(p, 2, schedule.TIDx), s.Parallelize(s.Fusion().Expr(s.Fusion().Val(tv(s, 1)).Def).Out[k], 1, schedule.TIDx))
		}
		must(t, s.InlineMost(nil, nil))
	}
	for name, scheduled := range map[string]func(*testing.T, *schedule.Scheduled){"serial": serial, "merged": merged, "threads": threads} {
		for _, at := range []int{0, 17, 35} {
			t.Run(name, func(t *testing.T) {
				s := parsed(t, text)
				f := frozen(s)
				scheduled(t, s)
				inputs := fusionfuzz.Inputs(f, 7, []int64{10, 40})
				x := inputs[0].Array
				for i, row := range rows {
					copy(x.F[i*40+at:], row)
				}
				_, err := checkWith(s, f, inputs, Options{})
				require.NoError(t, err)
			})
		}
	}
	f := frozen(parsed(t, text))
	inputs := fusionfuzz.Inputs(f, 7, []int64{10, 40})
	inputs[0].Array.F[3] = inf
	want, err := f.Eval([]*core.Array{inputs[0].Array}, nil, core.RandomState{})
	require.NoError(t, err)
	require.True(t, math.IsInf(want[0].F[0], 1) && math.IsNaN(want[1].F[0]))
}
