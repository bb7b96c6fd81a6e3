package lower

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// A droppedCase is a schedule, what becomes of its index tests, and the
// rules that it needs.
type droppedCase struct {
	name      string
	text      string
	sizes     [][]int64
	schedule  func(t *testing.T, s *schedule.Scheduled)
	decisions string
	rules     []rule
	options   Options
}

// foldRows reduces the only dimension of %0, copied to registers and split, and
// copies results.
func foldRows(t *testing.T, s *schedule.Scheduled) {
	f := s.Fusion()
	for _, o := range f.Outputs() {
		if f.Expr(f.Val(o.Val).Def).Op.Class == core.Reduction {
			_, err := s.CacheBefore(o.Val)
			must(t, err)
		}
	}
	for _, v := range s.Tensors() {
		if !f.Val(v).Input && len(s.Loop(v)) > 0 {
			must(t, s.Split(v, 0, 4, true))
		}
	}
	must(t, s.InlineMost(nil, nil))
}

const tileOfRows = `%0 = tensor f32 [-1, 8] contiguity=[yes, yes]
%1 = set %0
%2 = neg %1
%3 = set %2
output %3
`

const rowSums = `%0 = tensor f32 [10, 3] contiguity=[yes, yes]
%1 = set %0
%2 = exp %1
%3 = sum %2 dims=[1] keepdim=false dtype=f32
output %3
`

// splitRows splits the rows of all tensors, of which threads have one each, and has columns run as columns says.
func splitRows(t *testing.T, s *schedule.Scheduled, columns schedule.Parallel) {
	_, err := s.CacheBefore(tv(s, 3))
	must(t, err)
	for _, v := range s.Tensors() {
		if s.Fusion().Val(v).Input {
			continue
		}
		must(t, s.Split(v, 0, 4, true), s.Parallelize(v, 0, schedule.TIDy), s.Parallelize(v, 1, schedule.TIDx))
		if len(s.Loop(v)) > 2 {
			must(t, s.Parallelize(v, 2, columns))
		}
	}
	must(t, s.InlineMost(nil, nil))
}

