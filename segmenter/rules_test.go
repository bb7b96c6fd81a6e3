package segmenter

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/passes"
	"nvfuser_go/schedulers"
	"nvfuser_go/schedulers/scheduler"
)

// shown returns the segments of p: kind, and the operations.
func shown(p *Program) []string {
	var all []string
	for _, s := range p.Segments {
		var ops []string
		for _, id := range s.Exprs {
			ops = append(ops, p.Fusion.Expr(id).Op.Name)
		}
		all = append(all, fmt.Sprintf("%v: %s", s.Kind, strings.Join(ops, " ")))
	}
	return all
}

const (
	matrix  = "%0 = tensor f32 [64, 64] contiguity=[yes, yes]\n"
	indices = matrix + "%1 = tensor i64 [64, 64] contiguity=[yes, yes]\n"
)

// TestRules has for each rule a fusion to which it applies, and one that it nearly does.
func TestRules(t *testing.T) {
	views := matrix
	for i := range maxChain + 1 {
		views += fmt.Sprintf("%%%d = permute %%%d dims=[1, 0]\n", i+1, i)
	}
	tests := []struct {
		name, text string
		want       []string
	}{
		{"one kernel", matrix + "%1 = exp %0\n%2 = sin %1\noutput %2", []string{"kernel: exp sin"}},
		{"a scatter of a short index", indices + "%2 = scatter %0, %1, 1:f32 dim=1\n%3 = exp %2\noutput %3", []string{"kernel: scatter", "kernel: exp"}},
		{"a scatter to what is computed", indices + "%2 = exp %0\n%3 = scatter %2, %1, 1:f32 dim=1\noutput %3", []string{"kernel: exp scatter"}},
		{"a scatter of what it begins with", indices + "%2 = exp %0\n%3 = scatter %2, %1, %2 dim=1\noutput %3", []string{"kernel: exp", "kernel: scatter"}},
		{"a scatter of a long index", indices + "%2 = cat [%1, %1, %1] dim=1 manual_padding=false\n%3 = scatter %0, %2, 1:f32 dim=1\n%4 = exp %3\noutput %4",
			[]string{"kernel: cat", "torch call: scatter", "kernel: exp"}},
		{"segment_set of a computed tensor", matrix + "%1 = exp %0\n%2 = segment_set %1\n%3 = sin %2\noutput %3",
			[]string{"kernel: exp segment_set", "kernel: sin"}},
		{"segment_set of an input", matrix + "%1 = segment_set %0\n%2 = sin %1\noutput %2", []string{"kernel: segment_set sin"}},
		{"segment_set of positions", "# none\n%1 = iota length=64 start=0:i64 step=1:i64 dtype=i64\n%2 = segment_set %1\n%3 = neg %2\noutput %3",
			[]string{"kernel: iota segment_set", "kernel: neg"}},
		{"set is no cut", matrix + "%1 = exp %0\n%2 = set %1\n%3 = sin %2\noutput %3", []string{"kernel: exp set sin"}},
		{"a wider cast is computed again", "%0 = tensor bf16 [64, 64] contiguity=[yes, yes]\n" +
			"%1 = cast %0 dtype=f32\n%2 = sum %1 dims=[0] keepdim=false dtype=f32\n%3 = sum %1 dims=[1] keepdim=false dtype=f32\noutput %2\noutput %3",
			[]string{"kernel: cast sum sum"}},
		{"a narrower cast is stored", matrix +
			"%1 = cast %0 dtype=bf16\n%2 = sum %1 dims=[0] keepdim=false dtype=bf16\n%3 = sum %1 dims=[1] keepdim=false dtype=bf16\noutput %2\noutput %3",
			[]string{"kernel: cast sum sum"}},
		{"a cast that is an output is computed again", "%0 = tensor bf16 [64, 64] contiguity=[yes, yes]\n%1 = cast %0 dtype=f32\n%2 = matmul %0, %0\n%3 = cast %2 dtype=f32\n%4 = mul %3, %1\noutput %1\noutput %4",
			[]string{"torch call: matmul", "kernel: cast cast mul"}},
		{"a mask of positions is computed again", matrix +
			"%1 = iota length=64 start=0:i64 step=1:i64 dtype=i64\n%2 = broadcast %1 is_broadcast_dim=[false, true]\n%3 = broadcast %1 is_broadcast_dim=[true, false]\n" +
			"%4 = ge %2, %3\n%5 = where %4, %0, 0.0:f64\n%6 = matmul %5, %0\n%7 = where %4, %6, 1.0:f64\noutput %7",
			[]string{"kernel: iota broadcast iota broadcast ge where", "torch call: matmul", "kernel: iota broadcast iota broadcast ge where"}},
		{"what no scheduler takes with what is forwarded", "%0 = tensor bf16 [64] contiguity=[yes]\n%1 = cast %0 dtype=f32\n%2 = broadcast %1 is_broadcast_dim=[false, true]\n%3 = broadcast %1 is_broadcast_dim=[true, false]\n%4 = add %2, %3\noutput %4",
			[]string{"kernel: cast broadcast broadcast", "kernel: add"}},
		{"a mask of an input is stored", matrix + "%1 = gt %0, 0.0:f64\n%2 = where %1, %0, 0.0:f64\n%3 = matmul %2, %0\n%4 = where %1, %3, 1.0:f64\noutput %4",
			[]string{"kernel: gt where", "torch call: matmul", "kernel: where"}},
		{"rows written in another shape and order", matrix + "%1 = sum %0 dims=[1] keepdim=false dtype=f32\n%2 = broadcast %1 is_broadcast_dim=[false, true]\n%3 = div %0, %2\n" +
			"%4 = reshape %3 new_shape=[8, 8, 64]\n%5 = permute %4 dims=[1, 0, 2]\n%6 = reshape %5 new_shape=[64, 64]\noutput %6", []string{"kernel: sum broadcast div reshape permute reshape"}},
		{"a view for torch", matrix + "%1 = permute %0 dims=[1, 0]\n%2 = matmul %0, %1\noutput %2", []string{"view: permute", "torch call: matmul"}},
		{"a view of a view", matrix + "%1 = permute %0 dims=[1, 0]\n%2 = broadcast %1 is_broadcast_dim=[true, false, false]\n%3 = squeeze %2 dims=[0] squeeze_expanded=false\n%4 = matmul %0, %3\noutput %4",
			[]string{"view: permute", "view: broadcast", "view: squeeze", "torch call: matmul"}},
		{"a view that is an output is copied", matrix + "%1 = permute %0 dims=[1, 0]\n%2 = matmul %0, %1\noutput %2\noutput %1",
			[]string{"kernel: permute", "torch call: matmul"}},
		{"a reshape for torch of memory without gaps", matrix + "%1 = reshape %0 new_shape=[32, 128]\n%2 = exp %1\n%3 = reshape %2 new_shape=[128, 32]\n%4 = reshape %3 new_shape=[4, 32, 32]\n%5 = matmul %4, %4\noutput %5",
			[]string{"kernel: reshape exp", "view: reshape", "view: reshape", "torch call: matmul"}},
		{"a reshape of memory with gaps", strings.Replace(matrix, "yes,", "no,", 1) + "%1 = reshape %0 new_shape=[4096]\n%2 = matmul %1, %1\noutput %2",
			[]string{"kernel: reshape", "torch call: matmul"}},
		{"a reshape that only splits, of any memory", strings.Replace(matrix, "yes]", "no]", 1) + "%1 = permute %0 dims=[1, 0]\n%2 = reshape %1 new_shape=[8, 8, 64]\n%3 = matmul %2, %0\noutput %3",
			[]string{"view: permute", "view: reshape", "torch call: matmul"}},
		{"a reshape that joins what is permuted", matrix + "%1 = permute %0 dims=[1, 0]\n%2 = reshape %1 new_shape=[4096]\n%3 = matmul %2, %2\noutput %3",
			[]string{"kernel: permute reshape", "torch call: matmul"}},
		{"a reshape that a kernel reads too", matrix + "%1 = reshape %0 new_shape=[4096]\n%2 = matmul %1, %1\n%3 = exp %1\noutput %2\noutput %3",
			[]string{"view: reshape", "torch call: matmul", "kernel: reshape exp"}},
		{"a view that a gather reads, without gaps", matrix + "%1 = tensor i64 [64, 1] contiguity=[yes, none]\n%2 = exp %0\n%3 = reshape %2 new_shape=[128, 32]\n%4 = index_select %3, %1 dim=0\noutput %4",
			[]string{"kernel: exp", "view: reshape", "kernel: index_select"}},
		{"a view that a gather reads, in another order", matrix + "%1 = tensor i64 [64, 1] contiguity=[yes, none]\n%2 = exp %0\n%3 = permute %2 dims=[1, 0]\n%4 = index_select %3, %1 dim=0\noutput %4",
			[]string{"kernel: exp permute", "kernel: index_select"}},
		{"a view of a number of the host", "%0 = tensor f32 [] contiguity=[] cpu\n%1 = broadcast %0 is_broadcast_dim=[true]\n%2 = broadcast %1 is_broadcast_dim=[true, false]\n%3 = matmul %2, %2\noutput %3",
			[]string{"kernel: broadcast broadcast", "torch call: matmul"}},
		{"results of calls that are joined", matrix + "%1 = matmul %0, %0\n%2 = reshape %1 new_shape=[128, 32]\n%3 = matmul %0, %1\n%4 = reshape %3 new_shape=[128, 32]\n%5 = cat [%2, %4] dim=1 manual_padding=false\noutput %5",
			[]string{"torch call: matmul", "torch call: matmul", "view: reshape", "view: reshape", "kernel: cat"}},
		{"what takes memory waits until it is needed", matrix + "%1 = sin %0\n%2 = matmul %0, %0\n%3 = matmul %2, %0\n%4 = matmul %1, %3\noutput %4",
			[]string{"torch call: matmul", "torch call: matmul", "kernel: sin", "torch call: matmul"}},
		{"what frees memory does not wait", matrix + "%1 = matmul %0, %0\n%2 = sum %1 dims=[0] keepdim=false dtype=f32\n%3 = matmul %0, %0\n%4 = matmul %3, %0\n%5 = broadcast %2 is_broadcast_dim=[true, false]\n%6 = add %5, %4\noutput %6",
			[]string{"torch call: matmul", "kernel: sum", "torch call: matmul", "torch call: matmul", "kernel: broadcast add"}},
		{"a reshape that is an output", matrix + "%1 = reshape %0 new_shape=[4096]\n%2 = matmul %1, %1\noutput %2\noutput %1",
			[]string{"kernel: reshape", "torch call: matmul"}},
		{"a chain of cheap operations as long as they are computed again", strings.Replace(views, fmt.Sprintf("%%%d = permute", maxChain+1), "#", 1) + fmt.Sprintf("%%%d = matmul %%%d, %%0\noutput %%%d", maxChain+1, maxChain, maxChain+1),
			append(slicesRepeat("view: permute", maxChain), "torch call: matmul")},
		{"a longer chain", views + fmt.Sprintf("%%%d = matmul %%%d, %%0\noutput %%%d", maxChain+2, maxChain+1, maxChain+2),
			[]string{"kernel:" + strings.Repeat(" permute", maxChain+1), "torch call: matmul"}},
		{"what a cut does not concern stays on its side", matrix + "%1 = exp %0\n%2 = segment_set %1\n%3 = sin %2\n%4 = cos %0\n%5 = add %3, %4\noutput %5",
			[]string{"kernel: exp segment_set cos", "kernel: sin add"}},
		{"a random number is drawn once", matrix + "%1 = uniform minval=0.0:f64 maxval=1.0:f64 shape=[64, 64] dtype=f32\n%2 = mul %0, %1\n%3 = matmul %2, %0\n%4 = mul %3, %1\noutput %4",
			[]string{"kernel: uniform mul", "torch call: matmul", "kernel: mul"}},
		{"a gather of an input", matrix + "%1 = tensor i64 [64, 1] contiguity=[yes, none]\n%2 = index_select %0, %1 dim=0\n%3 = exp %2\noutput %3", []string{"kernel: index_select exp"}},
		{"a gather of a computed tensor", matrix + "%1 = tensor i64 [64, 1] contiguity=[yes, none]\n%2 = exp %0\n%3 = index_select %2, %1 dim=0\noutput %3",
			[]string{"kernel: exp", "kernel: index_select"}},
		{"a gather by computed positions", matrix + "%1 = tensor i64 [64, 1] contiguity=[yes, none]\n%2 = abs %1\n%3 = index_select %0, %2 dim=0\noutput %3",
			[]string{"kernel: abs index_select"}},
		{"a gather by positions that are cast and broadcast", matrix + "%1 = tensor i32 [64, 1] contiguity=[yes, none]\n%2 = squeeze %1 dims=[1]\n%3 = cast %2 dtype=i64\n%4 = broadcast %3 is_broadcast_dim=[false, true]\n%5 = index_select %0, %4 dim=0\noutput %5",
			[]string{"kernel: squeeze cast broadcast index_select"}},
		{"a gather by its own table", "%0 = tensor i64 [64, 64] contiguity=[yes, yes]\n%1 = abs %0\n%2 = take_along_axis %1, %1 dim=0\noutput %2",
			[]string{"kernel: abs", "kernel: take_along_axis"}},
		{"a gather of a permuted input", matrix + "%1 = tensor i64 [64, 1] contiguity=[yes, none]\n%2 = permute %0 dims=[1, 0]\n%3 = index_select %2, %1 dim=0\noutput %3",
			[]string{"kernel: permute", "kernel: index_select"}},
		{"reductions of one kind", matrix + "%1 = sum %0 dims=[1] keepdim=false dtype=f32\n%2 = max %0 dims=[1] keepdim=false dtype=null\n%3 = add %1, %2\noutput %3",
			[]string{"kernel: sum max add"}},
		{"reductions of two kinds", matrix + "%1 = sum %0 dims=[1] keepdim=false dtype=f32\n%2 = max %0 dims=[0] keepdim=false dtype=null\n%3 = add %1, %2\noutput %3",
			[]string{"kernel: sum max", "kernel: add"}},
		{"a reduction that needs another", matrix + "%1 = sum %0 dims=[1] keepdim=false dtype=f32\n%2 = broadcast %1 is_broadcast_dim=[false, true]\n%3 = sub %0, %2\n%4 = sum %3 dims=[1] keepdim=false dtype=f32\noutput %4",
			[]string{"kernel: sum broadcast sub sum"}},
		{"a reduction along another dimension than one that it needs", matrix + "%1 = sum %0 dims=[1] keepdim=false dtype=f32\n%2 = broadcast %1 is_broadcast_dim=[false, true]\n%3 = sub %0, %2\n%4 = sum %3 dims=[0] keepdim=false dtype=f32\noutput %4",
			[]string{"kernel: sum broadcast sub sum"}},
		{"no cycle through a call", matrix + "%1 = exp %0\n%2 = matmul %1, %0\n%3 = add %2, %1\noutput %3",
			[]string{"kernel: exp", "torch call: matmul", "kernel: add"}},
		{"both operands of a join", matrix + "%1 = exp %0\n%2 = sin %0\n%3 = add %1, %2\noutput %3", []string{"kernel: exp sin add"}},
		{"outputs that share an input", matrix + "%1 = exp %0\n%2 = sin %0\noutput %1\noutput %2", []string{"kernel: exp sin"}},
		{"outputs that share nothing", matrix + "%1 = tensor f32 [64, 64] contiguity=[yes, yes]\n%2 = exp %0\n%3 = sin %1\noutput %2\noutput %3",
			[]string{"kernel: exp", "kernel: sin"}},
		{"an output twice", matrix + "%1 = exp %0\noutput %1\noutput %1", []string{"kernel: exp"}},
		{"an output that is an input", matrix + "output %0", nil},
		{"what is not needed", matrix + "%1 = exp %0\n%2 = sin %0\noutput %2", []string{"kernel: sin"}},
		{"what only tensors without elements need", matrix + "%1 = exp %0\n%2, %3 = topk %1 k=0 dim=1 largest=true sorted=true\noutput %2", nil},
		{"rows are sorted in a kernel", matrix + "%1 = exp %0\n%2 = argsort %1 dim=1 descending=false stable=true\noutput %2", []string{"kernel: exp argsort"}},
		{"argsort of columns is a call", matrix + "%1 = exp %0\n%2 = argsort %1 dim=0 descending=false stable=true\noutput %2", []string{"kernel: exp", "torch call: argsort"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			sizes := strings.Count(test.text, "[64, 1] contiguity") // the index of a gather
			shape := [][]int64{{64, 64}}
			if strings.HasPrefix(test.text, "%0 = tensor bf16 [64] ") {
				shape[0] = []int64{64}
			}
			if strings.HasPrefix(test.text, "%0 = tensor f32 [] ") {
				shape[0] = []int64{}
			}
			if strings.Count(test.text, "= tensor") > 1 {
				shape = append(shape, map[bool][]int64{true: {64, 1}, false: {64, 64}}[sizes > 0])
			}
			x := parsed(t, test.text, shape...)
			p, err := x.check(Options{})
			require.NoError(t, err)
			require.Equal(t, test.want, shown(p))
		})
	}
}

