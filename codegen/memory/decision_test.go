package memory_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/memory"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/internal/golden"
)

// tight makes less memory always better.
var tight = memory.Options{Blocks: func(_, bytes int64) int64 { return 1<<30 - bytes }}

// TestPlacements holds where tokens and buffers are put. The input of an archive
// is the name of a kernel, and "tight" after it where memory is short.
func TestPlacements(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", "kernel", func(t *testing.T, in, _ string) string {
		name, isTight := strings.CutSuffix(strings.TrimSpace(in), ", tight")
		require.Contains(t, kernels, name)
		l, o := kernels[name](), memory.Options{}
		if isTight {
			o = tight
		}
		require.NoError(t, memory.Plan(l.k, o))
		return l.k.String()
	})
}

// TestReuseOfPipeline puts an epilogue at the place of a pipeline's slots, into
// which copies are still under way: they are waited for, and then the block
// waits. Neither does alone, nor in the other order.
func TestReuseOfPipeline(t *testing.T) {
	build := kernels["pipeline of zeros"]
	l := build()
	require.NoError(t, memory.Plan(l.k, tight))
	require.Zero(t, mustInt(t, l.k, l.k.Buffers[shared(l.k, "epilogue")].Offset))
	drain := drainOf(t, l.k)
	require.Equal(t, kir.Block{kir.AsyncWait{}, kir.Barrier{Scope: kir.BlockScope}}, l.k.Body[drain:drain+2])
	for _, change := range []func(b kir.Block){
		nil,
		func(b kir.Block) { b[0] = kir.Fence{Scope: kir.BlockScope} },
		func(b kir.Block) { b[1] = kir.Fence{Scope: kir.BlockScope} },
		func(b kir.Block) { b[0], b[1] = b[1], b[0] },
		func(b kir.Block) { b[0] = kir.AsyncWait{Pending: 1} },
	} {
		for _, o := range orders {
			l := build()
			require.NoError(t, memory.Plan(l.k, tight))
			if change == nil {
				require.NoError(t, l.run(t, o).Err())
				l.check(t)
				continue
			}
			change(l.k.Body[drain : drain+2])
			report := l.run(t, o)
			require.Error(t, report.Err())
			require.Contains(t, []sim.Kind{sim.AsyncReuse, sim.Reuse}, report.Findings[0].Kind)
		}
	}
}

func shared(k *kir.Kernel, name string) kir.BufferID {
	for i, b := range k.Buffers {
		if b.Name == name {
			return kir.BufferID(i)
		}
	}
	panic(name)
}

func mustInt(t *testing.T, k *kir.Kernel, id scalar.ID) int64 {
	n, ok := k.Scalars.ConstInt(id)
	require.True(t, ok)
	return n
}

// drainOf returns where the tokens after the main loop are.
func drainOf(t *testing.T, k *kir.Kernel) int {
	for i, s := range k.Body {
		if _, ok := s.(kir.AsyncWait); ok {
			return i
		}
	}
	t.Fatalf("there is no wait after the loop\n%v", k)
	return 0
}

// TestReuse decides between a barrier and memory.
func TestReuse(t *testing.T) {
	plan := func(o memory.Options) (bytes int64, barriers int) {
		l := twoSums()
		require.NoError(t, memory.Plan(l.k, o))
		return mustInt(t, l.k, l.k.Launch.Shared), len(tokens(l.k.Body))
	}
	bytes, barriers := plan(memory.Options{})
	require.EqualValues(t, []int64{32, 2}, []int64{bytes, int64(barriers)}, "16 bytes are not worth a barrier")
	bytes, barriers = plan(tight)
	require.EqualValues(t, []int64{16, 3}, []int64{bytes, int64(barriers)})
	bytes, barriers = plan(memory.Options{Limit: 16})
	require.EqualValues(t, []int64{16, 3}, []int64{bytes, int64(barriers)})
	bytes, _ = plan(memory.Options{Blocks: func(_, bytes int64) int64 { return 2 - bytes/32 }}) // a step between them
	require.EqualValues(t, 16, bytes)
	for _, o := range orders {
		l := twoSums()
		require.NoError(t, memory.Plan(l.k, tight))
		require.NoError(t, l.run(t, o).Err())
		l.check(t)
	}
	// The third tile shares bytes with the first two, which do not share.
	l := sides()
	require.NoError(t, memory.Plan(l.k, tight))
	require.EqualValues(t, 512, mustInt(t, l.k, l.k.Launch.Shared))
	// Every other tile of a chain may share bytes for free.
	l = chain(256, 1024, 512, 2048)
	require.NoError(t, memory.Plan(l.k, memory.Options{}))
	require.Len(t, tokens(l.k.Body), 4)
	require.EqualValues(t, 2560, mustInt(t, l.k, l.k.Launch.Shared))
}

