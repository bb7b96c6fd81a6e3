package schedulers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers"
	"nvfuser_go/schedulers/scheduler"
)

const (
	weighted = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor f32 [-1] contiguity=[yes]
%2 = broadcast %1 is_broadcast_dim=[true, false]
%3 = mul %0, %2
output %3
`
	expanded = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor f32 [-1, -1] contiguity=[none, yes]
%2 = add %0, %1
output %2
`
	sum = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor f32 [-1, -1] contiguity=[yes, yes]
%2 = add %0, %1
output %2
`
	turned = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = permute %0 dims=[1, 0]
%2 = add %0, %1
output %2
`
)

const (
	halves = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor f32 [-1, -1] contiguity=[yes, yes]
%2 = pad %0 pad_widths=[0, 2048, 0, 0] value=0:f64
%3 = pad %1 pad_widths=[2048, 0, 0, 0] value=0:f64
%4 = add %2, %3
output %4
`
	// Rows, and the first half of them.
	withHalf = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor f32 [-1, -1] contiguity=[no, yes]
%2 = pad %1 pad_widths=[0, 2048, 0, 0] value=0:f64
%3 = add %0, %2
output %3
`
	lookedUp = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor i64 [-1] contiguity=[yes]
%2 = broadcast %1 is_broadcast_dim=[false, true]
%3 = index_select %0, %2 dim=0
%4 = relu %3
output %4
`
	oddRows = `%0 = tensor bf16 [-1, -1] contiguity=[yes, yes]
%1 = tensor bf16 [-1] contiguity=[yes]
%2 = tensor bf16 [-1] contiguity=[yes]
%3 = cast %0 dtype=f32
%4, %5, %6 = welford %3 dims=[1]
%7 = broadcast %4 is_broadcast_dim=[false, true]
%8 = sub %3, %7
$0 = cast %0.1 : f64
$1 = sub $0, 0:f64 : f64
$2 = maximum $1, 0:f64 : f64
$3 = reciprocal $2 : f64
%9 = mul %5, $3
%10 = add %9, 1e-05:f64
%11 = rsqrt %10
%12 = broadcast %11 is_broadcast_dim=[false, true]
%13 = mul %8, %12
%14 = cast %1 dtype=f32
%15 = broadcast %14 is_broadcast_dim=[true, false]
%16 = mul %13, %15
%17 = cast %2 dtype=f32
%18 = broadcast %17 is_broadcast_dim=[true, false]
%19 = add %16, %18
%20 = cast %19 dtype=bf16
output %20
`
	oddSums = `%0 = tensor bf16 [-1, -1] contiguity=[yes, yes]
%1 = tensor bf16 [-1] contiguity=[yes]
%2 = cast %0 dtype=f32
%3 = cast %1 dtype=f32
%4 = broadcast %3 is_broadcast_dim=[true, false]
%5 = add %2, %4
%6 = max %5 dims=[1] keepdim=false
%7 = broadcast %6 is_broadcast_dim=[false, true]
%8 = sub %5, %7
%9 = exp %8
%10 = sum %9 dims=[1] keepdim=false dtype=f32
%11 = broadcast %10 is_broadcast_dim=[false, true]
%12 = div %9, %11
%13 = cast %12 dtype=bf16
output %13
`
	elementsOf = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor i64 [-1, -1] contiguity=[yes, yes]
%2 = gather %0, %1 dim=0
%3 = relu %2
output %3
`
)

// strides has the distance of the second input's rows, by text, where they do not lie densely.
var strides = map[string][]int64{expanded: {0}, withHalf: {4096}}