func slicesRepeat(s string, n int) []string {
	return strings.Split(strings.Repeat(s+"\n", n-1)+s, "\n")
}

// TestComputedAgain lets a kernel compute what another one would store for it where that
// moves fewer bytes.
func TestComputedAgain(t *testing.T) {
	const (
		narrow = "%0 = tensor bf16 [64, 4194304] contiguity=[yes, yes]\n%1 = cast %0 dtype=f32\n"
		wide   = "%0 = tensor f32 [64, 4194304] contiguity=[yes, yes]\n%1 = set %0\n"
		top    = "%2 = max %1 dims=[1] keepdim=false dtype=null\n%3 = broadcast %2 is_broadcast_dim=[false, true]\n%4 = sub %1, %3\n"
		rest   = "%6 = sum %5 dims=[1] keepdim=false dtype=f32\n%7 = broadcast %6 is_broadcast_dim=[false, true]\n%8 = truediv %5, %7\noutput %8\n"
	)
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"an exponential of what is narrower", narrow + top + "%5 = exp %4\n" + rest,
			[]string{"kernel: cast max", "kernel: cast broadcast sub exp sum", "kernel: cast broadcast sub exp broadcast truediv"}},
		{"an output is in memory anyway", narrow + top + "%5 = exp %4\n" + rest + "output %5\n",
			[]string{"kernel: cast max", "kernel: cast broadcast sub exp sum", "kernel: broadcast truediv"}},
		{"what takes longer than memory", narrow + top + "%5 = lgamma %4\n" + rest,
			[]string{"kernel: cast max", "kernel: cast broadcast sub lgamma sum", "kernel: broadcast truediv"}},
		{"what a call reads", narrow + top + "%5 = exp %4\n%9 = argsort %5 dim=1 descending=false stable=true\noutput %9\n" + rest,
			[]string{"kernel: cast max", "kernel: cast broadcast sub exp sum", "torch call: argsort", "kernel: broadcast truediv"}},
		{"what is narrower than its operands", wide + top + "%9 = exp %4\n%10 = cast %9 dtype=bf16\n%5 = cast %10 dtype=f32\n" + rest,
			[]string{"kernel: set max", "kernel: set broadcast sub exp cast cast sum", "kernel: cast broadcast truediv"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := core.Parse(c.text)
			require.NoError(t, err)
			f.Freeze()
			b, err := f.Bind([]core.InputValue{{Tensor: true, DType: f.Val(f.Inputs()[0]).DType, Sizes: []int64{64, 4194304}}})
			require.NoError(t, err)
			p, err := Cut(f, b, scheduler.Hopper, Options{})
			require.NoError(t, err)
			require.Equal(t, c.want, shown(p))
		})
	}
}