// TestArrivals has sends that are waited for where they arrive: what else the threads share
// has barriers of its own, and a word that counts shares its bytes with nothing.
func TestArrivals(t *testing.T) {
	plan := func() launch {
		l := arrivals()
		require.NoError(t, memory.Plan(l.k, tight))
		return l
	}
	var found []kir.Statement
	for _, s := range tokens(plan().k.Body) {
		if _, ok := s.(kir.Arrived); !ok {
			found = append(found, s)
		}
	}
	require.Equal(t, []kir.Statement{kir.Barrier{Scope: kir.BlockScope}}, found)
	require.EqualValues(t, 160+2*16+2*16, mustInt(t, plan().k, plan().k.Launch.Shared))
	for i, s := range plan().k.Body {
		e, ok := s.(kir.Expect)
		if !ok {
			continue
		}
		for _, bytes := range []int64{e.Bytes - 4, e.Bytes + 4} {
			l := plan()
			l.k.Body[i] = kir.Expect{Arrivals: e.Arrivals, Bytes: bytes}
			report := l.run(t, orders[0])
			require.Error(t, report.Err())
			require.Equal(t, sim.Deadlock, report.Findings[0].Kind)
		}
	}
}

// TestIndexOfThread has an index that each thread loads: other threads may have
// the same, which no expression excludes.
func TestIndexOfThread(t *testing.T) {
	b := newKernel("index")
	thread := b.Thread(0, 64)
	index := b.Input("index", dtype.Int, b.n(64))
	s, y := b.tile("s", dtype.Float, 128), b.Global("y", dtype.Float, b.n(64))
	k := b.Let("k", b.Load(index, thread), scalar.Range(0, 63))
	at := b.T.Add(k, thread)
	b.Store(b.float(1), s, at)
	b.Store(b.Load(s, at), y, thread)
	require.NoError(t, memory.Plan(b.Kernel(), memory.Options{}))
	require.Len(t, tokens(b.Kernel().Body), 1)
}

// TestTightKernels plans all kernels for the least memory.
func TestTightKernels(t *testing.T) {
	for name, build := range kernels {
		for _, o := range orders[:3] {
			l := build()
			require.NoError(t, memory.Plan(l.k, tight))
			require.NoError(t, l.k.Verify())
			require.NoError(t, l.run(t, o).Err(), "%s\n%v", name, l.k)
			l.check(t)
		}
	}
}

