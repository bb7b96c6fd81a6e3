package lower

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/codegen/trial"
	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// columnSum sums the columns of a matrix of any number of rows.
const columnSum = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = sum %0 dims=[0] keepdim=false dtype=f32
output %1
`

// A buffering is how a test fills circular buffers.
type buffering struct {
	stages, prefetch int
	copies           schedule.CopyKind
}

func (b buffering) String() string {
	return fmt.Sprintf("%d stages, %d ahead, copy %d", b.stages, b.prefetch, b.copies)
}

var depths = []buffering{{2, 1, schedule.AsyncCopy}, {3, 2, schedule.AsyncCopy}, {3, 1, schedule.AsyncCopy}, {4, 3, schedule.AsyncCopy}, {2, 1, schedule.PlainCopy}, {3, 2, schedule.PlainCopy}, {12, 11, schedule.AsyncCopy}, {12, 7, schedule.AsyncCopy}}

// circular makes a copy of v in a circular buffer.
func (b buffering) circular(t *testing.T, s *schedule.Scheduled, v core.ValID) core.ValID {
	c, err := s.CacheAfter(v, nil)
	must(t, err, s.SetMemory(c, schedule.Shared), s.SetCopy(c, b.copies, schedule.CacheUnspecified), s.SetBuffering(c, b.stages, b.prefetch))
	return c
}

// own gives each thread a column: it reads what it has copied itself.
func (b buffering) own(t *testing.T, s *schedule.Scheduled) {
	out := tv(s, 1)
	acc, err := s.CacheBefore(out)
	must(t, err)
	tile := b.circular(t, s, tv(s, 0))
	must(t, s.Reorder(acc, map[int]int{0: 1}), s.Split(acc, 0, 8, true))
	_, err = s.TransformLike(acc, nil)
	must(t, err)
	parallelised(t, s, 0, schedule.BIDx)
	parallelised(t, s, 1, schedule.TIDx)
	must(t, s.InlineAt(tile, 3, false), s.InlineAt(acc, 2, false))
}

// registers is own with the rows ahead, two columns of each, in registers.
func (b buffering) registers(t *testing.T, s *schedule.Scheduled) {
	acc, err := s.CacheBefore(tv(s, 1))
	must(t, err)
	tile := b.inRegisters(t, s, tv(s, 0))
	must(t, s.Reorder(acc, map[int]int{0: 1}), s.Split(acc, 0, 2, true), s.Split(acc, 0, 4, true), s.Reorder(acc, map[int]int{2: 3, 3: 2}))
	_, err = s.TransformLike(acc, nil)
	must(t, err)
	parallelised(t, s, 0, schedule.BIDx)
	parallelised(t, s, 1, schedule.TIDx)
	must(t, s.InlineAt(tile, 3, false), s.InlineAt(acc, 2, false))
}

// inRegisters makes a copy of v in a circular buffer in registers.
func (b buffering) inRegisters(t *testing.T, s *schedule.Scheduled, v core.ValID) core.ValID {
	c, err := s.CacheAfter(v, nil)
	must(t, err, s.SetBuffering(c, b.stages, b.prefetch))
	return c
}

// scaled sums rows that each have a factor.
const scaled = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor f32 [-1] contiguity=[yes]
%2 = broadcast %1 is_broadcast_dim=[false, true]
%3 = mul %0, %2
%4 = sum %3 dims=[0] keepdim=false dtype=f32
output %4
`

// factors loads the factors ahead to registers and rows to shared memory.
func (b buffering) factors(t *testing.T, s *schedule.Scheduled) {
	acc, err := s.CacheBefore(tv(s, 4))
	must(t, err)
	tile, factor := b.circular(t, s, tv(s, 0)), b.inRegisters(t, s, tv(s, 1))
	must(t, s.Reorder(acc, map[int]int{0: 1}), s.Split(acc, 0, 8, true))
	_, err = s.TransformLike(acc, nil)
	must(t, err)
	must(t, s.Parallelize(acc, 0, schedule.BIDx), s.Parallelize(acc, 1, schedule.TIDx), s.ParallelizeLike(acc, -1, nil, nil))
	must(t, s.InlineMost(nil, nil), s.InlineAt(tile, 3, false), s.InlineAt(factor, 1, false))
}