// TestOrders asks about results as they lie in memory: of images with the channels last
// columns are reduced, and what follows lies as the images do, and is one kernel with them.
func TestOrders(t *testing.T) {
	text := `%0 = tensor bf16 [-1, -1, -1, -1] contiguity=[yes, yes, yes, yes] stride_order=[3, 0, 2, 1]
%1 = tensor f32 [-1] contiguity=[yes]
%2 = tensor f32 [-1] contiguity=[yes]
%3 = cast %0 dtype=f32
%4, %5, %6 = welford %3 dims=[0, 2, 3]
%7 = broadcast %4 is_broadcast_dim=[true, false, true, true]
%8 = sub %3, %7
$0 = i.mul %0.2, %0.3, %0.0 : index
$1 = cast $0 : f64
$2 = sub $1, 0:f64 : f64
$3 = maximum $2, 0:f64 : f64
$4 = reciprocal $3 : f64
%9 = mul %5, $4
%10 = add %9, 1e-05:f64
%11 = rsqrt %10
%12 = broadcast %11 is_broadcast_dim=[true, false, true, true]
%13 = mul %8, %12
%14 = cast %1 dtype=f32
%15 = broadcast %14 is_broadcast_dim=[true, false, true, true]
%16 = mul %13, %15
%17 = cast %2 dtype=f32
%18 = broadcast %17 is_broadcast_dim=[true, false, true, true]
%19 = add %16, %18
%20 = cast %19 dtype=bf16
output %20
`
	f, err := core.Parse(text)
	require.NoError(t, err)
	f.Freeze()
	var values []core.InputValue
	for i, sizes := range [][]int64{{64, 256, 28, 28}, {256}, {256}} {
		values = append(values, core.InputValue{Tensor: true, DType: f.Val(f.Inputs()[i]).DType, Sizes: sizes})
	}
	x := &trial{f: f}
	x.b, err = f.Bind(values)
	require.NoError(t, err)
	p, err := Cut(x.f, x.b, scheduler.Hopper, Options{Order: func(v core.ValID) []int {
		if x.f.Rank(v) == 4 {
			return []int{0, 2, 3, 1}
		}
		return nil
	}})
	require.NoError(t, err)
	require.Len(t, p.Segments, 1)
	require.Equal(t, "outer_persistent", p.Segments[0].Scheduler)
}

