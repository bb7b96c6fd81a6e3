package lower

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

var update = flag.Bool("update", false, "write the golden files")

// A feature is one schedule that shows how something is lowered.
type feature struct {
	name     string
	text     string
	sizes    [][]int64
	schedule func(t *testing.T, s *schedule.Scheduled)
	options  Options
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

func frozen(s *schedule.Scheduled) *core.Fusion {
	f := s.Fusion().Clone()
	f.Freeze()
	return f
}

// parallelised gives axis k of each tensor the type p, where it has one.
func parallelised(t *testing.T, s *schedule.Scheduled, k int, p schedule.Parallel) {
	for _, v := range s.Tensors() {
		if !s.Fusion().Val(v).Input && k < len(s.Loop(v)) {
			must(t, s.Parallelize(v, k, p))
		}
	}
}

const (
	bias = `%0 = tensor f32 [-1] contiguity=[yes]
%1 = tensor f32 [-1, -1] contiguity=[yes, yes]
%2 = neg %0
%3 = broadcast %2 is_broadcast_dim=[true, false]
%4 = add %3, %1
output %4
`
	sumText = `%0 = tensor f32 [-1, 1000] contiguity=[yes, yes]
%1 = sum %0 dims=[1] keepdim=false dtype=f32
output %1
`
	addText = `%0 = tensor f32 [-1] contiguity=[yes]
%1 = tensor f32 [-1] contiguity=[yes]
%2 = add %0, %1
output %2
`
	addText2D = `%0 = tensor f32 [-1, -1] contiguity=[no, yes]
%1 = tensor f32 [-1, -1] contiguity=[yes, no] stride_order=[0, 1]
%2 = add %0, %1
output %2
`
	welfordText = `%0 = tensor f32 [6, 100] contiguity=[yes, yes]
%1, %2, %3 = welford %0 dims=[1]
%4 = broadcast %1 is_broadcast_dim=[false, true]
%5 = sub %0, %4
%6 = set %2
output %5
output %6
`
)

// rowSum splits the reduction of rows of %0 for the given number of threads and
// folds each thread's elements first.
func rowSum(threads int64) func(t *testing.T, s *schedule.Scheduled) {
	return func(t *testing.T, s *schedule.Scheduled) {
		out := s.Fusion().Outputs()[0].Val
		cache, err := s.CacheBefore(out)
		must(t, err, s.Split(cache, 1, threads, true))
		partial, err := s.RFactor(cache, []int{1})
		must(t, err, s.Parallelize(cache, 1, schedule.TIDx), s.Parallelize(partial[0], 2, schedule.TIDx))
		parallelised(t, s, 0, schedule.BIDx)
		must(t, s.InlineMost(nil, nil))
	}
}

var features = []feature{
	{name: "serial", text: bias, sizes: [][]int64{{5}, {6, 5}}, schedule: func(t *testing.T, s *schedule.Scheduled) { must(t, s.InlineMost(nil, nil)) }},
	{name: "parallel", text: bias, sizes: [][]int64{{5}, {7, 5}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		out := tv(s, 4)
		must(t, s.Merge(out, 0, 1), s.Split(out, 0, 32, true))
		_, err := s.TransformLike(out, nil)
		must(t, err)
		parallelised(t, s, 0, schedule.BIDx)
		parallelised(t, s, 1, schedule.TIDx)
		must(t, s.InlineMost(nil, nil))
	}},
	{name: "approximate", text: `%0 = tensor f32 [-1] contiguity=[yes]
%1 = exp %0
%2 = truediv 3:f64, %1
%3 = cast %2 dtype=bf16
output %3
`, sizes: [][]int64{{37}}, schedule: func(t *testing.T, s *schedule.Scheduled) { must(t, s.InlineMost(nil, nil)) }},
	{name: "unrolled", text: addText, sizes: [][]int64{{37}, {37}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		scheduleCached(t, s, schedule.Unroll)
	}},
	{name: "unswitched", text: addText, sizes: [][]int64{{37}, {37}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		out := tv(s, 2)
		must(t, s.Split(out, 0, 4, true), s.Split(out, 0, 1, true), s.Split(out, 0, 2, true))
		must(t, s.Reorder(out, map[int]int{1: 2}), s.Parallelize(out, 0, schedule.BIDx), s.Parallelize(out, 2, schedule.TIDx), s.Parallelize(out, 1, schedule.Unswitch), s.Parallelize(out, 3, schedule.Unroll))
	}},
	{name: "vectorized", text: addText, sizes: [][]int64{{40}, {40}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		scheduleCached(t, s, schedule.Vectorize)
	}, options: Options{
		Promise:   func(h kir.HostValue) scalar.Facts { return scalar.Facts{Lo: 0, Hi: 1 << 30, Divisor: 4} },
		Alignment: func(core.ValID) int { return 16 },
	}},
	{name: "rows of a warp", text: sumText, sizes: [][]int64{{3, 1000}}, schedule: rowSum(8)},
	{name: "rows of a block", text: sumText, sizes: [][]int64{{3, 1000}}, schedule: rowSum(128)},
	{name: "rows of no whole warps", text: sumText, sizes: [][]int64{{3, 1000}}, schedule: rowSum(48)},
	{name: "rows of a grid", text: sumText, sizes: [][]int64{{3, 1000}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		v := tv(s, 1)
		must(t, s.Split(v, 1, 250, true), s.Parallelize(v, 0, schedule.BIDy), s.Parallelize(v, 1, schedule.BIDx), s.Split(v, 2, 32, true))
		partial, err := s.RFactor(v, []int{2})
		must(t, err, s.Parallelize(partial[0], 3, schedule.TIDx), s.Parallelize(v, 2, schedule.TIDx), s.InlineMost(nil, nil))
	}},
	{name: "columns", text: `%0 = tensor f32 [100, 32] contiguity=[yes, yes]
%1 = sum %0 dims=[0] keepdim=false dtype=f32
output %1
`, sizes: [][]int64{{100, 32}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		v := tv(s, 1)
		must(t, s.Split(v, 0, 4, true), s.Reorder(v, map[int]int{2: 0}))
		partial, err := s.RFactor(v, []int{1})
		must(t, err)
		for _, w := range []core.ValID{v, partial[0]} {
			must(t, s.Parallelize(w, 0, schedule.TIDx), s.Parallelize(w, -1, schedule.TIDy))
		}
		must(t, s.InlineMost(nil, nil))
	}},
	{name: "welford", text: welfordText, sizes: [][]int64{{6, 100}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		v := tv(s, 1)
		must(t, s.Split(v, 1, 32, true))
		partial, err := s.RFactor(v, []int{1})
		must(t, err)
		for k, p := range partial {
			must(t, s.Parallelize(p, 2, schedule.TIDx), s.Parallelize(s.Fusion().Expr(s.Fusion().Val(v).Def).Out[k], 1, schedule.TIDx))
		}
		out := tv(s, 5)
		must(t, s.Split(out, 1, 32, true), s.Parallelize(out, 2, schedule.TIDx))
		parallelised(t, s, 0, schedule.BIDx)
		must(t, s.InlineMost(nil, nil))
	}},
	{name: "transpose", text: `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = permute %0 dims=[1, 0]
output %1
`, sizes: [][]int64{{10, 7}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		tile, err := s.CacheAfter(tv(s, 0), nil)
		must(t, err)
		out := tv(s, 1)
		for _, v := range []core.ValID{out, tile} {
			must(t, s.Split(v, 1, 4, true), s.Split(v, 0, 4, true))
		}
		must(t, s.Reorder(out, map[int]int{1: 2, 2: 1}), s.Reorder(tile, map[int]int{0: 1, 1: 2, 2: 0}))
		for _, v := range []core.ValID{out, tile} {
			must(t, s.Parallelize(v, 0, schedule.BIDx), s.Parallelize(v, 1, schedule.BIDy), s.Parallelize(v, 2, schedule.TIDy), s.Parallelize(v, 3, schedule.TIDx))
		}
		must(t, s.SetMemory(tile, schedule.Shared), s.InlineAt(tile, 2, false))
	}},
	{name: "asynchronous copy", text: addText, sizes: [][]int64{{37}, {37}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		out := tv(s, 2)
		tile, err := s.CacheAfter(tv(s, 0), nil)
		must(t, err, s.SetMemory(tile, schedule.Shared), s.SetCopy(tile, schedule.AsyncCopy, schedule.CacheUnspecified))
		must(t, s.Split(out, 0, 32, true))
		_, err = s.TransformLike(out, nil)
		must(t, err)
		for _, v := range []core.ValID{out, tile} {
			must(t, s.Parallelize(v, 0, schedule.BIDx), s.Parallelize(v, 1, schedule.TIDx))
		}
		must(t, s.InlineAt(tile, 1, false))
	}},
	{name: "rows as one piece", text: `%0 = tensor f32 [-1, 3] contiguity=[yes, yes]
%1 = neg %0
output %1
`, sizes: [][]int64{{21, 3}}, options: Options{Alignment: func(core.ValID) int { return 16 }}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		out := tv(s, 1)
		negated, err := s.CacheBefore(out)
		must(t, err)
		tile, err := s.CacheAfter(tv(s, 0), nil)
		must(t, err, s.SetMemory(tile, schedule.Shared), s.SetCopy(tile, schedule.AsyncCopy, schedule.CacheUnspecified))
		must(t, s.SetMemory(negated, schedule.Shared))
		for _, v := range []core.ValID{out, negated, tile} {
			must(t, s.Split(v, 0, 8, true), s.Parallelize(v, 0, schedule.BIDx))
		}
		must(t, s.Parallelize(negated, 1, schedule.TIDx)) // a row a thread
		for _, v := range []core.ValID{out, tile} {       // and memory by vectors, of which six threads have one
			must(t, s.Merge(v, 1, 2), s.Split(v, 1, 4, true), s.Parallelize(v, 1, schedule.TIDx), s.Parallelize(v, 2, schedule.Vectorize))
		}
		must(t, s.InlineAt(tile, 1, false), s.InlineAt(negated, 1, false))
	}},
	{name: "in place", text: `%0 = tensor f32 [-1, -1] contiguity=[no, yes] stride_order=[0, 1]
%1 = tensor f32 [-1, -1] contiguity=[yes, yes]
%2 = add %0, %1
%3 = mul %2, %0
output %3 alias %0
`, sizes: [][]int64{{6, 5}, {6, 5}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		out := tv(s, 3)
		must(t, s.Merge(out, 0, 1), s.Split(out, 0, 8, true))
		_, err := s.TransformLike(out, nil)
		must(t, err)
		parallelised(t, s, 0, schedule.BIDx)
		parallelised(t, s, 1, schedule.TIDx)
		must(t, s.InlineMost(nil, nil))
	}},
	{name: "scatter", text: `%0 = tensor f32 [4, 6] contiguity=[yes, yes]
%1 = tensor i64 [3, 5] contiguity=[yes, yes]
%2 = tensor f32 [4, 5] contiguity=[yes, yes]
%3 = scatter %0, %1, %2 dim=1
%4 = neg %3
output %4
`, sizes: [][]int64{{4, 6}, {3, 5}, {4, 5}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		for _, v := range []core.ValID{tv(s, 3), tv(s, 4)} {
			must(t, s.Merge(v, 0, 1), s.Split(v, 0, 8, true))
		}
		parallelised(t, s, 0, schedule.BIDx)
		parallelised(t, s, 1, schedule.TIDx)
		must(t, s.InlineMost(nil, nil))
	}},
	{name: "swizzle", text: chunkText, sizes: [][]int64{{16, 8, 4}}, schedule: swizzleChunks, options: aligned},
	{name: "permuted output", text: addText2D, sizes: [][]int64{{6, 5}, {6, 5}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		out := tv(s, 2)
		loop := s.Loop(out)
		must(t, s.SetAllocation(out, []core.AxisID{loop[1], loop[0]}, nil), s.Reorder(out, map[int]int{0: 1}), s.Merge(out, 0, 1))
	}},
	{name: "half sum", text: `%0 = tensor f16 [4, 64] contiguity=[yes, yes]
%1 = sum %0 dims=[1] keepdim=false dtype=f16
output %1
`, sizes: [][]int64{{4, 64}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		_, err := s.CacheBefore(tv(s, 1))
		must(t, err, s.InlineMost(nil, nil))
	}},
	{name: "held packed", text: `%0 = tensor bf16 [-1, 512] contiguity=[yes, yes]
%1 = cast %0 dtype=f32
%2 = sum %1 dims=[1] keepdim=false dtype=f32
%3 = broadcast %2 is_broadcast_dim=[false, true]
%4 = truediv %1, %3
output %4
`, sizes: [][]int64{{3, 512}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		out := tv(s, 4)
		x, err := s.CacheAfter(tv(s, 0), nil)
		must(t, err, s.HoldPacked(x))
		_, err = s.Recompute(tv(s, 1), []core.ValID{out})
		must(t, err, s.Split(out, 1, 2, true), s.Split(out, 1, 64, true))
		_, err = s.TransformLike(out, nil)
		must(t, err)
		_, err = s.RFactor(tv(s, 2), []int{1, 3})
		must(t, err)
		parallelised(t, s, 0, schedule.BIDx)
		for _, v := range s.Tensors() {
			if !s.Fusion().Val(v).Input && len(s.Loop(v)) > 1 {
				must(t, s.Parallelize(v, len(s.Loop(v))-min(2, len(s.Loop(v))-1), schedule.TIDx))
			}
		}
		must(t, s.InlineMost(nil, nil))
	}},
	{name: "slice of slices", text: `%0 = tensor f32 [10] contiguity=[yes]
%1 = set %0
%2 = slice %1 start_indices=[0] end_indices=[8] strides=[1] manual_normalization=true
%3 = slice %1 start_indices=[2] end_indices=[10] strides=[1] manual_normalization=true
%4 = slice %3 start_indices=[1] end_indices=[7] strides=[1] manual_normalization=true
%5 = slice %2 start_indices=[2] end_indices=[8] strides=[1] manual_normalization=true
%6 = add %4, %5
output %6
`, sizes: [][]int64{{10}}, schedule: func(t *testing.T, s *schedule.Scheduled) { must(t, s.InlineMost(nil, nil)) }},
	{name: "cat", text: `%0 = tensor f32 [3, 5] contiguity=[yes, yes]
%1 = tensor f32 [2, 5] contiguity=[yes, yes]
%2 = neg %1
%3 = cat [%0, %2, %0] dim=0 manual_padding=false
output %3
`, sizes: [][]int64{{3, 5}, {2, 5}}, schedule: func(t *testing.T, s *schedule.Scheduled) { must(t, s.InlineMost(nil, nil)) }},
	{name: "pad", text: `%0 = tensor f32 [5] contiguity=[yes]
%1 = pad %0 pad_widths=[2, 3] value=7:f64
output %1
`, sizes: [][]int64{{5}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		must(t, s.Split(tv(s, 1), 0, 4, true), s.Parallelize(tv(s, 1), 1, schedule.TIDx))
	}},
	{name: "take along axis", text: `%0 = tensor f32 [4, 6] contiguity=[yes, yes]
%1 = tensor i64 [4, 3] contiguity=[yes, yes]
%2 = take_along_axis %0, %1 dim=1
output %2
`, sizes: [][]int64{{4, 6}, {4, 3}}, schedule: func(*testing.T, *schedule.Scheduled) {}},
	{name: "random", text: `%0 = tensor f32 [5, 8] contiguity=[yes, yes]
%1 = uniform minval=0:f64 maxval=1:f64 shape=[5, 8] dtype=f32
%2 = add %0, %1
output %2
`, sizes: [][]int64{{5, 8}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		out := s.Fusion().Outputs()[0].Val
		must(t, s.Merge(out, 0, 1), s.Split(out, 0, 16, true))
		_, err := s.TransformLike(out, nil)
		must(t, err)
		parallelised(t, s, 1, schedule.TIDx)
		must(t, s.InlineMost(nil, nil))
	}},
	{name: "vectors of own width", text: addText, sizes: [][]int64{{21}, {21}}, schedule: func(t *testing.T, s *schedule.Scheduled) {
		wide, err := s.CacheAfter(tv(s, 0), nil)
		must(t, err)
		out := tv(s, 2)
		_, err = s.CacheBefore(out)
		must(t, err, s.Split(out, 0, 4, true), s.Split(out, 0, 2, true))
		_, err = s.TransformLike(out, nil)
		must(t, err)
		for _, v := range s.Tensors() {
			if !s.Fusion().Val(v).Input {
				must(t, s.Parallelize(v, 0, schedule.BIDx), s.Parallelize(v, 1, schedule.TIDx))
			}
		}
		must(t, s.Parallelize(wide, 2, schedule.Vectorize), s.Split(out, 2, 2, true), s.Parallelize(out, 3, schedule.Vectorize), s.InlineMost(nil, nil))
	}, options: Options{Alignment: func(core.ValID) int { return 16 }}},
}