// tiled copies tiles of 4 rows and 8 columns by 32 threads, of which each then
// reads a column of the tile; of the rest of the tile copies move width elements.
func (b buffering) tiled(t *testing.T, s *schedule.Scheduled, width int64) {
	out := tv(s, 1)
	acc, err := s.CacheBefore(out)
	must(t, err)
	tile := b.circular(t, s, tv(s, 0))
	for _, v := range []core.ValID{acc, tile} {
		must(t, s.Split(v, 1, 8, true), s.Split(v, 0, 4, true), s.Reorder(v, map[int]int{2: 0}))
		must(t, s.Parallelize(v, 0, schedule.BIDx))
	}
	must(t, s.Split(out, 0, 8, true), s.Parallelize(out, 0, schedule.BIDx), s.Parallelize(out, 1, schedule.TIDx), s.Parallelize(acc, 3, schedule.TIDx))
	must(t, s.Parallelize(tile, 2, schedule.TIDy))
	if width > 1 {
		must(t, s.Split(tile, 3, width, true), s.Parallelize(tile, 4, schedule.Vectorize))
	}
	must(t, s.Parallelize(tile, 3, schedule.TIDx))
	must(t, s.InlineAt(tile, 2, false), s.InlineAt(acc, 1, false))
}

// byFours promises vectors of four elements.
var byFours = Options{
	Promise:   func(h kir.HostValue) scalar.Facts { return scalar.Facts{Lo: 0, Hi: 1 << 30, Divisor: 4} },
	Alignment: func(core.ValID) int { return 16 },
}

// batchSum is columnSum of several matrices.
const batchSum = `%0 = tensor f32 [-1, -1, 6] contiguity=[yes, yes, yes]
%1 = sum %0 dims=[1] keepdim=false dtype=f32
output %1
`

// nested sums one matrix after the other: each is a pipeline of its own. Threads
// copy rows of a tile of 4 and read columns of it, one after the other.
func (b buffering) nested(t *testing.T, s *schedule.Scheduled) {
	out := tv(s, 1)
	acc, err := s.CacheBefore(out)
	must(t, err)
	tile := b.circular(t, s, tv(s, 0))
	must(t, s.Split(acc, 1, 4, true), s.Split(tile, 1, 4, true))
	must(t, s.Parallelize(tile, 2, schedule.TIDx), s.Parallelize(acc, 3, schedule.TIDx), s.Parallelize(out, 1, schedule.TIDx))
	must(t, s.InlineAt(tile, 2, false), s.InlineAt(acc, 1, false))
}

// unrolled goes through the columns and, for each, the rows, one after the other,
// in loops that are written out.
func (b buffering) unrolled(t *testing.T, s *schedule.Scheduled) {
	out := tv(s, 1)
	acc, err := s.CacheBefore(out)
	must(t, err)
	tile := b.circular(t, s, tv(s, 0))
	for _, v := range []core.ValID{acc, tile} {
		must(t, s.Reorder(v, map[int]int{0: 1}), s.Parallelize(v, 0, schedule.Unroll), s.Parallelize(v, 1, schedule.Unroll))
	}
	must(t, s.Parallelize(out, 0, schedule.Unroll), s.InlineAt(tile, 2, false), s.InlineAt(acc, 1, false))
}

// weighted sums matrices with a weight for each column.
const weighted = `%0 = tensor f32 [-1, 8] contiguity=[yes, yes]
%1 = tensor f32 [-1, -1, 8] contiguity=[yes, yes, yes]
%2 = broadcast %0 is_broadcast_dim=[false, true, false]
%3 = mul %1, %2
%4 = sum %3 dims=[1] keepdim=false dtype=f32
output %4
`