// TestInPlace tells the outputs that are written in place, and the order.
func TestInPlace(t *testing.T) {
	for _, test := range []struct {
		name, text string
		inPlace    []bool
		want       []string
	}{
		{"one kernel", matrix + "%1 = exp %0\noutput %1 alias %0", []bool{true}, []string{"kernel: exp"}},
		{"after a reader", matrix + "%1 = exp %0\n%2 = matmul %0, %0\noutput %1 alias %0\noutput %2", []bool{true, false},
			[]string{"torch call: matmul", "kernel: exp"}},
		{"after the reader of a view", matrix + "%1 = exp %0\n%2 = permute %0 dims=[1, 0]\n%3 = matmul %2, %2\noutput %1 alias %0\noutput %3", []bool{true, false},
			[]string{"view: permute", "torch call: matmul", "kernel: exp"}},
		{"before a reader that needs it", matrix + "%1 = exp %0\n%2 = matmul %1, %0\noutput %1 alias %0\noutput %2", []bool{false, false},
			[]string{"kernel: exp", "torch call: matmul"}},
		{"before a reader of a view that needs it", matrix + "%1 = exp %0\n%2 = permute %0 dims=[1, 0]\n%3 = matmul %1, %2\noutput %1 alias %0\noutput %3", []bool{false, false},
			[]string{"kernel: exp", "view: permute", "torch call: matmul"}},
		{"by who reads a view", matrix + "%1 = tensor i64 [64, 1] contiguity=[yes, none]\n%2 = reshape %0 new_shape=[4096, 1]\n%3 = index_select %2, %1 dim=0\n%4 = add %0, %3\noutput %4 alias %0", []bool{false},
			[]string{"view: reshape", "kernel: index_select add"}},
		{"by a call", matrix + "%1 = matmul %0, %0\noutput %1 alias %0", []bool{false}, []string{"torch call: matmul"}},
		{"an input into another", matrix + "%1 = tensor f32 [64, 64] contiguity=[yes, yes]\noutput %0 alias %1", []bool{false}, nil},
		{"two that read each other", matrix + "%1 = tensor f32 [64, 64] contiguity=[yes, yes]\n%2 = matmul %0, %1\n%3 = add %2, %0\n%4 = matmul %1, %0\n%5 = sub %4, %1\noutput %3 alias %0\noutput %5 alias %1",
			[]bool{true, true}, []string{"torch call: matmul", "torch call: matmul", "kernel: add", "kernel: sub"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			shapes := [][]int64{{64, 64}, {64, 64}}[:strings.Count(test.text, "= tensor")]
			if strings.Contains(test.text, "[64, 1] contiguity") {
				shapes[1] = []int64{64, 1}
			}
			x := parsed(t, test.text, shapes...)
			p, err := x.check(Options{})
			require.NoError(t, err)
			var inPlace []bool
			for _, o := range p.Outputs {
				inPlace = append(inPlace, o.InPlace)
			}
			require.Equal(t, test.inPlace, inPlace)
			require.Equal(t, test.want, shown(p))
		})
	}
}

