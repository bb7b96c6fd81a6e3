package lower

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// copiedColumns is how many elements rows have at most that are copied to shared memory.
const copiedColumns = 64

// A copying is how a test copies rows to shared memory.
type copying struct {
	inputs, columns int
	rows            int  // 0: their number is not known
	fixed           bool // the number of columns is known
	threads         int64
	others          bool  // threads read what others have copied
	least           int64 // columns that are promised
	aligned         int64 // elements that rows begin at a multiple of
}

// schedule returns one of x - sum(x), or x * y - sum(x * y), with rows in shared memory between, and its fusion.
func (c copying) schedule(t *testing.T) (*schedule.Scheduled, *core.Fusion) {
	size := "-1"
	if c.fixed {
		size = strconv.Itoa(c.columns)
	}
	rows := "-1"
	if c.rows > 0 {
		rows = strconv.Itoa(c.rows)
	}
	text := "%0 = tensor f32 [" + rows + ", " + size + "] contiguity=[yes, yes]\n%1 = tensor f32 [" + rows + ", " + size + "] contiguity=[yes, yes]\n%2 = mul %0, %1\n"
	if c.inputs == 1 {
		text = "%0 = tensor f32 [" + rows + ", " + size + "] contiguity=[yes, yes]\n%2 = neg %0\n"
	}
	s := parsed(t, text+`%3 = sum %2 dims=[1] keepdim=false dtype=f32
%4 = broadcast %3 is_broadcast_dim=[false, true]
%5 = sub %2, %4
output %5
`)
	f := s.Fusion().Clone()
	out, total := s.Fusion().Outputs()[0].Val, core.NoVal
	for _, id := range s.Fusion().Order() {
		if e := s.Fusion().Expr(id); e.Op == core.SumOp {
			total = e.Out[0]
		}
	}
	product := s.Fusion().TensorArgs(s.Fusion().Expr(s.Fusion().Val(out).Def))[0]
	var copies []core.ValID
	for _, v := range slices.Clone(s.Fusion().Inputs()) {
		cached, err := s.CacheAfter(v, nil)
		must(t, err, s.SetCopy(cached, schedule.AsyncCopy, schedule.CacheUnspecified), s.SetMemory(cached, schedule.Shared))
		copies = append(copies, cached)
	}
	_, err := s.Recompute(product, []core.ValID{out})
	must(t, err)
	if c.least > 0 {
		must(t, s.PromiseLeast(out, 1, c.least))
	}
	if c.aligned > 0 {
		must(t, s.AlignRows(out, 0, 1, c.aligned))
	}
	must(t, s.SplitWhole(out, 1, copiedColumns), s.Split(out, 2, c.threads, true))
	_, err = s.TransformLike(out, nil)
	must(t, err)
	partial, err := s.RFactor(total, []int{1, 2})
	must(t, err, s.Parallelize(partial[0], 0, schedule.BIDx), s.Parallelize(partial[0], 3, schedule.TIDx), s.ParallelizeLike(partial[0], -1, nil, nil))
	if c.others {
		for _, v := range copies {
			must(t, s.Parallelize(v, 3, schedule.Serial), s.Parallelize(v, 2, schedule.TIDx))
		}
	}
	inlined := slices.DeleteFunc(slices.Clone(s.Tensors()), func(v core.ValID) bool { return slices.Contains(copies, v) })
	must(t, s.InlineMost(inlined, nil), s.Verify())
	return s, f
}

// Rows of which each thread copies its elements to shared memory are computed with as they land.
// Of copies that others read, of several tensors, or of more or fewer than are told apart, all are waited for.
func TestLandInTurn(t *testing.T) {
	for _, test := range []struct {
		copying
		waits []int
	}{
		{copying{inputs: 1, columns: 64, fixed: true, threads: 16}, []int{3}},
		{copying{inputs: 2, columns: 64, fixed: true, threads: 16}, []int{0}},
		{copying{inputs: 1, columns: 57, threads: 16}, []int{3}},
		{copying{inputs: 1, columns: 1, threads: 8}, []int{7}},
		{copying{inputs: 2, columns: 57, threads: 8}, []int{0}},
		{copying{inputs: 1, columns: 64, fixed: true, threads: 4}, []int{0}},
		{copying{inputs: 1, columns: 64, fixed: true, threads: 64}, []int{0}},
		{copying{inputs: 2, columns: 64, fixed: true, threads: 8, others: true}, []int{0}},
	} {
		s, f := test.schedule(t)
		sizes := slices.Repeat([][]int64{{3, int64(test.columns)}}, test.inputs)
		k, err := checkWith(s, f, fusionfuzz.Inputs(f, 1, sizes...), Options{})
		must(t, err)
		var waits []int
		k.Body.Walk(func(s kir.Statement) {
			if w, ok := s.(kir.AsyncWait); ok {
				waits = append(waits, w.Pending)
			}
		})
		require.Equal(t, test.waits, waits, "%+v\n%s", test.copying, k)
	}
}

// What a thread copies of several tensors is in one loop, where the copies have the same iterations.
func TestCopiesAreJoined(t *testing.T) {
	for _, test := range []struct {
		copying
		each []int // copies of each loop
	}{
		{copying{inputs: 1, columns: 64, fixed: true, threads: 16}, []int{1}},
		{copying{inputs: 2, columns: 64, fixed: true, threads: 16}, []int{2}},
		{copying{inputs: 2, columns: 57, threads: 16}, []int{2}},
		{copying{inputs: 2, columns: 64, fixed: true, threads: 8, others: true}, []int{2}},
	} {
		s, f := test.schedule(t)
		k, err := checkWith(s, f, fusionfuzz.Inputs(f, 1, slices.Repeat([][]int64{{3, int64(test.columns)}}, test.inputs)...), Options{})
		must(t, err)
		var each []int
		k.Body.Walk(func(s kir.Statement) {
			f, isLoop := s.(*kir.For)
			if !isLoop {
				return
			}
			copies := 0
			f.Body.Walk(func(s kir.Statement) {
				if _, ok := s.(kir.AsyncCopy); ok {
					copies++
				}
			})
			if copies > 0 {
				each = append(each, copies)
			}
		})
		require.Equal(t, test.each, each, "%+v\n%s", test.copying, k)
	}
}