// TestRefusals gives kernels that no token can put right.
func TestRefusals(t *testing.T) {
	const threads = 64
	simple := func(body func(b *kernel, t scalar.ID, x, y, s kir.BufferID)) func() *kir.Kernel {
		return func() *kir.Kernel {
			b := newKernel("refused")
			t := b.Thread(0, threads)
			x, y := b.input("x", threads), b.output("y", nil, threads)
			s := b.tile("s", dtype.Float, threads)
			body(b, t, x, y, s)
			return b.Kernel()
		}
	}
	for _, test := range []struct {
		name  string
		build func() *kir.Kernel
		rule  string
		text  []string
	}{
		{"under a condition of threads", simple(func(b *kernel, t scalar.ID, x, y, s kir.BufferID) {
			b.If(b.T.Lt(t, b.n(40)), func() {
				b.Store(b.Load(x, t), s, t)
				b.Store(b.Load(s, b.mirrored(t, 40)), y, t)
			}, nil)
		}), "barrier", []string{"`s[tx] = x[tx]`", "`y[tx] = s[-tx + 39]`", "all threads of the block"}},
		{"two sides of a condition of threads", simple(func(b *kernel, t scalar.ID, x, y, s kir.BufferID) {
			b.If(b.T.Lt(t, b.n(40)), func() { b.Store(b.Load(x, t), s, t) }, func() { b.Store(b.Load(s, b.mirrored(t, threads)), y, t) })
		}), "barrier", []string{"`s[tx] = x[tx]`", "`y[tx] = s[-tx + 63]`", "two sides"}},
		{"copies on two sides", simple(func(b *kernel, t scalar.ID, x, y, s kir.BufferID) {
			b.If(b.T.Lt(t, b.n(40)), func() { b.Add(kir.AsyncCopy{Dst: b.At(s, t), Src: b.At(x, t), Guard: scalar.None}) },
				func() { b.Store(b.Load(s, b.mirrored(t, threads)), y, t) })
		}), "wait", []string{"`async s[tx] = x[tx]`", "two sides"}},
		{"in a loop that threads leave at different times", simple(func(b *kernel, t scalar.ID, x, y, s kir.BufferID) {
			b.For("i", b.n(0), t, b.n(1), kir.UnrollNone, func(i scalar.ID) {
				b.Store(b.Load(s, b.T.Mod(b.T.Add(t, i), b.n(threads))), y, t)
				b.Store(b.Load(x, t), s, t)
			})
		}), "barrier", []string{"`y[tx] = s[(tx + i) % 64]`", "`s[tx] = x[tx]`"}},
		{"in a loop over different indices", simple(func(b *kernel, t scalar.ID, x, y, s kir.BufferID) {
			b.For("i", t, b.T.Add(t, b.n(2)), b.n(1), kir.UnrollNone, func(i scalar.ID) {
				b.If(b.T.Lt(i, b.n(threads)), func() { b.Store(b.Load(x, i), s, i) }, nil)
			})
		}), "barrier", []string{"`s[i] = x[i]`"}},
		{"in one statement", simple(func(b *kernel, t scalar.ID, x, y, s kir.BufferID) {
			b.Store(b.Load(x, t), s, t)
			b.Store(b.Op(core.AddOp, b.Load(s, t), b.Load(s, b.mirrored(t, threads))), s, t)
		}), "statement", []string{"`s[tx] = add(s[tx], s[-tx + 63])`", "other threads write"}},
		{"across blocks under a condition of blocks", func() *kir.Kernel {
			b := newKernel("refused")
			t, block := b.Thread(0, threads), b.BlockIndex(0, b.n(4))
			y := b.output("y", nil, 4, threads)
			work, _ := b.work("work", 4, threads)
			b.If(b.T.Lt(block, b.n(3)), func() {
				b.Store(b.float(1), work, block, t)
				b.Store(b.Load(work, b.T.Mod(b.T.Add(block, b.n(1)), b.n(3)), t), y, block, t)
			}, nil)
			return b.Kernel()
		}, "grid barrier", []string{"`work[bx, tx] = 1`", "`y[bx, tx] = work[(bx + 1) % 3, tx]`", "all blocks"}},
		{"too much memory", simple(func(b *kernel, t scalar.ID, x, y, _ kir.BufferID) {
			s := b.tile("large", dtype.Float, 60000)
			b.Store(b.Load(x, t), s, t)
			b.Store(b.Load(s, t), y, t)
		}), "shared memory", []string{"240000 bytes", "232448", "large takes 60000 elements of 4 bytes"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := test.build()
			before := k.String()
			err := memory.Plan(k, memory.Options{})
			var refused *core.Unsupported
			require.True(t, errors.As(err, &refused), "%v\n%v", err, k)
			require.Len(t, refused.Refusals, 1)
			require.Equal(t, test.rule, refused.Refusals[0].Rule)
			for _, text := range test.text {
				require.Contains(t, err.Error(), text)
			}
			require.Equal(t, before, k.String(), "it is as it was")
		})
	}
}

func TestPlanIsDeterministic(t *testing.T) {
	for name, build := range kernels {
		var want string
		for i := range 3 {
			l := build()
			require.NoError(t, memory.Plan(l.k, memory.Options{}))
			if got := l.k.String(); i == 0 {
				want = got
			} else {
				require.Equal(t, want, got, name)
			}
		}
	}
}

// TestGivenBarriersCount plans a kernel that has been planned: nothing is added.
func TestGivenBarriersCount(t *testing.T) {
	for name, build := range kernels {
		l := build()
		require.NoError(t, memory.Plan(l.k, memory.Options{}))
		before := l.k.String()
		require.NoError(t, memory.Plan(l.k, memory.Options{}))
		require.Equal(t, before, l.k.String(), name)
	}
}