// TestLongChain is cut where compiling would take too long, not where nothing is saved.
func TestLongChain(t *testing.T) {
	for n, want := range map[int]int{maxNodes: 1, maxNodes + 1: 2, 300: 4} {
		x := bound(t, chain(n))
		p, err := Cut(x.f, x.b, scheduler.Hopper, Options{})
		require.NoError(t, err)
		require.Len(t, p.Segments, want)
	}
}

// TestPlacement asks again about inputs that lie otherwise.
func TestPlacement(t *testing.T) {
	x := parsed(t, "%0 = tensor f32 [64, 64] contiguity=[no, no]\n%1 = exp %0\n%2 = matmul %1, %1\n%3 = exp %2\noutput %3", []int64{64, 64})
	p, err := x.check(Options{Inputs: []scheduler.Placement{{Strides: []int64{1, 64}, Aligned: 4}}})
	require.NoError(t, err)
	require.Equal(t, []string{"kernel: exp", "torch call: matmul", "kernel: exp"}, shown(p))
	o := Options{Inputs: []scheduler.Placement{{Strides: []int64{1, 64}, Aligned: 4}}, inputs: map[core.ValID]int{x.f.Inputs()[0]: 0}}
	require.Equal(t, &o.Inputs[0], o.place(x.f.Inputs()[0]))
	require.Nil(t, o.place(p.Segments[0].Writes[0]))
}