// twice copies the weights of the next matrix ahead and, inside of that loop,
// rows of this one.
func (b buffering) twice(t *testing.T, s *schedule.Scheduled) {
	acc, err := s.CacheBefore(tv(s, 4))
	must(t, err)
	weights, rows := b.circular(t, s, tv(s, 0)), b.circular(t, s, tv(s, 1))
	for _, v := range s.Tensors() {
		if !s.Fusion().Val(v).Input {
			must(t, s.Parallelize(v, -1, schedule.TIDx))
		}
	}
	must(t, s.InlineAt(weights, 1, false), s.InlineAt(rows, 2, false), s.InlineMost([]core.ValID{tv(s, 2), tv(s, 3), acc}, nil))
}

// swizzled permutes the columns of each tile.
func (b buffering) swizzled(t *testing.T, s *schedule.Scheduled) {
	b.tiled(t, s, 1)
	for _, v := range s.Tensors() {
		if s.Buffering(v).Stages > 0 {
			must(t, s.SetAllocation(v, s.Loop(v), nil), s.SwizzleXOR(v, 2, 3))
		}
	}
}

// product multiplies matrices.
const product = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor f32 [-1, -1] contiguity=[yes, yes]
%2 = broadcast %0 is_broadcast_dim=[false, false, true]
%3 = broadcast %1 is_broadcast_dim=[true, false, false]
%4 = mul %2, %3
%5 = sum %4 dims=[1] keepdim=false dtype=f32
output %5
`

// product gives each thread of a block of 8 by 8 an element of the result, and
// both operands tiles of 8 along what is summed.
func (b buffering) product(t *testing.T, s *schedule.Scheduled) {
	out := tv(s, 5)
	acc, err := s.CacheBefore(out)
	must(t, err)
	left, right := b.circular(t, s, tv(s, 0)), b.circular(t, s, tv(s, 1))
	for _, v := range []core.ValID{tv(s, 2), tv(s, 3), tv(s, 4), acc} { // m/8 n/8 k/8 m n k
		must(t, s.Split(v, 2, 8, true), s.Split(v, 1, 8, true), s.Split(v, 0, 8, true), s.Reorder(v, map[int]int{0: 0, 1: 3, 2: 2, 3: 5, 4: 1, 5: 4}))
	}
	must(t, s.Split(out, 1, 8, true), s.Split(out, 0, 8, true), s.Reorder(out, map[int]int{1: 2, 2: 1}))
	must(t, s.Split(left, 1, 8, true), s.Split(left, 0, 8, true), s.Reorder(left, map[int]int{1: 2, 2: 1}))
	must(t, s.Split(right, 1, 8, true), s.Split(right, 0, 8, true), s.Reorder(right, map[int]int{2: 0, 0: 1, 1: 2, 3: 3}))
	for _, v := range []core.ValID{tv(s, 2), tv(s, 3), tv(s, 4), acc, out} {
		n := len(s.Loop(v))
		must(t, s.Parallelize(v, 0, schedule.BIDy), s.Parallelize(v, 1, schedule.BIDx), s.Parallelize(v, n/2, schedule.TIDy), s.Parallelize(v, n/2+1, schedule.TIDx))
	}
	must(t, s.Parallelize(left, 0, schedule.BIDy), s.Parallelize(right, 0, schedule.BIDx))
	for _, v := range []core.ValID{left, right} {
		must(t, s.Parallelize(v, 2, schedule.TIDy), s.Parallelize(v, 3, schedule.TIDx))
	}
	must(t, s.InlineMost([]core.ValID{tv(s, 2), tv(s, 3), tv(s, 4)}, nil))
	must(t, s.InlineAt(left, 2, false), s.InlineAt(right, 2, false), s.InlineAt(acc, 2, false))
}

// reversed is columnSum with the columns in the opposite order, as threads see
// them in shared memory.
const reversed = `%0 = tensor f32 [-1, 8, 16] contiguity=[yes, yes, yes]
%1 = sum %0 dims=[0] keepdim=false dtype=f32
%2 = permute %1 dims=[1, 0]
output %2
`

// epilogue exchanges the sums through shared memory after the loop. Its bytes
// and the slots' would together let fewer blocks run at once.
func (b buffering) epilogue(t *testing.T, s *schedule.Scheduled) {
	out := tv(s, 2)
	acc, err := s.CacheBefore(tv(s, 1))
	must(t, err)
	tile := b.circular(t, s, tv(s, 0))
	must(t, s.SetMemory(tv(s, 1), schedule.Shared))
	for _, v := range []core.ValID{out, tv(s, 1), acc, tile} {
		n := len(s.Loop(v)) - 2
		if v == tile {
			must(t, s.Merge(v, n, n+1), s.Split(v, n, 4, true), s.Parallelize(v, n+1, schedule.Vectorize))
		} else {
			must(t, s.Reorder(v, map[int]int{n: n + 1}), s.Merge(v, n, n+1))
		}
		must(t, s.Parallelize(v, n, schedule.TIDx))
	}
	must(t, s.Split(acc, 0, 10, true), s.Split(tile, 0, 10, true), s.InlineAt(tile, 1, false))
}

// A pipelineCase is a program with circular buffers and sizes that it runs with.
type pipelineCase struct {
	name     string
	text     string
	schedule func(b buffering, t *testing.T, s *schedule.Scheduled)
	options  Options
	sizes    [][][]int64
}

// rows are sizes of a matrix of some columns: none, fewer tiles than are loaded
// ahead, and such that a tile of 4 rows divides or not.
func rows(step, columns int64) (sizes [][][]int64) {
	for _, n := range []int64{0, 1, 3, 4, 8, 9, 12, 30} {
		sizes = append(sizes, [][]int64{{step * n, columns}})
	}
	return sizes
}

var pipelineCases = []pipelineCase{
	{"own", columnSum, buffering.own, Options{}, rows(1, 11)},
	{"tiled", columnSum, func(b buffering, t *testing.T, s *schedule.Scheduled) { b.tiled(t, s, 1) }, Options{}, rows(1, 11)},
	{"pairs", columnSum, func(b buffering, t *testing.T, s *schedule.Scheduled) { b.tiled(t, s, 2) }, byFours, rows(4, 12)},
	{"vectors", columnSum, func(b buffering, t *testing.T, s *schedule.Scheduled) { b.tiled(t, s, 4) }, byFours, rows(4, 12)},
	{"nested", batchSum, buffering.nested, Options{}, [][][]int64{{{3, 0, 6}}, {{1, 3, 6}}, {{3, 4, 6}}, {{2, 8, 6}}, {{2, 12, 6}}, {{3, 16, 6}}, {{2, 19, 6}}, {{0, 8, 6}}}},
	{"twice", weighted, buffering.twice, Options{}, [][][]int64{{{0, 8}, {0, 5, 8}}, {{1, 8}, {1, 0, 8}}, {{5, 8}, {5, 1, 8}}, {{2, 8}, {2, 7, 8}}, {{4, 8}, {4, 4, 8}}}},
	{"swizzled", columnSum, buffering.swizzled, Options{}, rows(1, 11)},
	{"registers", columnSum, buffering.registers, Options{}, rows(1, 11)},
	{"factors", scaled, buffering.factors, Options{}, [][][]int64{{{0, 11}, {0}}, {{1, 11}, {1}}, {{3, 11}, {3}}, {{4, 11}, {4}}, {{12, 9}, {12}}, {{30, 1}, {30}}}},
	{"unrolled", `%0 = tensor f32 [9, 6] contiguity=[yes, yes]