// scheduleCached computes the output from cached inputs by threads that have
// four elements each; the innermost loop of caches and output is p.
func scheduleCached(t *testing.T, s *schedule.Scheduled, p schedule.Parallel) {
	var copies []core.ValID
	for _, in := range []int{0, 1} {
		c, err := s.CacheAfter(tv(s, in), nil)
		must(t, err)
		copies = append(copies, c)
	}
	out := tv(s, 2)
	_, err := s.CacheBefore(out)
	must(t, err, s.Split(out, 0, 4, true), s.Split(out, 0, 2, true))
	_, err = s.TransformLike(out, nil)
	must(t, err)
	for _, v := range s.Tensors() {
		if !s.Fusion().Val(v).Input {
			must(t, s.Parallelize(v, 0, schedule.BIDx), s.Parallelize(v, 1, schedule.TIDx))
		}
	}
	for _, v := range append(copies, out) {
		must(t, s.Parallelize(v, 2, p))
	}
	must(t, s.InlineMost(nil, nil))
}

// Each kernel is as in testdata, and its simulation equals core.Eval.
func TestFeatures(t *testing.T) {
	for _, x := range features {
		t.Run(x.name, func(t *testing.T) {
			s := parsed(t, x.text)
			f := frozen(s)
			x.schedule(t, s)
			require.NoError(t, s.Verify())
			k, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, x.sizes...), x.options)
			if err != nil && k != nil {
				t.Log(k)
			}
			require.NoError(t, err)
			golden(t, x.name, k.String())
		})
	}
}

func golden(t *testing.T, name, got string) {
	path := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