var droppedCases = []droppedCase{
	{name: "sum", text: `%0 = tensor f32 [10] contiguity=[yes]
%1 = set %0
%2 = exp %1
%3 = sum %2 dims=[0] keepdim=false dtype=f32
output %3
`, sizes: [][]int64{{10}}, schedule: foldRows, rules: []rule{dropsGlobal, keptForIdentity, storesIdentity}, decisions: `
tv1: kept (global): tv0 is in global memory
tv2: kept (identity): sum(), which reads it, relies on its identity where there is no element
tv4: dropped`},
	{name: "conversion", text: `%0 = tensor bf16 [10] contiguity=[yes]
%1 = set %0
%2 = cast %1 dtype=f32
%3 = max %2 dims=[0] keepdim=false dtype=null
output %3
`, sizes: [][]int64{{10}}, schedule: foldRows, rules: []rule{storesIdentity}, decisions: `
tv1: kept (identity): max(), which reads it, relies on its identity where there is no element
tv2: dropped
tv4: dropped`},
	{name: "conversion to more values", text: `%0 = tensor i32 [10] contiguity=[yes]
%1 = set %0
%2 = cast %1 dtype=i64
%3 = max %2 dims=[0] keepdim=false dtype=null
output %3
`, sizes: [][]int64{{10}}, schedule: foldRows, rules: []rule{dropsGlobal, storesIdentity}, decisions: `
tv1: kept (global): tv0 is in global memory
tv2: kept (identity): max(), which reads it, relies on its identity where there is no element
tv4: dropped`},
	{name: "conflict", text: `%0 = tensor f32 [10] contiguity=[yes]
%1 = set %0
%2 = sum %1 dims=[0] keepdim=false dtype=f32
%3 = max %1 dims=[0] keepdim=false dtype=null
output %2
output %3
`, sizes: [][]int64{{10}}, schedule: foldRows, rules: []rule{oneIdentity}, decisions: `
tv1: kept (identity): sum(), which reads it, relies on its identity where there is no element
tv4: dropped
tv5: kept (conflict): sum() relies on another value of tv1 where there is no element`},
	{name: "welford", text: `%0 = tensor f32 [10] contiguity=[yes]
%1 = set %0
%2, %3, %4 = welford %1 dims=[0]
%5 = add %2, %3
output %5
`, sizes: [][]int64{{10}}, schedule: foldRows, rules: []rule{countsOne}, decisions: `
tv1: kept (global): tv0 is in global memory
tv2: kept (count): what it counts is no element`},
	{name: "another reduction", text: `%0 = tensor f32 [10, 3] contiguity=[yes, yes]
%1 = max %0 dims=[1] keepdim=false dtype=null
%2 = sum %1 dims=[0] keepdim=false dtype=f32
output %2
`, sizes: [][]int64{{10, 3}}, schedule: foldRows, rules: []rule{sameReduction}, decisions: `
tv1: kept (global): tv0 is in global memory
tv3: kept (direct): tv1 is the result of another reduction`},
	{name: "steps of a sum", text: `%0 = tensor f32 [10, 3] contiguity=[yes, yes]
%1 = sum %0 dims=[0, 1] keepdim=false dtype=f32
output %1
`, sizes: [][]int64{{10, 3}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		cache, err := s.CacheBefore(tv(s, 1))
		must(t, err, s.Split(cache, 0, 4, true))
		_, err = s.RFactor(cache, []int{2})
		must(t, err, s.InlineMost(nil, nil))
	}, decisions: `
tv3: kept (global): tv0 is in global memory
tv2: dropped`},
	{name: "expanded", text: `%0 = tensor f32 [5] contiguity=[yes]
%1 = set %0
%2 = broadcast %1 is_broadcast_dim=[false, true]
%3 = expand %2 shape=[5, 7]
%4 = sum %3 dims=[1] keepdim=false dtype=f32
output %4
`, sizes: [][]int64{{5}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		cache, err := s.CacheBefore(tv(s, 4))
		must(t, err, s.Split(cache, 1, 4, true))
		for _, n := range []int{1, 2, 3} {
			must(t, s.InlineAt(tv(s, n), 1, false))
		}
	}, rules: []rule{sameTests}, decisions: `
tv5: kept (direct): where there is no element, tv3 may have one`},
	{name: "rows of a thread", text: rowSums, sizes: [][]int64{{10, 3}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		splitRows(t, s, schedule.Serial)
	}, rules: []rule{dropsGlobal}, decisions: `
tv1: kept (global): tv0 is in global memory
tv2: dropped
tv4: dropped
tv3: kept (global): tv3 is in global memory`},
	{name: "rows of several blocks", text: rowSums, sizes: [][]int64{{10, 3}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		splitRows(t, s, schedule.BIDx)
	}, rules: []rule{ownResults}, decisions: `
tv1: kept (global): tv0 is in global memory
tv2: kept (identity): sum(), which reads it, relies on its identity where there is no element
tv4: dropped
tv3: kept (global): tv3 is in global memory`},
	{name: "outside", text: `%0 = tensor f32 [8] contiguity=[yes]
%1 = set %0
%2 = neg %1
%3 = exp %2
output %3
`, sizes: [][]int64{{8}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		for _, n := range []int{2, 3} {
			must(t, s.Split(tv(s, n), 0, 3, true))
		}
		must(t, s.InlineAt(tv(s, 2), 2, false))
	}, rules: []rule{dropsOutside}, decisions: `
tv2: kept (inside): an index of tv1 may be outside where there is no element
tv3: kept (global): tv3 is in global memory`},
	{name: "shared elements", text: `%0 = tensor f32 [4, 1] contiguity=[yes, none]
%1 = tensor f32 [4, 3] contiguity=[yes, yes]
%2 = tensor f32 [6] contiguity=[yes]
%3 = set %0
%4 = neg %3
%5 = add %4, %1
%6 = neg %2
output %5
output %6
`, sizes: [][]int64{{4, 1}, {4, 3}, {6}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		parallelised(t, s, 1, schedule.TIDx)
		must(t, s.Parallelize(tv(s, 6), 0, schedule.TIDx), s.SetMemory(tv(s, 4), schedule.Shared), s.InlineMost(nil, nil))
	}, rules: []rule{dropsSharedElements}, decisions: `
tv3: kept (global): tv0 is in global memory
tv4: kept (own element): several points write one element of tv4
tv5: kept (global): tv1 is in global memory`},
	{name: "threads beyond a row", text: `%0 = tensor f32 [96] contiguity=[yes]
%1 = tensor f32 [128] contiguity=[yes]
%2 = set %0
%3 = neg %2
%4 = exp %3
%5 = neg %1
output %4
output %5
`, sizes: [][]int64{{96}, {128}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		parallelised(t, s, 0, schedule.TIDx)
		must(t, s.SetMemory(tv(s, 2), schedule.Shared), s.InlineAt(tv(s, 3), 1, false))
	}, rules: []rule{dropsOutside}, decisions: `
tv2: kept (global): tv0 is in global memory
tv3: kept (inside): an index of tv2 may be outside where there is no element
tv4: kept (global): tv4 is in global memory`},
	{name: "tile", text: `%0 = tensor f32 [-1] contiguity=[yes]
%1 = set %0
%2 = neg %1
%3 = exp %2
output %3
`, sizes: [][]int64{{37}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		for _, n := range []int{1, 2, 3} {
			must(t, s.Split(tv(s, n), 0, 32, true), s.Parallelize(tv(s, n), 1, schedule.TIDx), s.Parallelize(tv(s, n), 0, schedule.BIDx))
		}
		must(t, s.SetMemory(tv(s, 2), schedule.Shared), s.InlineMost(nil, nil))
	}, decisions: `
tv1: kept (global): tv0 is in global memory
tv2: dropped
tv3: kept (global): tv3 is in global memory`},
	{name: "vectors", text: `%0 = tensor f32 [3, -1] contiguity=[yes, yes]
%1 = sum %0 dims=[1] keepdim=false dtype=f32
output %1
`, sizes: [][]int64{{3, 40}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		load, err := s.CacheAfter(tv(s, 0), nil)
		must(t, err)
		cache, err := s.CacheBefore(tv(s, 1))
		must(t, err, s.Split(cache, 1, 4, true), s.Split(cache, 1, 4, true))
		partial, err := s.RFactor(cache, []int{1, 3})
		must(t, err, s.Parallelize(cache, 1, schedule.TIDx), s.Parallelize(partial[0], 2, schedule.TIDx), s.Parallelize(partial[0], 0, schedule.BIDx))
		must(t, s.Split(load, 1, 4, true), s.Split(load, 1, 4, true), s.Parallelize(load, 2, schedule.TIDx), s.Parallelize(load, 3, schedule.Vectorize))
		parallelised(t, s, 0, schedule.BIDx)
		must(t, s.InlineMost(nil, nil))
	}, options: Options{
		Promise:   func(h kir.HostValue) scalar.Facts { return scalar.Facts{Lo: 1, Hi: 1 << 20, Divisor: 4} },
		Alignment: func(core.ValID) int { return 16 },
	}, decisions: `
tv2: kept (identity): sum(), which reads it, relies on its identity where there is no element
tv4: dropped`},
	{name: "tile with a place for each point", text: tileOfRows, sizes: [][]int64{{10, 8}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		tile := tv(s, 2)
		parallelised := func(k int, p schedule.Parallel) {
			for n := range 3 {
				must(t, s.Parallelize(tv(s, n+1), k, p))
			}
		}
		for n := range 3 {
			must(t, s.Split(tv(s, n+1), 0, 4, true))
		}
		loop := s.Loop(tile)
		must(t, s.SetMemory(tile, schedule.Shared), s.SetAllocation(tile, []core.AxisID{loop[0], loop[2], loop[1]}, nil))
		for n := range 3 {
			must(t, s.Merge(tv(s, n+1), 1, 2))
		}
		parallelised(0, schedule.BIDx)
		parallelised(1, schedule.TIDx)
		must(t, s.InlineMost([]core.ValID{tv(s, 1)}, nil), s.InlineAt(tile, 1, false))
	}, decisions: `
tv1: kept (global): tv0 is in global memory
tv2: dropped
tv3: kept (global): tv3 is in global memory`},
	{name: "tile without", text: strings.Replace(tileOfRows, "-1", "10", 1), sizes: [][]int64{{10, 8}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		tile := tv(s, 2)
		must(t, s.SetMemory(tile, schedule.Shared))
		for _, v := range []core.ValID{tv(s, 1), tile} {
			must(t, s.Split(v, 1, 3, true))
		}
		must(t, s.SetAllocation(tile, s.Fusion().Val(tile).Domain.Logical, nil), s.InlineMost([]core.ValID{tv(s, 1)}, nil))
	}, decisions: `
tv1: kept (global): tv0 is in global memory
tv2: kept (own element): tv2 has no room for points without an element`},
	{name: "unswitched", text: `%0 = tensor f32 [-1] contiguity=[yes]
%1 = set %0
%2 = neg %1
%3 = exp %2
output %3
`, sizes: [][]int64{{37}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		for _, n := range []int{1, 2, 3} {
			must(t, s.Split(tv(s, n), 0, 4, true), s.Parallelize(tv(s, n), 1, schedule.Unswitch))
		}
		must(t, s.InlineMost(nil, nil))
	}, decisions: `
tv1: kept (global): tv0 is in global memory
tv2: dropped
tv3: kept (global): tv3 is in global memory`},
}

// Each statement keeps its index tests or not for the reason that is written
// here, and computes what core.Eval does; without a rule that it needs it does
// not.
func TestDroppedTests(t *testing.T) {
	for _, x := range droppedCases {
		t.Run(x.name, func(t *testing.T) {
			lower := func(omitted rule) (string, *kir.Kernel, error) {
				s := parsed(t, x.text)
				f := frozen(s)
				x.schedule(t, s)
				var decisions []string
				o := x.options
				o.omitted = omitted
				o.Decided = func(d Decision) { decisions = append(decisions, d.String()) }
				k, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, x.sizes...), o)
				return "\n" + strings.Join(decisions, "\n"), k, err
			}
			decisions, k, err := lower(allRules)
			require.NoError(t, err, "%v", k)
			require.Equal(t, x.decisions, decisions, "%v", k)
			for _, r := range x.rules {
				_, k, err := lower(r)
				require.Error(t, err, "without rule %d\n%v", r, k)
			}
		})
	}
}