// TestStreamed: what is read once, of more bytes than the second cache has, is to be given up last
// by it, in whatever way it is copied.
func TestStreamed(t *testing.T) {
	large := [][]int64{{4096, 4096}} // 64 MB
	for _, test := range []struct {
		name, text string
		shapes     [][]int64
		cache      int64
		want       []int // the inputs that are
	}{
		{"elementwise", elementwise, large, 16 << 20, []int{0}},
		{"a byte more than the cache", elementwise, large, 64<<20 - 1, []int{0}},
		{"as much as the cache", elementwise, large, 64 << 20, nil},
		{"a cache of unknown size", elementwise, large, 0, nil},
		{"no elements", elementwise, [][]int64{{0, 4096}}, 1, nil},
		{"single elements", elementwise, [][]int64{{3, 5}}, 1, []int{0}},
		{"two halves", sum, [][]int64{{4096, 4096}, {4096, 4096}}, 32 << 20, []int{0, 1}},
		{"small weights", weighted, [][]int64{{4096, 4096}, {4096}}, 16 << 20, []int{0}},
		{"large weights", weighted, [][]int64{{4096, 4096}, {4096}}, 1, nil},
		{"halves of rows", halves, [][]int64{{4096, 2048}, {4096, 2048}}, 16 << 20, []int{0, 1}},
		{"rows and a half of them", withHalf, [][]int64{{4096, 4096}, {4096, 2048}}, 32 << 20, nil},
		{"many rows and a half of them", withHalf, [][]int64{{4096, 4096}, {4096, 2048}}, 16 << 20, []int{0, 1}},
		{"rows of a table", lookedUp, [][]int64{{8192, 4096}, {4096}}, 16 << 20, []int{0}},
		{"few rows of a table", lookedUp, [][]int64{{8192, 4096}, {40}}, 16 << 20, nil},
		{"a table of which rows are read again", lookedUp, [][]int64{{4096, 4096}, {8192}}, 16 << 20, nil},
		{"single elements of a table", elementsOf, [][]int64{{4096, 4096}, {4096, 4096}}, 16 << 20, nil},
		{"pairs of two odd rows", oddRows, [][]int64{{65536, 1023}, {1023}, {1023}}, 16 << 20, []int{0}},
		{"pairs of two odd rows that a row is added to", oddSums, [][]int64{{65536, 1023}, {1023}}, 16 << 20, nil},
		{"even rows that a row is added to", oddSums, [][]int64{{65536, 1024}, {1024}}, 16 << 20, []int{0}},
		{"even rows", oddRows, [][]int64{{65536, 1024}, {1024}, {1024}}, 16 << 20, []int{0}},
		{"an expanded input", expanded, [][]int64{{4096, 4096}, {4096, 4096}}, 1, nil},
		{"a sum", reduction, [][]int64{{300, 1000}}, 1, nil},
		{"rows", normalization, large, 16 << 20, []int{0}},
		{"rows in shared memory", normalization, [][]int64{{4096, 65536}}, 16 << 20, []int{0}},
		{"a scan", scanned, [][]int64{{4096}}, 1, []int{0}},
		{"a transpose", permuted, large, 16 << 20, []int{0}},
		{"an input in two orders", turned, large, 1, nil},
		{"columns", columns, [][]int64{{7, 300}}, 1, nil},
		{"rows and columns", crossed, [][]int64{{16384, 4096}}, 1, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := core.Parse(test.text)
			require.NoError(t, err)
			f.Freeze()
			var values []core.InputValue
			for i, v := range f.Inputs() {
				values = append(values, core.InputValue{Tensor: true, DType: f.Val(v).DType, Sizes: test.shapes[i]})
			}
			b, err := f.Bind(values)
			require.NoError(t, err)
			s, recipe := applied(t, f, b, strides[test.text], test.cache)
			require.Equal(t, test.want, evictedLast(s))
			other, small := applied(t, f, b, strides[test.text], 0)
			require.Empty(t, evictedLast(other))
			if test.want != nil {
				require.NotEqual(t, small, recipe)
			}
		})
	}
}

// applied returns the first schedule of f for a device with a second cache of some bytes, and its
// recipe. rowsOf, if any, is the distance of the second input's rows.
func applied(t *testing.T, f *core.Fusion, b *core.Binding, rowsOf []int64, cache int64) (*schedule.Scheduled, string) {
	g, err := scheduler.Dense(f, b)
	require.NoError(t, err)
	if g.Cache = cache; rowsOf != nil {
		g.Inputs[1].Strides[0] = rowsOf[0]
	}
	s, _ := schedulers.Choose(g, scheduler.Hopper)
	p := s.Candidates(g, scheduler.Hopper)[0]
	made, err := s.Apply(g, p)
	require.NoError(t, err)
	return made, s.Recipe(g, p)
}

// evictedLast returns the inputs, by place, of which a copy is given up last.
func evictedLast(s *schedule.Scheduled) (all []int) {
	f := s.Fusion()
	for i, v := range f.Inputs() {
		for _, id := range f.Order() {
			e := f.Expr(id)
			for _, x := range f.TensorArgs(e) {
				if x == v && s.CacheHint(e.Out[0]) == schedule.CacheEvictLast {
					all = append(all, i)
				}
			}
		}
	}
	return all
}