// TestPlacementOfViews asks about a view of an input as that lies.
func TestPlacementOfViews(t *testing.T) {
	x := parsed(t, matrix+"%1 = tensor i64 [64, 1] contiguity=[yes, none]\n%2 = reshape %0 new_shape=[128, 32]\n%3 = index_select %2, %1 dim=0\noutput %3", []int64{64, 64}, []int64{64, 1})
	p, err := x.check(Options{Inputs: []scheduler.Placement{{Strides: []int64{64, 1}, Aligned: 4}, {Strides: []int64{1, 1}, Aligned: 8}}})
	require.NoError(t, err)
	require.Equal(t, []string{"view: reshape", "kernel: index_select"}, shown(p))
	require.Equal(t, scheduler.Placement{Strides: []int64{32, 1}, Aligned: 4}, p.Segments[1].Asked.Inputs[0])
}

// TestRefusals has, for what no scheduler takes, what each says, in the names of the whole.
func TestRefusals(t *testing.T) {
	x := parsed(t, matrix+"%1 = exp %0\n%2 = matmul %1, %0\noutput %2", []int64{64, 64})
	p, err := x.check(Options{})
	require.NoError(t, err)
	require.Len(t, p.Segments[1].Refusals, len(schedulers.All()))
	for _, r := range p.Segments[1].Refusals {
		require.Equal(t, "tv2", r.Tensor)
		require.Contains(t, r.Sentence, "tv2 is the result of matmul()")
	}
}

