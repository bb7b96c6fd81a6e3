package schedulers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers"
	"nvfuser_go/schedulers/scheduler"
)

const (
	elementwise = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = neg %0
output %1
`
	reduction = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = sum %0 dims=[1] dtype=f32
output %1
`
	normalization = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = sum %0 dims=[1] dtype=f32
%2 = broadcast %1 is_broadcast_dim=[false, true]
%3 = sub %0, %2
output %3
`
	columns = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = sum %0 dims=[0] dtype=f32
%2 = broadcast %1 is_broadcast_dim=[true, false]
%3 = sub %0, %2
output %3
`
	crossed = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = sum %0 dims=[1] dtype=f32
%2 = broadcast %1 is_broadcast_dim=[false, true]
%3 = sub %0, %2
%4 = sum %3 dims=[0] dtype=f32
output %4
`
	permuted = `%0 = tensor f32 [-1, -1] contiguity=[no, yes]
%1 = permute %0 dims=[1, 0]
output %1
`
	two = `%0 = tensor f32 [-1] contiguity=[yes]
%1 = tensor f32 [-1] contiguity=[yes]
%2 = neg %0
%3 = pad %1 pad_widths=[1, 1] value=0:f64
output %2
output %3
`
	padded = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = pad %0 pad_widths=[8, 8, 0, 0] value=0:f64
%2 = permute %1 dims=[1, 0]
output %2
`
	inPlace = `%0 = tensor f32 [-1] contiguity=[yes]
%1 = neg %0
%2 = pad %0 pad_widths=[1, 1] value=0:f64
output %1 alias %0
output %2
`
	nine = `%0 = tensor f32 [-1] contiguity=[yes]
%1 = tensor f32 [-1] contiguity=[yes]
%2 = tensor f32 [-1] contiguity=[yes]
%3 = tensor f32 [-1] contiguity=[yes]
%4 = tensor f32 [-1] contiguity=[yes]
%5 = tensor f32 [-1] contiguity=[yes]
%6 = tensor f32 [-1] contiguity=[yes]
%7 = tensor f32 [-1] contiguity=[yes]
%8 = tensor f32 [-1] contiguity=[yes]
%9 = neg %0
%10 = neg %1
%11 = neg %2
%12 = neg %3
%13 = neg %4
%14 = neg %5
%15 = neg %6
%16 = neg %7
%17 = neg %8
output %9
output %10
output %11
output %12
output %13
output %14
output %15
output %16
output %17
`
	slices = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = slice %0 start_indices=[0, 0] end_indices=[8, 4] strides=[1, 1] manual_normalization=true
%2 = slice %0 start_indices=[0, 3] end_indices=[8, 8] strides=[1, 1] manual_normalization=true
output %1
output %2
`
	variances = `%0 = tensor bf16 [-1, -1] contiguity=[yes, yes]
%1 = cast %0 dtype=f32
%2, %3, %4 = welford %1 dims=[1]
output %2
output %3
`
	split = `%0 = tensor f32 [20, 320, 1, 50] contiguity=[yes, yes, none, yes]
%1 = neg %0
%2 = reshape %0 new_shape=[20, 20, 16, 1, 50]
output %1
output %2
`
	scanned = `%0 = tensor f32 [-1] contiguity=[yes]
%1 = cumsum %0 dim=0
output %1
`
	scattered = `%0 = tensor f32 [-1] contiguity=[yes]
%1 = tensor i64 [-1] contiguity=[yes]
%2 = scatter %0, %1, 1:f32 dim=0
output %2
`
)

// choose lets the schedulers choose for the fusion of text with inputs of shape.
func choose(t *testing.T, text string, shape ...int64) (*scheduler.Segment, scheduler.Scheduler, []core.Refusal) {
	t.Helper()
	f, err := core.Parse(text)
	require.NoError(t, err)
	f.Freeze()
	values := make([]core.InputValue, len(f.Inputs()))
	for i := range values {
		values[i] = core.InputValue{Tensor: true, DType: f.Val(f.Inputs()[i]).DType, Sizes: shape}
	}
	b, err := f.Bind(values)
	require.NoError(t, err)
	g, err := scheduler.Dense(f, b)
	require.NoError(t, err)
	s, refusals := schedulers.Choose(g, scheduler.Hopper)
	return g, s, refusals
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range schedulers.All() {
		require.NotEmpty(t, s.Name())
		require.False(t, seen[s.Name()], s.Name())
		seen[s.Name()] = true
	}
}

func TestChoose(t *testing.T) {
	for _, test := range []struct {
		name, text, scheduler string
		shape                 []int64
		params                string // of the first candidate
	}{
		{"elementwise", elementwise, "pointwise", []int64{3, 5}, "pointwise: 128 threads, 1 elements each"},
		{"large", elementwise, "pointwise", []int64{4096, 4096}, "pointwise: 256 threads, 1 vectors of 4 elements each"},
		{"transpose", permuted, "transpose", []int64{4096, 4097}, "transpose: tiles of 64 by 128, 256 threads, steps of 4 elements, cells of 1 by 1, windows, 8 lanes"},
		{"transpose of what is padded", padded, "transpose", []int64{4096, 4080}, "transpose: tiles of 64 by 64, 256 threads, steps of 4 elements, cells of 4 by 4"},
		{"few elements of a transpose", permuted, "pointwise", []int64{40, 30}, "pointwise: 128 threads, 1 elements each"},
		{"reduction", reduction, "reduction", []int64{30, 100}, "inner reduction: 32x4 threads, vectors of 4 elements"},
		{"short rows", reduction, "reduction", []int64{30, 7}, "inner reduction: 8x16 threads"},
		{"long rows", reduction, "reduction", []int64{300, 100000}, "inner reduction: 1024x1 threads, vectors of 4 elements, 4 steps at a time"},
		{"few long rows", reduction, "reduction", []int64{3, 100000}, "inner reduction: 512x1 threads, vectors of 4 elements, 4 steps at a time, in 8 blocks"},
		{"rows", normalization, "inner_persistent", []int64{4096, 4096}, "inner persistent: 1 rows a block, 256 threads a row, 4 steps of 4 elements each, all whole, a held byte at 3"},
		{"rows of a cluster", normalization, "inner_persistent", []int64{4096, 65536}, "inner persistent: 1 rows a block in shared memory, 256 threads a row in each of 4 blocks, 16 steps of 4 elements each, all whole, a held byte at 32"},
		{"short rows that are needed again", normalization, "inner_persistent", []int64{4096, 7}, "inner persistent: 16 rows a block, 4 threads a row, 2 steps of 1 elements each, a held byte at 3"},
		{"variances of short rows", variances, "inner_persistent", []int64{1 << 20, 64}, "inner persistent: 64 rows a block, 4 a thread, 8 threads a row, 1 steps of 8 elements each, all whole, a held byte at 3, past the first cache, room for 8 blocks"},
		{"variances of a line and a half", variances, "inner_persistent", []int64{1 << 20, 100}, "inner persistent: 32 rows a block, 2 a thread, 8 threads a row, 4 steps of 4 elements each, a held byte at 3, room for 8 blocks"},
		{"variances of rows of pairs", variances, "inner_persistent", []int64{1 << 18, 255}, "inner persistent: 16 rows a block, 8 threads a row, 16 steps of 2 elements each from where memory is aligned, a held byte at 3"},
		{"variances of three vectors", variances, "inner_persistent", []int64{1 << 22, 24}, "inner persistent: 128 rows a block, 1 threads a row, 3 steps of 8 elements each, all whole, a held byte at 3"},
		{"variances of two vectors", variances, "reduction", []int64{1 << 20, 16}, ""},
		{"variances of few rows", variances, "reduction", []int64{1 << 10, 64}, ""},
		{"variances of long rows", variances, "reduction", []int64{1 << 14, 1 << 15}, ""},
		{"columns", columns, "outer_persistent", []int64{7, 300}, "outer persistent: 32x1 threads, 8 steps of 4 columns each, a held byte at 3"},
		{"columns of many blocks", columns, "outer_persistent", []int64{60000, 64}, "outer persistent: 8x64 threads, 16 steps of 4 columns each, a held byte at 3, 66 blocks a column"},
		{"columns that nothing holds", columns, "outer_persistent", []int64{600000, 64}, "outer persistent: 8x64 threads, 4 steps of 4 columns each, a held byte at 32, 66 blocks a column, loaded again in tiles of a block but for 6 iterations in shared memory and 6 in the second cache"},
		{"columns in rounds", columns, "outer_persistent", []int64{200000, 128}, "outer persistent: 8x64 threads, 4 steps of 4 columns each, a held byte at 32, 132 blocks a column, in rounds of 6 iterations in shared memory"},
		{"columns of two rounds", columns, "outer_persistent", []int64{200000, 64}, "outer persistent: 8x64 threads, 4 steps of 4 columns each, a held byte at 32, 66 blocks a column, loaded again in tiles of a block but for 6 iterations in shared memory and 6 in the second cache"},
		{"outputs with nothing in common", two, "pointwise", []int64{3}, "pointwise: 128 threads, 1 elements each; beside that 1 elements each"},
		{"slices of one tensor", slices, "pointwise", []int64{8, 8}, "pointwise: 128 threads, 1 elements each; beside that 1 elements each"},
		{"scan", scanned, "block_row", []int64{8}, "block row: 1 rows a block, 2 threads a row, 1 steps of 4 elements each"},
		{"rows and columns", crossed, "inner_outer_persistent", []int64{7, 300}, "inner outer: 1 blocks with 1 rows at a time, 4 warps a row, 1 steps of 4 elements each, a held byte at 3, beside what all rows share, through shared memory in 4 stages"},
		{"many rows and columns", crossed, "inner_outer_persistent", []int64{16384, 4096}, "inner outer: 132 blocks with 2 rows at a time, 8 warps a row, 4 steps of 4 elements each, all whole, a held byte at 3, beside what all rows share, through shared memory in 2 stages"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g, s, refusals := choose(t, test.text, test.shape...)
			require.Equal(t, test.scheduler, s.Name())
			by := map[string]bool{} // those before it
			for _, r := range refusals {
				by[r.By] = true
			}
			for _, other := range schedulers.All() {
				if other.Name() == test.scheduler {
					break
				}
				require.True(t, by[other.Name()], other.Name())
				delete(by, other.Name())
			}
			require.Empty(t, by)
			candidates := s.Candidates(g, scheduler.Hopper)
			if test.params != "" {
				require.Equal(t, test.params, candidates[0].String())
			}
			require.Equal(t, candidates, s.Candidates(g, scheduler.Hopper))
			distinct := map[scheduler.Params]bool{}
			for _, p := range candidates {
				require.False(t, distinct[p])
				distinct[p] = true
				_, err := s.Apply(g, p)
				require.NoError(t, err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		name, text string
		shape      []int64
		want       []core.Refusal
	}{
		{"long rows", normalization, []int64{3, 1 << 20}, []core.Refusal{
			{By: "transpose", Rule: "operation", Tensor: "tv1", Sentence: "tv1 is the result of sum(), a reduction operation"},
			{By: "pointwise", Rule: "operation", Tensor: "tv1", Sentence: "tv1 is the result of sum(), a reduction operation"},
			{By: "inner_persistent", Rule: "row too wide", Tensor: "tv1", Sentence: "the rows that are reduced to tv1 have 1048576 elements, of each of which 4 bytes are held: the registers of a block, or of a cluster if there are, have no room for so many"},
			{By: "reduction", Rule: "persistence", Tensor: "tv3", Sentence: "tv3 combines tv1, the result of a reduction, with elements along what was reduced, which must be kept meanwhile"},
			{By: "outer_persistent", Rule: "inner reduction", Tensor: "tv1", Sentence: "tv1 is reduced along the innermost dimension in memory"},
			{By: "inner_outer_persistent", Rule: "operation", Sentence: "not both rows and columns are reduced"},
			{By: "block_row", Rule: "operation", Tensor: "tv1", Sentence: "tv1 is the result of sum(), a reduction operation"},
		}},
		{"in place beside a reader", inPlace, []int64{3}, []core.Refusal{ // whose blocks may come before or after
			{By: "transpose", Rule: "reference", Tensor: "tv2", Sentence: "tv2 has dimensions that output tv1 has not, and no other output has those of all tensors"},
			{By: "pointwise", Rule: "in place", Tensor: "tv0", Sentence: "tv0 is written to, and something that has nothing in common with what is written reads it"},
			{By: "inner_persistent", Rule: "operation", Sentence: "nothing is reduced"},
			{By: "reduction", Rule: "operation", Sentence: "nothing is reduced"},
			{By: "outer_persistent", Rule: "operation", Sentence: "nothing is reduced"},
			{By: "inner_outer_persistent", Rule: "operation", Sentence: "not both rows and columns are reduced"},
			{By: "block_row", Rule: "operation", Sentence: "no row is scanned or sorted"},
		}},
		{"nine outputs", nine, []int64{3}, []core.Refusal{
			{By: "transpose", Rule: "reference", Tensor: "tv10", Sentence: "tv10 has dimensions that output tv9 has not, and no other output has those of all tensors"},
			{By: "pointwise", Rule: "sides", Tensor: "tv17", Sentence: "tv17 is one of 9 tensors that have nothing in common, of which a kernel has 8 at most"},
			{By: "inner_persistent", Rule: "operation", Sentence: "nothing is reduced"},
			{By: "reduction", Rule: "operation", Sentence: "nothing is reduced"},
			{By: "outer_persistent", Rule: "operation", Sentence: "nothing is reduced"},
			{By: "inner_outer_persistent", Rule: "operation", Sentence: "not both rows and columns are reduced"},
			{By: "block_row", Rule: "operation", Sentence: "no row is scanned or sorted"},
		}},
		{"loops that do not lead from one to the other", split, []int64{20, 320, 1, 50}, []core.Refusal{
			{By: "transpose", Rule: "one group", Sentence: "no two tensors with all dimensions have different ones innermost in memory"},
			{By: "pointwise", Rule: "loops", Tensor: "tv1", Sentence: "tv1 would be computed by one thread: its loops have nothing to do with those of other tensors"},
			{By: "inner_persistent", Rule: "operation", Sentence: "nothing is reduced"},
			{By: "reduction", Rule: "operation", Sentence: "nothing is reduced"},
			{By: "outer_persistent", Rule: "operation", Sentence: "nothing is reduced"},
			{By: "inner_outer_persistent", Rule: "operation", Sentence: "not both rows and columns are reduced"},
			{By: "block_row", Rule: "operation", Sentence: "no row is scanned or sorted"},
		}},
		{"scan", scanned, []int64{40000}, []core.Refusal{
			{By: "transpose", Rule: "operation", Tensor: "tv1", Sentence: "tv1 is the result of cumsum(), a scan operation"},
			{By: "pointwise", Rule: "operation", Tensor: "tv1", Sentence: "tv1 is the result of cumsum(), a scan operation"},
			{By: "inner_persistent", Rule: "operation", Tensor: "tv1", Sentence: "tv1 is the result of cumsum(), a scan operation"},
			{By: "reduction", Rule: "operation", Tensor: "tv1", Sentence: "tv1 is the result of cumsum(), a scan operation"},
			{By: "outer_persistent", Rule: "operation", Tensor: "tv1", Sentence: "tv1 is the result of cumsum(), a scan operation"},
			{By: "inner_outer_persistent", Rule: "operation", Tensor: "tv1", Sentence: "tv1 is the result of cumsum(), a scan operation"},
			{By: "block_row", Rule: "row too long", Tensor: "tv1", Sentence: "the rows of tv1 have 40000 elements, for which the registers of a block have no room"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, s, refusals := choose(t, test.text, test.shape...)
			require.Nil(t, s)
			require.Equal(t, test.want, refusals)
		})
	}
}

// TestRecipes: schedules of equal recipes are equal, whatever the sizes and places of tensors.
func TestRecipes(t *testing.T) {
	const row = `%0 = tensor f32 [-1, -1] contiguity=[no, yes]
%1 = tensor f16 [-1] contiguity=[yes]
%2 = broadcast %1 is_broadcast_dim=[true, false]
%3 = cast %2 dtype=f32
%4 = add %0, %3
output %4
`
	for _, text := range []string{elementwise, reduction, normalization, row, permuted} {
		f, err := core.Parse(text)
		require.NoError(t, err)
		f.Freeze()
		schedules := map[string]string{} // by recipe
		applied := 0
		for _, sizes := range [][]int64{{1, 7}, {7, 1}, {3, 5}, {300, 100}, {300, 7}, {4096, 4096}, {4097, 4096}, {4096, 4097}, {3, 100000}, {0, 3}} {
			for _, aligned := range []schedule.Alignment{4, 8, 16} {
				for _, gap := range []int64{0, 1, 4} {
					values := []core.InputValue{{Tensor: true, DType: dtype.Float, Sizes: sizes}}
					if text == row {
						values = append(values, core.InputValue{Tensor: true, DType: dtype.Half, Sizes: sizes[1:]})
					}
					b, err := f.Bind(values)
					require.NoError(t, err)
					g, err := scheduler.Dense(f, b)
					require.NoError(t, err)
					if g.Inputs[0].Aligned = aligned; text == row || text == permuted {
						g.Inputs[0].Strides[0] += gap
					}
					s, _ := schedulers.Choose(g, scheduler.Hopper)
					if s == nil { // the rows are too wide
						continue
					}
					for _, p := range s.Candidates(g, scheduler.Hopper) {
						recipe := s.Recipe(g, p)
						made, err := s.Apply(g, p)
						require.NoError(t, err)
						schedule := made.Text(true)
						if other, ok := schedules[recipe]; ok {
							require.Equal(t, other, schedule, recipe)
						}
						schedules[recipe] = schedule
						applied++
					}
				}
			}
		}
		require.Greater(t, applied, 5*len(schedules))
	}
}

// TestLongLine: no scheduler takes a scatter of which each element looks at many places,
// by whatever way it is asked, and the next size is asked about anew.
func TestLongLine(t *testing.T) {
	for _, n := range []int64{128, 129, 7, 1 << 20, 0} {
		g, s, refusals := choose(t, scattered, n)
		require.Equal(t, n <= 128, s != nil, n)
		if n <= 128 {
			continue
		}
		require.Len(t, refusals, len(schedulers.All()))
		for i, by := range schedulers.All() {
			require.Equal(t, refusals[i:i+1], by.Accept(g, scheduler.Hopper))
			require.Equal(t, refusals[i:i+1], schedulers.Lookup(by.Name()).Accept(g, scheduler.Hopper))
			require.Equal(t, core.Refusal{By: by.Name(), Rule: "line", Tensor: "tv2", Sentence: refusals[i].Sentence}, refusals[i])
		}
	}
}

// TestForeignParams gives schedulers parameters that are not theirs, or not possible, and
// segments that they do not take.
func TestForeignParams(t *testing.T) {
	segments := map[string]*scheduler.Segment{}
	for _, x := range []struct {
		text  string
		shape []int64
	}{
		{permuted, []int64{4096, 4097}}, {elementwise, []int64{3, 5}}, {reduction, []int64{30, 100}}, {normalization, []int64{30, 100}},
		{columns, []int64{7, 300}}, {crossed, []int64{7, 300}}, {scanned, []int64{8}},
	} {
		g, s, _ := choose(t, x.text, x.shape...)
		segments[s.Name()] = g
	}
	all := schedulers.All()
	require.Len(t, segments, len(all))
	for i, s := range all {
		g, other := segments[s.Name()], all[(i+1)%len(all)]
		foreign, err := other.ParseParams("{}")
		require.NoError(t, err)
		_, err = s.Apply(g, foreign)
		require.ErrorContains(t, err, "are not those of "+s.Name())
		require.Equal(t, err.Error(), s.Recipe(g, foreign))

		negative, err := s.ParseParams(`{"Vector": -1}`)
		require.NoError(t, err)
		_, err = s.Apply(g, negative)
		require.ErrorContains(t, err, "is not possible")
		_, err = s.ParseParams(`{"Nonsense": 1}`)
		require.ErrorContains(t, err, `are not those of `+s.Name())

		refused := segments[other.Name()]
		own := s.Candidates(g, scheduler.Hopper)[0]
		require.NotEmpty(t, s.Accept(refused, scheduler.Hopper))
		require.Empty(t, s.Candidates(refused, scheduler.Hopper))
		_, err = s.Apply(refused, own)
		require.Error(t, err)
	}
}