%1 = sum %0 dims=[0] keepdim=false dtype=f32
output %1
`, buffering.unrolled, Options{}, [][][]int64{{{9, 6}}}},
	{"product", product, buffering.product, Options{}, [][][]int64{{{10, 20}, {20, 11}}, {{8, 8}, {8, 8}}, {{3, 0}, {0, 5}}, {{5, 33}, {33, 2}}}},
	{"epilogue", reversed, buffering.epilogue, aligned, [][][]int64{{{0, 8, 16}}, {{1, 8, 16}}, {{15, 8, 16}}, {{30, 8, 16}}, {{31, 8, 16}}, {{45, 8, 16}}}},
}

func (x *pipelineCase) scheduled(t *testing.T, b buffering) (*schedule.Scheduled, *core.Fusion) {
	s := parsed(t, x.text)
	f := frozen(s)
	x.schedule(b, t, s)
	require.NoError(t, s.Verify())
	return s, f
}

// Loops of any number of iterations, tiles that divide or not.
func TestPipelines(t *testing.T) {
	for _, b := range depths {
		for _, x := range pipelineCases {
			t.Run(fmt.Sprintf("%s, %v", x.name, b), func(t *testing.T) {
				for _, sizes := range x.sizes {
					s, f := x.scheduled(t, b)
					k, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, sizes...), x.options)
					require.NoError(t, err, "%v: %v", sizes, k)
				}
			})
		}
	}
}

// The kernels of two and of three stages, as they are written.
func TestPipelineGoldens(t *testing.T) {
	for _, x := range []struct {
		file string
		of   string
		buffering
	}{
		{"two stages", "vectors", buffering{2, 1, schedule.AsyncCopy}},
		{"three stages", "product", buffering{3, 2, schedule.AsyncCopy}},
		{"nested pipeline", "nested", buffering{3, 2, schedule.AsyncCopy}},
		{"pipeline and epilogue", "epilogue", buffering{3, 2, schedule.AsyncCopy}},
		{"plain copies ahead", "own", buffering{2, 1, schedule.PlainCopy}},
		{"registers ahead", "factors", buffering{3, 2, schedule.AsyncCopy}},
	} {
		t.Run(x.file, func(t *testing.T) {
			c := pipelineNamed(x.of)
			s, _ := c.scheduled(t, x.buffering)
			k, err := lowered(s, c.options)
			require.NoError(t, err)
			golden(t, x.file, k.String())
		})
	}
}

func pipelineNamed(name string) *pipelineCase {
	for i := range pipelineCases {
		if pipelineCases[i].name == name {
			return &pipelineCases[i]
		}
	}
	panic("no such case")
}

// A place is a statement of a kernel.
type place struct {
	block *kir.Block
	i     int
}

func (x place) statement() kir.Statement { return (*x.block)[x.i] }

// places returns the statements that are selected.
func places(b *kir.Block, selected func(kir.Statement) bool) (list []place) {
	for i, s := range *b {
		if selected(s) {
			list = append(list, place{b, i})
		}
		switch s := s.(type) {
		case *kir.For:
			list = append(list, places(&s.Body, selected)...)
		case *kir.If:
			list = append(append(list, places(&s.Then, selected)...), places(&s.Else, selected)...)
		}
	}
	return list
}

// with runs f on the kernel with another statement in the place.
func (x place) with(s kir.Statement, f func()) {
	old := x.statement()
	(*x.block)[x.i] = s
	f()
	(*x.block)[x.i] = old
}

// nothing is a statement that does nothing.
var nothing = kir.Fence{Scope: kir.WarpScope}

func isToken(s kir.Statement) bool {
	switch s.(type) {
	case kir.AsyncWait, kir.AsyncCommit, kir.Barrier:
		return true
	}
	return false
}

// findings runs a kernel that may be wrong and returns what the simulator
// reports at some sizes.
func (x *pipelineCase) findings(s *schedule.Scheduled, f *core.Fusion, k *kir.Kernel) error {
	for _, sizes := range x.sizes {
		r := trial.Trial{Scheduled: s, Kernel: k, Inputs: fusionfuzz.Inputs(f, 7, sizes...)}
		for _, order := range []sim.Order{sim.Forward, sim.Reverse} {
			if _, err := simulated(&r, order); err != nil {
				return err
			}
		}
	}
	return nil
}

// Without any one wait, barrier or commit the simulator reports something, and
// with the slot before or after the right one too.
func TestPipelineMutations(t *testing.T) {
	for _, b := range depths[:4] {
		for _, name := range []string{"own", "vectors", "nested", "twice", "unrolled", "product", "epilogue"} {
			t.Run(fmt.Sprintf("%s, %v", name, b), func(t *testing.T) {
				x := pipelineNamed(name)
				s, f := x.scheduled(t, b)
				k, err := lowered(s, x.options)
				require.NoError(t, err)
				require.NoError(t, x.findings(s, f, k))
				tokens := places(&k.Body, isToken)
				require.NotEmpty(t, tokens)
				for _, token := range tokens {
					token.with(nothing, func() {
						require.Error(t, x.findings(s, f, k), "without a token\n%v", k)
					})
					if w, ok := token.statement().(kir.AsyncWait); ok {
						token.with(kir.AsyncWait{Pending: w.Pending + 1}, func() {
							require.Error(t, x.findings(s, f, k), "with one more group pending at a wait of\n%v", k)
						})
					}
				}
				copies := places(&k.Body, func(s kir.Statement) bool { _, ok := s.(kir.AsyncCopy); return ok })
				require.NotEmpty(t, copies)
				for _, c := range copies {
					copied := c.statement().(kir.AsyncCopy)
					for _, by := range []int64{1, -1} {
						wrong := copied
						wrong.Dst = shifted(k, copied.Dst, by)
						c.with(wrong, func() {
							require.Error(t, x.findings(s, f, k), "%s in\n%v", k.Text(wrong), k)
						})
					}
				}
			})
		}
	}
}

// shifted returns an access to a circular buffer in another slot.
func shifted(k *kir.Kernel, a kir.Access, by int64) kir.Access {
	t, b := k.Scalars, &k.Buffers[a.Buffer]
	slot := t.Mod(t.Add(a.Coords[0], t.Add(t.Int(by), b.Shape[0])), b.Shape[0])
	a.Index = t.Add(a.Index, t.Mul(t.Sub(slot, a.Coords[0]), b.Stride[0]))
	a.Coords = append([]scalar.ID{slot}, a.Coords[1:]...)
	return a
}

// Copies that are under way when the loop ends write zeros to the bytes that
// the sums are then exchanged through: each thread waits for its own, then for
// the others, and only then stores. A barrier alone does not order the copies,
// and before the wait it says nothing of what other threads wait for.
func TestEpilogueWaitsForPipeline(t *testing.T) {
	x := pipelineNamed("epilogue")
	s, f := x.scheduled(t, buffering{3, 2, schedule.AsyncCopy})
	k, err := lowered(s, x.options)
	require.NoError(t, err)
	slots, sums := tensorBuffer(k, "tv4"), tensorBuffer(k, "tv1")
	require.Equal(t, slots.Offset, sums.Offset)
	var at int
	for i, s := range k.Body {
		if s == (kir.AsyncWait{}) {
			at = i
		}
	}
	require.Equal(t, kir.AsyncWait{}, k.Body[at])
	require.Equal(t, kir.Barrier{Scope: kir.BlockScope}, k.Body[at+1])
	require.IsType(t, kir.Assign{}, k.Body[at+2])

	wait, barrier := place{&k.Body, at}, place{&k.Body, at + 1}
	wait.with(nothing, func() {
		require.ErrorContains(t, x.findings(s, f, k), "tv1")
	})
	wait.with(barrier.statement(), func() {
		barrier.with(kir.AsyncWait{}, func() { require.Error(t, x.findings(s, f, k)) })
	})
	require.NoError(t, x.findings(s, f, k))
}

func tensorBuffer(k *kir.Kernel, name string) *kir.Buffer {
	for i := range k.Buffers {
		if k.Buffers[i].Name == name {
			return &k.Buffers[i]
		}
	}
	panic("no such buffer")
}

func TestCircularBufferRefusals(t *testing.T) {
	of := func(change func(t *testing.T, s *schedule.Scheduled, tile, acc core.ValID)) func(t *testing.T, s *schedule.Scheduled) {
		return func(t *testing.T, s *schedule.Scheduled) {
			acc, err := s.CacheBefore(tv(s, 1))
			must(t, err)
			change(t, s, depths[1].circular(t, s, tv(s, 0)), acc)
		}
	}
	const twoInputs = `%0 = tensor f32 [-1, 8] contiguity=[yes, yes]