// TestScalars passes the sizes and scalars that a segment does not find in what it reads.
func TestScalars(t *testing.T) {
	const rest = "$1 = i.mul %0.0, 3 : index\n%3 = mul %2, $1\noutput %3"
	const start = "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n$0 = scalar f64\n"
	for _, test := range []struct {
		name, text, want string
	}{
		{"a size of what is read", start + "%1 = exp %0\n%2 = segment_set %1\n" + rest, "tv2"},
		{"a size of what is not read", start + "%1 = sum %0 dims=[0, 1] keepdim=false dtype=f32\n%2 = segment_set %1\n" + rest, "tv2, size 0 of tv0"},
		{"a scalar", start + "%1 = exp %0\n%2 = segment_set %1\n%3 = mul %2, $0\noutput %3", "tv2, scalar c3"},
		{"a scalar computed from another", start + "%1 = exp %0\n%2 = segment_set %1\n$1 = sin $0 : f64\n%3 = mul %2, $1\noutput %3", "tv2, scalar c3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := parsed(t, test.text, []int64{6, 7})
			p, err := x.check(Options{})
			require.NoError(t, err)
			require.Len(t, p.Segments, 2)
			require.Equal(t, test.want, p.sources(p.Segments[1]))
		})
	}
}

// TestAsksLittle asks about what is promising alone: a result of a reduction that is needed
// along what was reduced is known to be refused if that is long for a cluster, or for a
// block where there are none.
func TestAsksLittle(t *testing.T) {
	const rows = "%%0 = tensor f32 [4, %d] contiguity=[yes, yes]\n%%1 = sum %%0 dims=[1] keepdim=false dtype=f32\n%%2 = broadcast %%1 is_broadcast_dim=[false, true]\n%%3 = sub %%0, %%2\noutput %%3"
	const apart = "%%0 = tensor f32 [10, 4, %d] contiguity=[yes, yes, yes]\n%%1 = sum %%0 dims=[0, 2] keepdim=false dtype=f32\n%%2 = broadcast %%1 is_broadcast_dim=[true, false, true]\n%%3 = sub %%0, %%2\noutput %%3"
	cut := func(text string, cluster int, sizes ...int64) *Program {
		x := parsed(t, fmt.Sprintf(text, sizes[len(sizes)-1]), sizes)
		device := scheduler.Hopper
		device.Cluster = cluster
		p, err := Cut(x.f, x.b, device, Options{})
		require.NoError(t, err)
		require.NoError(t, x.sound(p, Options{}))
		return p
	}
	for _, p := range []*Program{cut(rows, 1, 4, 40000), cut(rows, 8, 4, 600000), cut(apart, 8, 10, 4, 60000)} {
		require.Equal(t, []string{"kernel: sum", "kernel: broadcast sub"}, shown(p))
		require.Equal(t, 2, p.Work.Asked)
	}
	require.Equal(t, []string{"kernel: sum broadcast sub"}, shown(cut(rows, 8, 4, 40000)))
	require.Equal(t, []string{"kernel: sum broadcast sub"}, shown(cut(apart, 8, 10, 4, 4000)))
}

