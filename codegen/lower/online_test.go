package lower

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// The sum of exponentials is that of max(), sub(), exp() and sum() also where parts
// of a row are of minus infinities alone, which say nothing of the others.
func TestSumOfExponentialsOfInfinities(t *testing.T) {
	inf := math.Inf(1)
	rows := [][]float64{{-inf}, {-inf, -inf, -inf, -inf, -inf}, {inf}, {1, inf}, {-inf, 5, -inf}, {inf, -inf}, {inf, math.NaN()}, {3e38, -3e38, 3e38}, {-3e38, -2e38}, {1e30, 0, -1e30}}
	const (
		text = `%0 = tensor f32 [11, 40] contiguity=[yes, yes]
%1, %2 = _max_exp_sum %0 dims=[1]
output %1
output %2
`
		whole = `%0 = tensor f32 [11, 40] contiguity=[yes, yes]
%1 = max %0 dims=[1] keepdim=false dtype=null
%2 = broadcast %1 is_broadcast_dim=[false, true]
%3 = sub %0, %2
%4 = exp %3
%5 = sum %4 dims=[1] keepdim=false dtype=f32
output %1
output %5
`
	)
	threads := func(factor int64, inner bool, serial, thread int) func(*testing.T, *schedule.Scheduled) {
		return func(t *testing.T, s *schedule.Scheduled) {
			must(t, s.Split(tv(s, 1), 1, factor, inner))
			partial, err := s.RFactor(tv(s, 1), []int{serial})
			must(t, err)
			for k, p := range partial {
				must(t, s.Parallelize(p, thread, schedule.TIDx), s.Parallelize(s.Fusion().Expr(s.Fusion().Val(tv(s, 1)).Def).Out[k], 1, schedule.TIDx))
			}
			must(t, s.InlineMost(nil, nil))
		}
	}
	for name, scheduled := range map[string]func(*testing.T, *schedule.Scheduled){
		"serial": func(*testing.T, *schedule.Scheduled) {},
		"merged": func(t *testing.T, s *schedule.Scheduled) {
			must(t, s.Split(tv(s, 1), 1, 4, true))
			_, err := s.RFactor(tv(s, 1), []int{1})
			must(t, err)
		},
		"threads": threads(8, true, 1, 2), "more threads than parts": threads(32, true, 1, 2), "runs": threads(8, false, 2, 1),
	} {
		for _, fill := range []float64{0, -inf} {
			for _, at := range []int{0, 17, 35} {
				t.Run(name, func(t *testing.T) {
					s := parsed(t, text)
					f := frozen(s)
					scheduled(t, s)
					inputs := fusionfuzz.Inputs(f, 7, []int64{11, 40})
					x := inputs[0].Array
					if fill != 0 {
						for i := range x.F {
							x.F[i] = fill
						}
					}
					for i, row := range rows {
						copy(x.F[i*40+at:], row)
					}
					_, err := checkWith(s, f, inputs, Options{})
					require.NoError(t, err)
					_, err = checkWith(s, frozen(parsed(t, whole)), inputs, Options{})
					require.NoError(t, err)
				})
			}
		}
	}
}

// What a row has one of, such as the position of its label, is loaded before the row is
// read, so that nobody waits for it after the row is reduced.
func TestElementsAreLoadedBeforeReductions(t *testing.T) {
	s := parsed(t, `%0 = tensor f32 [9, 70] contiguity=[yes, yes]
%1 = tensor i64 [9] contiguity=[yes]
%2 = sum %0 dims=[1] keepdim=false dtype=f32
%3 = broadcast %1 is_broadcast_dim=[false, true]
%4 = take_along_axis %0, %3 dim=1
%5 = squeeze %4 dims=[1] squeeze_expanded=false
%6 = sub %2, %5
output %6
`)
	f := frozen(s)
	sum := tv(s, 2)
	must(t, s.Split(sum, 1, 32, true))
	partial, err := s.RFactor(sum, []int{1})
	must(t, err, s.Parallelize(partial[0], 2, schedule.TIDx), s.Parallelize(sum, 1, schedule.TIDx))
	for _, v := range s.Tensors() {
		if !s.Fusion().Val(v).Input {
			must(t, s.Parallelize(v, 0, schedule.BIDx))
		}
	}
	must(t, s.InlineMost(nil, nil))
	k, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, []int64{9, 70}, []int64{9}), Options{})
	require.NoError(t, err)
	text := k.String()
	row, label := strings.Index(text, "for "), strings.Index(text, "tv1[")
	require.Positive(t, label, text)
	require.Less(t, label, row, text)
}

// What is gathered is there before it is read, also by a part of another reduction.
func TestGatheredIsReadByLaterReductions(t *testing.T) {
	s := parsed(t, `%0 = tensor f32 [9, 70] contiguity=[yes, yes]
%1 = tensor i64 [9] contiguity=[yes]
%2 = sum %0 dims=[1] keepdim=false dtype=f32
%3 = broadcast %1 is_broadcast_dim=[false, true]
%4 = take_along_axis %0, %3 dim=1
%5 = mul %0, %4
%6 = sum %5 dims=[1] keepdim=false dtype=f32
output %2
output %6
`)
	f := frozen(s)
	sum := tv(s, 6) // that of tv2 is made by each thread, without an exchange
	must(t, s.Split(sum, 1, 32, true))
	partial, err := s.RFactor(sum, []int{1})
	must(t, err, s.Parallelize(partial[0], 2, schedule.TIDx), s.Parallelize(sum, 1, schedule.TIDx))
	for _, v := range s.Tensors() {
		if !s.Fusion().Val(v).Input {
			must(t, s.Parallelize(v, 0, schedule.BIDx))
		}
	}
	must(t, s.InlineMost(nil, nil), s.InlineAt(tv(s, 3), 1, false), s.InlineAt(tv(s, 4), 1, false)) // not in the loops of what reads it
	_, err = checkWith(s, f, fusionfuzz.Inputs(f, 7, []int64{9, 70}, []int64{9}), Options{})
	require.NoError(t, err)
}