%1 = tensor f32 [-1, 8] contiguity=[yes, yes]
%2 = neg %0
%3 = add %2, %1
output %2
output %3
`
	for _, x := range []struct {
		name, text string
		schedule   func(t *testing.T, s *schedule.Scheduled)
		sentence   string
	}{
		{"no loop", columnSum, of(func(t *testing.T, s *schedule.Scheduled, tile, acc core.ValID) {}),
			"tv3 has a circular buffer and is not computed inside a loop of its readers whose iterations one thread runs: inline it into the loop over its tiles"},
		{"only threads", columnSum, of(func(t *testing.T, s *schedule.Scheduled, tile, acc core.ValID) {
			for _, v := range []core.ValID{tile, acc} {
				must(t, s.Reorder(v, map[int]int{0: 1}), s.Parallelize(v, 0, schedule.TIDx))
			}
			must(t, s.InlineAt(tile, 1, false))
		}), "is not computed inside a loop of its readers whose iterations one thread runs"},
		{"registers", columnSum, of(func(t *testing.T, s *schedule.Scheduled, tile, acc core.ValID) {
			must(t, s.SetCopy(tile, schedule.PlainCopy, schedule.CacheUnspecified), s.SetMemory(tile, schedule.Local), s.InlineAt(tile, 1, false))
		}), "is kept in registers and has tv0_n1 elements along an axis, which is not a constant"},
		{"asynchronous copies to registers", columnSum, of(func(t *testing.T, s *schedule.Scheduled, tile, acc core.ValID) {
			must(t, s.SetMemory(tile, schedule.Local), s.InlineAt(tile, 1, false))
		}), "tv3 is copied asynchronously, which is done from global to shared memory only"},
		{"no copy", twoInputs, func(t *testing.T, s *schedule.Scheduled) {
			acc, err := s.CacheBefore(tv(s, 2))
			must(t, err, s.SetMemory(acc, schedule.Shared), s.SetBuffering(acc, 2, 1))
		}, "tv4 has a circular buffer and is the result of neg(): only a copy is made ahead; cache it"},
		{"not from global memory", columnSum, func(t *testing.T, s *schedule.Scheduled) {
			first, err := s.CacheAfter(tv(s, 0), nil)
			must(t, err)
			second, err := s.CacheAfter(first, nil)
			must(t, err, s.SetMemory(second, schedule.Shared), s.SetBuffering(second, 2, 1))
		}, "tv3 has a circular buffer and copies tv2, which is in local memory: only what is in global memory is there ahead of its use"},
		{"source of the same loop", twoInputs, func(t *testing.T, s *schedule.Scheduled) {
			tile := depths[0].circular(t, s, tv(s, 2))
			must(t, s.InlineAt(tile, 1, false), s.InlineAt(tv(s, 2), 1, false))
		}, "tv4 has a circular buffer and the loop over its tiles computes tv2, which it copies: a tile would be read before it is there"},
		{"different depths", twoInputs, func(t *testing.T, s *schedule.Scheduled) {
			first, second := depths[0].circular(t, s, tv(s, 0)), depths[1].circular(t, s, tv(s, 1))
			must(t, s.InlineAt(tv(s, 2), 1, false), s.InlineAt(first, 1, false), s.InlineAt(second, 1, false))
		}, "tv5 has 3 stages, 2 ahead, and tv4, in the same loop, has 2, 1 ahead: what one loop loads ahead must agree"},
		{"too large", `%0 = tensor f32 [-1, 20000] contiguity=[yes, yes]
%1 = sum %0 dims=[0] keepdim=false dtype=f32
output %1
`, of(func(t *testing.T, s *schedule.Scheduled, tile, acc core.ValID) {
			must(t, s.SetMemory(acc, schedule.Shared), s.InlineAt(tile, 1, false))
		}), "a block needs 320000 bytes of shared memory and the device has 232448"},
		{"two bytes", `%0 = tensor f16 [-1, 8] contiguity=[yes, yes]
%1 = set %0
output %1
`, func(t *testing.T, s *schedule.Scheduled) {
			must(t, s.InlineAt(depths[0].circular(t, s, tv(s, 0)), 1, false))
		}, "tv2 is copied asynchronously by 2 bytes, and only 4, 8 or 16 are copied at once"},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := parsed(t, x.text)
			x.schedule(t, s)
			_, err := lowered(s, Options{})
			var unsupported *core.Unsupported
			require.True(t, errors.As(err, &unsupported), "%v", err)
			require.Contains(t, err.Error(), x.sentence)
		})
	}
}