// TestUnderivable names a scalar that is neither an input nor a size of one.
func TestUnderivable(t *testing.T) {
	f := core.NewFusion()
	s := f.Scalars().Symbol(f.Scalars().Type(f.Scalars().Int(1)), scalar.Tag{Val: 77, Dim: 2}, scalar.Range(0, 9))
	g := &graph{f: f}
	x := &extraction{g: g, f: core.NewFusion(), scalars: map[scalar.ID]scalar.ID{}, part: &part{}}
	_, err := x.scalar(f.Scalars().Add(s, f.Scalars().Int(1)))
	require.ErrorAs(t, err, new(*core.InvalidArgument))
	require.Contains(t, err.Error(), "cannot be derived")
}

// TestNotConcrete refuses axes of which it is not known whether they are broadcast.
func TestNotConcrete(t *testing.T) {
	f, err := core.Parse("%0 = tensor f32 [-1] contiguity=[yes]\n$0 = scalar i64\n%1 = expand %0 shape=[index($0)]\noutput %1\n")
	require.NoError(t, err)
	f.Freeze()
	b, err := f.Bind([]core.InputValue{{Tensor: true, DType: f.Val(f.Inputs()[0]).DType, Sizes: []int64{1}}, {Scalar: scalar.Value{Type: f.Val(f.Inputs()[1]).DType, I: 5}}})
	require.NoError(t, err)
	_, err = Cut(f, b, scheduler.Hopper, Options{})
	require.ErrorAs(t, err, new(*core.InvalidArgument))
	require.Contains(t, err.Error(), "tv1 has a dimension")
}

// TestDeterministic cuts the same fusion in many goroutines, which share it.
func TestDeterministic(t *testing.T) {
	for _, s := range shapes {
		x := bound(t, s.text(100))
		texts := make([]string, 8)
		var all sync.WaitGroup
		for i := range texts {
			all.Go(func() {
				b, err := x.f.Bind(x.values)
				if err == nil {
					var p *Program
					if p, err = Cut(x.f, b, scheduler.Hopper, Options{}); err == nil {
						texts[i] = p.Dump()
						return
					}
				}
				texts[i] = err.Error()
			})
		}
		all.Wait()
		require.Contains(t, texts[0], "segment 0: ")
		for _, text := range texts {
			require.Equal(t, texts[0], text)
		}
	}
}

// TestJoinedAndRefused cuts what was joined without asking, and is refused then, as if the
// schedulers had been asked each time: of batch norms whose rows no block holds, nor a cluster.
func TestJoinedAndRefused(t *testing.T) {
	for _, b := range readBlocks(t) {
		if b.name != "resnet_bottleneck" {
			continue
		}
		for _, c := range []struct {
			size    int64
			cluster int
			want    int // 2 for each batch norm that is cut
		}{{7, 8, 3}, {14, 8, 3}, {56, 8, 3}, {7, 1, 3}, {56, 1, 6}, {112, 8, 6}} {
			size, device := c.size, scheduler.Hopper
			device.Cluster = c.cluster
			values := slices.Clone(b.inputs["large"])
			for i := range values {
				if values[i].Sizes = slices.Clone(values[i].Sizes); len(values[i].Sizes) == 4 {
					values[i].Sizes[2], values[i].Sizes[3] = size, size
				}
			}
			g, _, err := passes.Run(b.f, false)
			require.NoError(t, err)
			bound, err := g.Bind(values)
			require.NoError(t, err)
			concrete, _, err := g.Concretize(bound)
			require.NoError(t, err)
			bound, err = concrete.Bind(values)
			require.NoError(t, err)
			p, err := Cut(concrete, bound, device, Options{})
			require.NoError(t, err)
			require.Len(t, p.Segments, c.want, "%v: %s", c, strings.Join(shown(p), "\n"))
		}
	}
}
