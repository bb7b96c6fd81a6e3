package lower

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/codegen/trial"
	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// One kernel serves all rows that fit: the row is in registers of a block's threads,
// which have constant loops, and what is beyond its end is no element. Longer rows are an
// error of the launch.
func TestRowsOfManyLengths(t *testing.T) {
	s, f := heldRows(t, "-1", 0)
	k, err := lowered(s, Options{})
	must(t, err)
	for _, columns := range []int64{0, 1, 7, 8, 9, 95, 96, 97} {
		r := trial.Trial{Scheduled: s, Kernel: k, Inputs: fusionfuzz.Inputs(f, uint64(columns), []int64{3, columns})}
		got, report, err := r.Simulate(sim.Options{})
		if columns == 97 {
			require.EqualError(t, err, "split_whole(): tv0.1 is 97, more than the capacity 96 of the schedule")
			continue
		}
		must(t, err, report.Err())
		want, err := trial.Want(f, r.Inputs, r.Random)
		must(t, err)
		require.Empty(t, fusionfuzz.Difference(want[0], got[0], 1e-6), "%d columns", columns)
	}
	for _, columns := range []int64{0, 96} { // of which the capacity is a multiple
		s, f := heldRows(t, strconv.FormatInt(columns, 10), 0)
		_, err := checkWith(s, f, fusionfuzz.Inputs(f, 1, []int64{3, columns}), Options{})
		must(t, err)
	}
}

// Of rows that are promised to have some elements, those are not tested: only shorter rows
// would show it, and are an error of the launch.
func TestRowsOfAtLeast(t *testing.T) {
	s, f := heldRows(t, "-1", 81)
	k, err := lowered(s, Options{})
	must(t, err)
	require.Contains(t, k.String(), "select(i0 < 10, true, tx + i0*8 < tv0_n1)")
	for _, columns := range []int64{80, 81, 87, 88, 95, 96} {
		r := trial.Trial{Scheduled: s, Kernel: k, Inputs: fusionfuzz.Inputs(f, uint64(columns), []int64{3, columns})}
		got, report, err := r.Simulate(sim.Options{})
		if columns == 80 {
			require.EqualError(t, err, "promise_least(): tv0.1 is 80, fewer than the 81 that the schedule relies on")
			continue
		}
		must(t, err, report.Err())
		want, err := trial.Want(f, r.Inputs, r.Random)
		must(t, err)
		require.Empty(t, fusionfuzz.Difference(want[0], got[0], 1e-6), "%d columns", columns)
	}
}

// heldRows returns a schedule of x / sum(x) for rows of x of at least that many and up to 96 columns, and its fusion.
func heldRows(t *testing.T, columns string, least int64) (*schedule.Scheduled, *core.Fusion) {
	s := parsed(t, strings.ReplaceAll(`%0 = tensor f32 [-1, COLUMNS] contiguity=[yes, yes]
%1 = exp %0
%2 = sum %1 dims=[1] keepdim=false dtype=f32
%3 = broadcast %2 is_broadcast_dim=[false, true]
%4 = truediv %1, %3
output %4
`, "COLUMNS", columns))
	f := s.Fusion().Clone()
	out := tv(s, 4)
	_, err := s.CacheAfter(tv(s, 0), nil)
	must(t, err, s.PromiseLeast(out, 1, least), s.SplitWhole(out, 1, 96), s.Split(out, 2, 8, true))
	refusals, err := s.TransformLike(out, nil)
	must(t, err)
	require.Empty(t, refusals)
	partial, err := s.RFactor(tv(s, 2), []int{1, 2})
	must(t, err, s.Parallelize(partial[0], 0, schedule.BIDx), s.Parallelize(partial[0], 3, schedule.TIDx), s.ParallelizeLike(partial[0], -1, nil, nil), s.InlineMost(nil, nil), s.Verify())
	return s, f
}

// What all rows have in common that a kernel is for is no argument of it: the number of elements that a mean is
// divided by.
func TestScalarsOfWholeRows(t *testing.T) {
	for least, want := range map[int64]string{96: "truediv(tv4, 96)", 95: "truediv(tv4, s0)"} {
		s := parsed(t, `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1, %2, %3 = welford %0 dims=[1]
output %1
`)
		f := s.Fusion().Clone()
		must(t, s.Rewrite(func(f *core.Fusion) error {
			_, err := f.TwoPassWelford(nil)
			return err
		}))
		mean := s.Fusion().Expr(s.Fusion().Val(s.Fusion().Outputs()[0].Val).Def)
		sum := s.Fusion().TensorArgs(mean)[0]
		must(t, s.PromiseLeast(sum, 1, least), s.SplitWhole(sum, 1, 96), s.InlineMost(nil, nil), s.Verify())
		k, err := lowered(s, Options{})
		must(t, err)
		require.Contains(t, k.String(), want)
		r := trial.Trial{Scheduled: s, Kernel: k, Inputs: fusionfuzz.Inputs(f, 1, []int64{3, 96})}
		got, report, err := r.Simulate(sim.Options{})
		must(t, err, report.Err())
		all, err := trial.Want(f, r.Inputs, r.Random)
		must(t, err)
		require.Empty(t, fusionfuzz.Difference(all[0], got[0], 1e-6))
	}
}

// What is loaded after an exchange of threads that is apart is not under way before it.
func TestExchangesApart(t *testing.T) {
	for _, apart := range []bool{false, true} {
		s, f := heldRows(t, "-1", 0)
		if apart {
			s.SetApart()
		}
		k, err := checkWith(s, f, fusionfuzz.Inputs(f, 3, []int64{5, 37}), Options{})
		require.NoError(t, err)
		exchanged, after := false, 0
		k.Body.Walk(func(s kir.Statement) {
			switch s := s.(type) {
			case kir.Assign:
				exchanged = exchanged || k.Values[s.Value].Kind == kir.Shuffle
			case kir.UnderWay:
				require.True(t, exchanged)
				after++
			}
		})
		require.True(t, exchanged)
		require.Equal(t, map[bool]int{true: 1}[apart], after)
	}
}

// Loops that load what is read after a reduction stand before it if they are to.
func TestLoadsFirst(t *testing.T) {
	for _, first := range []bool{false, true} {
		s := parsed(t, `%0 = tensor f32 [3, 40] contiguity=[yes, yes]
%1 = tensor f32 [3, 40] contiguity=[yes, yes]
%2 = set %0
%3 = sum %2 dims=[1] keepdim=false dtype=f32
%4 = broadcast %3 is_broadcast_dim=[false, true]
%5 = set %1
%6 = mul %4, %5
output %6
`)
		f := s.Fusion().Clone()
		f.Freeze()
		parallelised(t, s, 0, schedule.BIDx)
		must(t, s.InlineAt(tv(s, 2), 2, false), s.InlineAt(tv(s, 3), 1, false), s.InlineAt(tv(s, 4), 2, false), s.InlineAt(tv(s, 5), 1, false))
		if first {
			s.SetFirst()
		}
		k, err := checkWith(s, f, fusionfuzz.Inputs(f, 3, []int64{3, 40}, []int64{3, 40}), Options{})
		require.NoError(t, err)
		text := k.String()
		require.Equal(t, first, strings.Index(text, "= tv1[") < strings.Index(text, "add("), text)
	}
}
