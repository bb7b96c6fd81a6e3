package sim_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

func one(b *kir.Builder) kir.ValueID { return b.Float(dtype.Float, 1) }

func pair(b *kir.Builder) (first, second kir.BufferID) {
	return b.Shared("a", dtype.Float, 0, b.T.Int(64)), b.Shared("b", dtype.Float, 0, b.T.Int(64))
}

func mirror(b *kir.Builder, t scalar.ID) scalar.ID { return b.T.Sub(b.T.Int(63), t) }

// copyZeros copies zeros to a[t], without a wait.
func copyZeros(b *kir.Builder, a kir.BufferID, t scalar.ID, from kir.BufferID) {
	b.Add(kir.AsyncCopy{Dst: b.At(a, t), Src: b.At(from, t), Guard: b.T.Lt(t, b.T.Int(0))})
	b.Add(kir.AsyncCommit{})
}

// outlive declares buffer b where a copy of zeros to buffer a is under way, and waits for it.
func outlive(b *kir.Builder, t scalar.ID, from kir.BufferID) (first, second kir.BufferID) {
	first, second = pair(b)
	b.Kernel().Body[1] = kir.Fence{Scope: kir.BlockScope}
	copyZeros(b, first, t, from)
	b.Add(kir.Declare{Buffer: second})
	b.Add(kir.AsyncWait{})
	b.Add(block())
	return first, second
}

// ofGroups has two groups of threads along z, of which each thread reads what one of the group
// from(z) has written before a barrier of groups, and each group writes its own again.
func ofGroups(b *kir.Builder, t scalar.ID, y kir.BufferID, from func(z scalar.ID) scalar.ID) {
	z := b.Thread(2, 2)
	a, r := b.Shared("a", dtype.Float, 0, b.T.Int(2), b.T.Int(64)), b.Local("r", dtype.Float)
	b.Store(one(b), a, z, t)
	b.Add(kir.Barrier{Scope: kir.GroupScope})
	b.Store(b.Load(a, from(z), mirror(b, t)), r)
	b.Add(kir.Barrier{Scope: kir.GroupScope})
	b.Store(b.Load(r), a, z, t)
	b.If(b.T.Eq(z, b.T.Int(0)), func() { b.Store(b.Load(r), y, t) }, nil)
}

// mistakes are the smallest kernels for what mutations do not break. Each has a
// block of 64 threads, t, and an output y of 64 elements.
var mistakes = []struct {
	name string
	body func(b *kir.Builder, t scalar.ID, y kir.BufferID)
	want []sim.Kind
	text string // part of the first finding
}{
	{"same value by all threads", func(b *kir.Builder, _ scalar.ID, y kir.BufferID) {
		b.Store(one(b), y, b.T.Int(3))
	}, []sim.Kind{sim.Duplicate}, "duplicate write: y[3] by block 0 thread 1 at s0 `y[3] = 1` and by block 0 thread 0 at s0 `y[3] = 1` (63 times)"},
	{"same value by all threads, as intended", func(b *kir.Builder, _ scalar.ID, y kir.BufferID) {
		b.Add(kir.Assign{Dst: b.At(y, b.T.Int(3)), Value: one(b), Redundant: true})
	}, nil, ""},
	{"several values, said to be redundant", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		b.Add(kir.Assign{Dst: b.At(y, b.T.Int(3)), Value: b.Index(dtype.Float, b.T.FloorDiv(t, b.T.Int(63))), Redundant: true})
	}, []sim.Kind{sim.Race}, "y[3] by block 0 thread 63"},
	{"shared memory reused without a barrier", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		first, second := pair(b)
		b.Kernel().Body[1] = kir.Fence{Scope: kir.BlockScope} // declared below
		b.Store(one(b), first, t)
		b.Add(block())
		b.Store(b.Load(first, mirror(b, t)), y, t)
		b.Add(kir.Declare{Buffer: second})
		b.Store(one(b), second, t)
	}, []sim.Kind{sim.Reuse}, "reuse: b[0] by block 0 thread 0 at s6"},
	{"shared memory reused after a barrier", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		first, second := pair(b)
		b.Kernel().Body[1] = kir.Fence{Scope: kir.BlockScope}
		b.Store(one(b), first, t)
		b.Add(block())
		b.Store(b.Load(first, mirror(b, t)), y, t)
		b.Add(block())
		b.Add(kir.Declare{Buffer: second})
		b.Store(one(b), second, t)
	}, nil, ""},
	{"shared memory read after its bytes belong to another", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		first, second := pair(b)
		b.Store(one(b), first, t)
		b.Add(block())
		b.Store(one(b), second, t)
		b.Add(block())
		b.Store(b.Load(first, t), y, t)
	}, []sim.Kind{sim.StaleOwner}, "stale owner: a[0] by block 0 thread 0 at s6"},
	{"shared memory read after its bytes are declared to be another", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		first, second := pair(b)
		b.Kernel().Body[1] = kir.Fence{Scope: kir.BlockScope}
		b.Store(one(b), first, t)
		b.Add(kir.Declare{Buffer: second})
		b.Store(b.Load(first, t), y, t)
	}, []sim.Kind{sim.StaleOwner}, ""},
	{"shared memory read in a later life", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		b.Repeat("i", 2, kir.UnrollNone, func(i scalar.ID) {
			a := b.Shared("a", dtype.Float, 0, b.T.Int(64))
			b.If(b.T.Eq(i, b.T.Int(0)), func() { b.Store(one(b), a, t) }, nil)
			b.Store(b.Load(a, t), y, t)
		})
	}, []sim.Kind{sim.Uninitialised}, ""},
	// A pipeline copies past its last tile, here zeros.
	{"an element that a copy from before the declaration landed on, not used", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		_, second := outlive(b, t, y)
		b.If(b.T.Lt(t, b.T.Int(9)), func() { b.Store(one(b), second, t) }, nil)
		r := b.Local("r", dtype.Float)
		b.Store(b.Load(second, t), r)
		b.If(b.T.Lt(t, b.T.Int(9)), func() { b.Store(b.Load(r), y, t) }, nil)
	}, nil, ""},
	{"an element that a copy from before the declaration landed on", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		_, second := outlive(b, t, y)
		b.Store(b.Load(second, t), y, t)
	}, []sim.Kind{sim.Uninitialised}, "(64 times)"},
	{"the target of a copy that lands when its bytes are declared to be another", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		first, _ := outlive(b, t, y)
		b.Store(b.Load(first, t), y, t)
	}, []sim.Kind{sim.StaleOwner}, ""},
	{"a copy that lands in the next life of its target", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		b.Repeat("i", 2, kir.UnrollNone, func(i scalar.ID) {
			a := b.Shared("a", dtype.Float, 0, b.T.Int(64))
			b.If(b.T.Eq(i, b.T.Int(1)), func() { b.Add(kir.AsyncWait{}); b.Store(b.Load(a, t), y, t) }, nil)
			b.If(b.T.Eq(i, b.T.Int(0)), func() { copyZeros(b, a, t, y) }, nil)
		})
	}, []sim.Kind{sim.Uninitialised}, ""},
	{"vectors that go on in the next row", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		a, r := b.Shared("a", dtype.Float, 0, b.T.Int(3), b.T.Int(3), b.T.Int(3)), b.Local("r", dtype.Float, 2)
		b.Store(one(b), r, b.T.Int(0))
		b.Store(one(b), r, b.T.Int(1))
		b.If(b.T.Lt(t, b.T.Int(13)), func() {
			e := b.T.Mul(t, b.T.Int(2))
			row := b.T.FloorDiv(e, b.T.Int(3))
			b.Add(kir.Move{Dst: b.Vector(2, a, b.T.FloorDiv(row, b.T.Int(3)), b.T.Mod(row, b.T.Int(3)), b.T.Mod(e, b.T.Int(3))),
				Src: b.Vector(2, r, b.T.Int(0))})
		}, nil)
	}, nil, ""},
	{"a vector beyond the last row", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		a, r := b.Shared("a", dtype.Float, 0, b.T.Int(3), b.T.Int(3), b.T.Int(3)), b.Local("r", dtype.Float, 2)
		b.Kernel().Buffers[a].Size = b.T.Int(28)
		b.Kernel().Launch.Shared = b.T.Int(128)
		b.Store(one(b), r, b.T.Int(0))
		b.Store(one(b), r, b.T.Int(1))
		two := b.T.Int(2)
		b.If(b.T.Eq(t, b.T.Int(0)), func() {
			b.Add(kir.Move{Dst: b.Vector(2, a, two, two, two), Src: b.Vector(2, r, b.T.Int(0))})
		}, nil)
	}, []sim.Kind{sim.OutOfBounds}, "end outside the shape"},
	{"a vector into the padding of a row", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		a, r := b.Shared("a", dtype.Float, 0, b.T.Int(3), b.T.Int(4)), b.Local("r", dtype.Float, 2)
		b.Kernel().Buffers[a].Shape[1] = b.T.Int(3)
		b.Store(one(b), r, b.T.Int(0))
		b.Store(one(b), r, b.T.Int(1))
		b.If(b.T.Eq(t, b.T.Int(0)), func() {
			b.Add(kir.Move{Dst: b.Vector(2, a, b.T.Int(1), b.T.Int(2)), Src: b.Vector(2, r, b.T.Int(0))})
		}, nil)
	}, []sim.Kind{sim.OutOfBounds}, "end outside the shape"},
	{"an undefined value, written and read again", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		b.Store(b.Load(b.Local("r", dtype.Float)), y, t)
		b.Store(b.Load(y, t), y, t)
	}, []sim.Kind{sim.Uninitialised}, "at s1 `y[tx] = r`: the value written depends on memory that nothing wrote (64 times)"},
	{"an undefined value, added", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		b.Store(one(b), y, t)
		b.Add(kir.AtomicAdd{Dst: b.At(y, t), Value: b.Load(b.Local("r", dtype.Float)), Old: kir.NoSymbol})
	}, []sim.Kind{sim.Uninitialised}, "the value added"},
	{"more threads than the facts say", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		b.Kernel().Launch.Block[0] = b.T.Int(65)
		b.If(b.T.Lt(t, b.T.Int(9)), func() { b.Store(one(b), y, t) }, nil)
	}, []sim.Kind{sim.WrongFacts}, "tx is 64"},
	{"more blocks than the facts say", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		block := b.BlockIndex(0, b.T.Int(2))
		b.Kernel().Launch.Grid[0] = b.T.Int(3)
		b.If(b.T.Lt(b.T.Add(block, t), b.T.Int(1)), func() { b.Store(one(b), y, t) }, nil)
	}, []sim.Kind{sim.WrongFacts}, "bx is 2"},
	{"a loop longer than the facts say", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		b.Repeat("i", 4, kir.UnrollNone, func(i scalar.ID) { b.Store(one(b), y, t) })
		b.Kernel().Body[0].(*kir.For).Stop = b.T.Int(5)
	}, []sim.Kind{sim.WrongFacts}, "at s0 `for i in [0, 5) step 1 rolled`: i is 4, which is not a multiple of 1 in [0, 3]"},
	{"a longer loop than the facts say for some threads", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		b.Repeat("i", 4, kir.UnrollNone, func(i scalar.ID) { b.Store(one(b), y, t) })
		b.Kernel().Body[0].(*kir.For).Stop = t
	}, []sim.Kind{sim.WrongFacts}, "i is 4"},
	{"a loop of undefined length", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		k := b.Let("k", b.Load(b.Local("r", dtype.Int32)), scalar.Unknown())
		b.For("i", b.T.Int(0), k, b.T.Int(1), kir.UnrollNone, func(i scalar.ID) { b.Store(one(b), y, t) })
	}, []sim.Kind{sim.Uninitialised}, "a bound of the loop"},
	{"a loop without a step", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		b.For("i", b.T.Int(0), b.T.Int(4), b.T.Int(0), kir.UnrollNone, func(i scalar.ID) { b.Store(one(b), y, t) })
	}, []sim.Kind{sim.Deadlock}, "the step of the loop is 0"},
	{"a warp barrier for one half after a condition for the other", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		b.If(b.T.Lt(b.T.Mod(t, b.T.Int(32)), b.T.Int(16)), func() { b.Store(one(b), y, t) }, nil)
		b.If(b.T.Lt(b.T.Int(15), b.T.Mod(t, b.T.Int(32))), func() { b.Add(kir.Barrier{Scope: kir.WarpScope}) }, nil)
	}, []sim.Kind{sim.DivergentBarrier}, ""},
	{"an index beyond 32 bits", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		k := b.Let("k", b.Index(dtype.Int, b.T.Mul(t, b.T.Int(1<<20))), scalar.Range(0, 1<<26))
		b.Store(one(b), y, b.T.Min(b.T.Mul(k, k), b.T.Int(63)))
	}, []sim.Kind{sim.Overflow}, "by block 0 thread 1 at"},
	{"a loop index beyond 32 bits", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		b.For("i", b.T.Int(1<<30), b.T.Int(1<<31-1), b.T.Int(1<<30), kir.UnrollNone, func(i scalar.ID) { b.Store(one(b), y, t) })
	}, []sim.Kind{sim.Overflow}, "the loop index"},
	{"an index divided by zero", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		b.Store(one(b), y, b.T.Mod(b.T.Int(64), b.T.Add(t, b.T.Int(-5))))
	}, []sim.Kind{sim.OutOfBounds, sim.Duplicate, sim.DivisionByZero}, ""},
	{"a division by zero that is not chosen", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		d := b.T.Sub(t, b.T.Int(5))
		b.If(b.T.And(b.T.Lt(b.T.Int(0), d), b.T.Lt(b.T.Mod(b.T.Int(64), d), b.T.Int(9))), func() { b.Store(one(b), y, t) }, nil)
	}, nil, ""},
	{"a warp barrier between lanes", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		a := b.Shared("a", dtype.Float, 0, b.T.Int(64))
		swapped := b.T.Add(b.T.Sub(t, b.T.Mul(b.T.Mod(t, b.T.Int(2)), b.T.Int(2))), b.T.Int(1))
		b.Store(one(b), a, t)
		b.Add(kir.Barrier{Scope: kir.WarpScope})
		b.Store(b.Load(a, swapped), y, t)
		b.Add(kir.Barrier{Scope: kir.WarpScope})
		b.Store(one(b), a, t)
	}, nil, ""},
	{"no warp barrier between lanes", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		a := b.Shared("a", dtype.Float, 0, b.T.Int(64))
		swapped := b.T.Add(b.T.Sub(t, b.T.Mul(b.T.Mod(t, b.T.Int(2)), b.T.Int(2))), b.T.Int(1))
		b.Store(one(b), a, t)
		b.Store(b.Load(a, swapped), y, t)
	}, []sim.Kind{sim.Race}, "race: a[1] by block 0 thread 0"},
	{"a shuffle orders nothing", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		a, r := b.Shared("a", dtype.Float, 0, b.T.Int(64)), b.Local("r", dtype.Float)
		b.Store(one(b), a, t)
		b.Store(b.Shuffle(kir.ShuffleXor, one(b), 1, 32), r)
		b.Store(b.Op(core.AddOp, b.Load(r), b.Load(a, mirror(b, t))), y, t)
	}, []sim.Kind{sim.Race}, ""},
	{"a fence orders no lanes", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		a := b.Shared("a", dtype.Float, 0, b.T.Int(64))
		b.Store(b.Load(a, b.T.Int(0)), y, t)
		b.Add(kir.Fence{Scope: kir.GridScope})
		b.If(b.T.Eq(t, b.T.Int(5)), func() { b.Store(one(b), a, b.T.Int(0)) }, nil)
	}, []sim.Kind{sim.Race, sim.Uninitialised}, ""},
	{"the first of several readers writes", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		a, zero := b.Shared("a", dtype.Float, 0, b.T.Int(2)), b.T.Int(0)
		warp := b.T.FloorDiv(t, b.T.Int(32))
		b.If(b.T.Eq(b.T.Mod(t, b.T.Int(32)), zero), func() { b.Store(one(b), a, warp) }, nil)
		b.Add(block())
		b.Store(b.Load(a, warp), y, t)
		b.If(b.T.Eq(b.T.Mod(t, b.T.Int(32)), zero), func() { b.Store(one(b), a, warp) }, nil)
	}, []sim.Kind{sim.Race}, "and by block 0 thread 31 at"},
	{"a plain write after the atomics of others", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		a, zero := b.Shared("a", dtype.Float, 0, b.T.Int(1)), b.T.Int(0)
		b.If(b.T.Eq(t, zero), func() { b.Store(one(b), a, zero) }, nil)
		b.Add(block())
		b.Add(kir.AtomicAdd{Dst: b.At(a, zero), Value: one(b), Old: kir.NoSymbol})
		b.If(b.T.Eq(t, b.T.Int(5)), func() { b.Store(one(b), a, zero) }, nil)
	}, []sim.Kind{sim.Race}, "by block 0 thread 5 at"},
	{"a reader before a fence, another after it, then a write by the second", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		a, zero := b.Shared("a", dtype.Float, 0, b.T.Int(1)), b.T.Int(0)
		only := func(lane int64, body func()) { b.If(b.T.Eq(t, b.T.Int(lane)), body, nil) }
		only(3, func() { b.Store(one(b), a, zero) })
		b.Add(block())
		only(3, func() { b.Store(b.Load(a, zero), y, zero) })
		b.Add(kir.Fence{Scope: kir.GridScope})
		only(4, func() { b.Store(b.Load(a, zero), y, b.T.Int(1)) })
		b.Add(kir.Fence{Scope: kir.GridScope})
		only(4, func() { b.Store(one(b), a, zero) })
	}, []sim.Kind{sim.Race}, "by block 0 thread 3 at"},
	{"a reader before a fence, another after it, then a write by the first", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		a, zero := b.Shared("a", dtype.Float, 0, b.T.Int(1)), b.T.Int(0)
		only := func(lane int64, body func()) { b.If(b.T.Eq(t, b.T.Int(lane)), body, nil) }
		only(3, func() { b.Store(one(b), a, zero) })
		b.Add(block())
		only(3, func() { b.Store(b.Load(a, zero), y, zero) })
		b.Add(kir.Fence{Scope: kir.GridScope})
		only(4, func() { b.Store(b.Load(a, zero), y, b.T.Int(1)) })
		only(3, func() { b.Store(one(b), a, zero) })
	}, []sim.Kind{sim.Race}, "by block 0 thread 4 at"},
	{"a 64-bit position in a kernel of 32-bit indices", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		k := b.Let("k", b.Op(core.AddOp, b.Index(dtype.Int, t), b.Number(dtype.Int, 1<<32)), scalar.Unknown())
		b.If(b.T.And(b.T.Le(b.T.Int(0), k), b.T.Lt(k, b.T.Int(64))), func() { b.Store(one(b), y, k) }, nil)
	}, []sim.Kind{sim.Overflow}, "the condition overflows"},
	{"readers in two warps, then a write in the second", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		a, zero := b.Shared("a", dtype.Float, 0, b.T.Int(1)), b.T.Int(0)
		only := func(lane int64, body func()) { b.If(b.T.Eq(t, b.T.Int(lane)), body, nil) }
		only(40, func() { b.Store(one(b), a, zero) })
		b.Add(block())
		b.If(b.T.Eq(b.T.Mod(t, b.T.Int(32)), b.T.Int(8)), func() { b.Store(b.Load(a, zero), y, t) }, nil)
		only(40, func() { b.Store(one(b), a, zero) })
	}, []sim.Kind{sim.Race}, ""},
	{"a reader in another warp before the barrier", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		a, zero := b.Shared("a", dtype.Float, 0, b.T.Int(1)), b.T.Int(0)
		only := func(lane int64, body func()) { b.If(b.T.Eq(t, b.T.Int(lane)), body, nil) }
		only(40, func() { b.Store(one(b), a, zero) })
		b.Add(block())
		only(7, func() { b.Store(b.Load(a, zero), y, zero) })
		b.Add(block())
		only(40, func() { b.Store(b.Load(a, zero), y, b.T.Int(1)) })
		only(40, func() { b.Store(one(b), a, zero) })
	}, nil, ""},
	{"lanes of a warp that are not there", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		b.Kernel().Launch.Block[0] = b.T.Int(48)
		b.Store(b.Shuffle(kir.ShuffleXor, one(b), 16, 32), y, t)
	}, []sim.Kind{sim.InactiveLane}, "lane 16"},
	{"the maximum of lanes that are not there", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		b.Kernel().Launch.Block[0] = b.T.Int(48)
		b.Store(b.WarpMaximum(one(b)), y, t)
	}, []sim.Kind{sim.InactiveLane}, "the maximum of 32 lanes is taken, and 16 are there"},
	{"the maximum of what is not there", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		a := b.Shared("a", dtype.Float, 0, b.T.Int(64))
		b.If(b.T.Lt(b.T.Int(0), t), func() { b.Store(one(b), a, t) }, nil)
		b.Add(block())
		b.Store(b.WarpMaximum(b.Load(a, t)), y, t)
	}, []sim.Kind{sim.Uninitialised}, ""},
	{"shuffles within groups", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		v := b.Index(dtype.Float, t)
		down := b.Shuffle(kir.ShuffleDown, v, 3, 8)
		at := b.ShuffleAt(v, b.T.Int(5), 16)
		b.Store(b.Op(core.AddOp, down, at), y, t)
	}, nil, ""},
	{"an atomic among plain accesses", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		a := b.Shared("a", dtype.Float, 0, b.T.Int(1))
		b.If(b.T.Eq(t, b.T.Int(0)), func() { b.Store(one(b), a, b.T.Int(0)) }, nil)
		b.Add(kir.AtomicAdd{Dst: b.At(a, b.T.Int(0)), Value: one(b), Old: kir.NoSymbol})
	}, []sim.Kind{sim.Race}, ""},
	{"atomics on what nothing wrote", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		a := b.Shared("a", dtype.Float, 0, b.T.Int(1))
		b.Add(kir.AtomicAdd{Dst: b.At(a, b.T.Int(0)), Value: one(b), Old: kir.NoSymbol})
	}, []sim.Kind{sim.Uninitialised}, "the element added to"},
	{"a loop that is longer for some threads", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		b.For("i", t, b.T.Add(b.T.Mul(t, b.T.Int(2)), b.T.Int(1)), b.T.Int(64), kir.UnrollNone, func(i scalar.ID) { b.Store(one(b), y, i) })
	}, nil, ""},
	{"a barrier in a loop that is longer for some threads", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		b.For("i", b.T.Int(0), b.T.FloorDiv(b.T.Add(t, b.T.Int(4)), b.T.Int(4)), b.T.Int(1), kir.UnrollNone, func(scalar.ID) { b.Add(block()) })
	}, []sim.Kind{sim.DivergentBarrier}, "60 of 64 threads reach it"},
	{"what another thread of the group has, after a barrier of groups", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		ofGroups(b, t, y, func(z scalar.ID) scalar.ID { return z })
	}, nil, ""},
	{"what another group has, after a barrier of groups", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		ofGroups(b, t, y, func(z scalar.ID) scalar.ID { return b.T.Sub(b.T.Int(1), z) })
	}, []sim.Kind{sim.Race}, ""},
	{"what another group has read before a barrier of groups, written", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		z := b.Thread(2, 2)
		a := b.Shared("a", dtype.Float, 0, b.T.Int(2), b.T.Int(64))
		b.Store(one(b), a, z, t)
		b.Add(block())
		r := b.Local("r", dtype.Float)
		b.Store(b.Load(a, z, mirror(b, t)), r)
		b.Add(kir.Barrier{Scope: kir.GroupScope})
		b.Store(b.Load(r), a, b.T.Sub(b.T.Int(1), z), t)
	}, []sim.Kind{sim.Race}, ""},
	{"a condition on undefined memory", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		k := b.Let("k", b.Load(b.Local("r", dtype.Bool)), scalar.Facts{})
		b.If(k, func() { b.Store(one(b), y, t) }, nil)
	}, []sim.Kind{sim.Uninitialised}, "the condition depends on memory"},
	{"undefined memory that is not chosen", func(b *kir.Builder, t scalar.ID, y kir.BufferID) {
		r := b.Local("r", dtype.Float)
		b.If(b.T.Lt(t, b.T.Int(9)), func() { b.Store(one(b), r) }, nil)
		b.Store(b.Op(core.WhereOp, b.Index(dtype.Bool, b.T.Lt(t, b.T.Int(9))), b.Load(r), one(b)), y, t)
	}, nil, ""},
}

func TestFindings(t *testing.T) {
	for _, test := range mistakes {
		t.Run(test.name, func(t *testing.T) {
			b := kir.NewBuilder("finding", dtype.Int32)
			y := b.Global("y", dtype.Float, b.T.Int(64))
			test.body(b, b.Thread(0, 64), y)
			report, err := sim.Run(b.Kernel(), []sim.Argument{pointer(room(256))}, sim.Options{})
			require.NoError(t, err)
			require.ElementsMatch(t, test.want, kinds(report), "%v", report.Err())
			if test.text != "" {
				require.ErrorContains(t, report.Err(), test.text)
			}
		})
	}
}

// TestWideArgument: an argument that the kernel's index type does not hold.
func TestWideArgument(t *testing.T) {
	b := kir.NewBuilder("wide", dtype.Int32)
	n, y := b.Integer("n", scalar.Range(0, 1<<40)), b.Global("y", dtype.Float, b.T.Int(32))
	b.If(b.T.Lt(b.Thread(0, 32), n), func() { b.Store(b.Float(dtype.Float, 1), y, b.Thread(0, 32)) }, nil)
	for size, want := range map[int64][]sim.Kind{20: nil, 1<<32 + 20: {sim.Overflow}} {
		report, err := sim.Run(b.Kernel(), []sim.Argument{integer(size), pointer(room(128))}, sim.Options{})
		require.NoError(t, err)
		require.Equal(t, want, kinds(report))
	}
}

// TestIllegalAccesses: a load that is reported gives 0, and the threads with
// legal accesses have theirs.
func TestIllegalAccesses(t *testing.T) {
	b := kir.NewBuilder("illegal", dtype.Int32)
	x, y := b.Input("x", dtype.Float, b.T.Int(60)), b.Global("y", dtype.Float, b.T.Int(64))
	t0 := b.Thread(0, 64)
	r := b.Local("r", dtype.Float, 2)
	b.Store(b.Op(core.AddOp, b.Load(x, t0), b.Float(dtype.Float, 5)), y, t0)
	b.Add(kir.Move{Dst: b.At(r, b.T.Int(0)), Src: b.At(x, t0)})
	// Threads from 4 to 11 alone have a target, those above 59 no source.
	b.Store(b.Float(dtype.Float, 9), r, b.T.Int(0))
	b.Add(kir.Move{Dst: b.At(r, b.T.Sub(b.T.FloorDiv(t0, b.T.Int(4)), b.T.Int(1))), Src: b.At(x, t0)})
	b.If(b.T.And(b.T.Le(b.T.Int(4), t0), b.T.Lt(t0, b.T.Int(8))), func() { b.Store(b.Load(r, b.T.Int(0)), y, t0) }, nil)
	report, err := sim.Run(b.Kernel(), []sim.Argument{pointer(counted(60, sample)), pointer(room(256))}, sim.Options{})
	require.NoError(t, err)
	require.Equal(t, []sim.Kind{sim.OutOfBounds}, kinds(report))
	require.Len(t, report.Findings, 3) // one a statement

	out := room(256)
	_, err = sim.Run(b.Kernel(), []sim.Argument{pointer(counted(60, sample)), pointer(out)}, sim.Options{})
	require.NoError(t, err)
	holds(out, func(i int) float32 {
		switch {
		case 4 <= i && i < 8:
			return sample(i)
		case i < 60:
			return sample(i) + 5
		}
		return 5
	})(t)
}

// TestWriteUnderSource: the source of an asynchronous copy may not change
// before its wait, not even by the thread that copies.
func TestWriteUnderSource(t *testing.T) {
	b := kir.NewBuilder("source", dtype.Int32)
	x := b.Global("x", dtype.Float, b.T.Int(32))
	t0 := b.Thread(0, 32)
	s := b.Shared("s", dtype.Float, 0, b.T.Int(32))
	b.Add(kir.AsyncCopy{Dst: b.At(s, t0), Src: b.At(x, t0), Guard: scalar.None})
	b.Add(kir.AsyncCommit{})
	b.Store(b.Float(dtype.Float, 1), x, t0)
	b.Add(kir.AsyncWait{})
	require.NoError(t, b.Kernel().Verify())
	report, err := sim.Run(b.Kernel(), []sim.Argument{pointer(counted(32, sample))}, sim.Options{})
	require.NoError(t, err)
	require.Equal(t, []sim.Kind{sim.AsyncReuse}, kinds(report))
}

// TestReadByBlocks: every block reads the elements of x, then one block writes
// one. Only a grid barrier or a ticket orders that.
func TestReadByBlocks(t *testing.T) {
	const threads, blocks = 64, 4
	build := func(between string) *kir.Kernel {
		scope := kir.BlockScope
		threads := int64(threads)
		if between == "ticket of warps" { // no other warp reads
			scope, threads = kir.WarpScope, 32
		}
		b := kir.NewBuilder("readers", dtype.Int32)
		x, y := b.Global("x", dtype.Float, b.T.Int(2)), b.Global("y", dtype.Float, b.T.Int(threads*blocks))
		word, counter := b.Global("word", dtype.Int, b.T.Int(1)), b.Global("counter", dtype.Int32, b.T.Int(1))
		b.Kernel().Buffers[word].Zeroed = true
		t0, block, zero := b.Thread(0, threads), b.BlockIndex(0, b.T.Int(blocks)), b.T.Int(0)
		// Both warps read x[0], and the second alone x[1].
		b.Store(b.Op(core.AddOp, b.Load(x, zero), b.Load(x, b.T.FloorDiv(t0, b.T.Int(32)))), y, b.T.Add(b.T.Mul(block, b.T.Int(threads)), t0))
		writes := func() {
			b.Store(b.Float(dtype.Float, 1), x, zero)
			if between != "ticket without barrier" { // of what several warps read, too
				b.Store(b.Float(dtype.Float, 1), x, b.T.Int(1))
			}
		}
		first := b.T.And(b.T.Eq(block, zero), b.T.Eq(t0, zero))
		switch between {
		case "nothing":
			b.If(first, writes, nil)
		case "grid barrier":
			b.Kernel().Launch.Cooperative = true
			b.Add(kir.Barrier{Scope: kir.GridScope, Semaphore: b.At(word, zero)})
			b.If(first, writes, nil)
		default: // a ticket, perhaps without what publishes the reads
			if between != "ticket without barrier" {
				b.Add(kir.Barrier{Scope: scope})
			}
			b.If(b.T.Eq(t0, zero), func() {
				if between != "ticket without fence" {
					b.Add(kir.Fence{Scope: kir.GridScope})
				}
				old := b.AtomicAdd("old", b.Number(dtype.Int32, 1), b.At(counter, zero))
				b.Add(kir.Fence{Scope: kir.GridScope})
				b.If(b.T.Eq(old, b.T.Int(blocks-1)), writes, nil)
			}, nil)
		}
		return b.Kernel()
	}
	for between, want := range map[string][]sim.Kind{"nothing": {sim.Race}, "grid barrier": nil, "ticket": nil, "ticket of warps": nil,
		"ticket without barrier": {sim.Race}, "ticket without fence": {sim.Race}} {
		for _, options := range []sim.Options{{}, {Order: sim.Reverse}, {Order: sim.Random, Seed: 1}, {Order: sim.Random, Seed: 2}} {
			k := build(between)
			require.NoError(t, k.Verify())
			report, err := sim.Run(k, []sim.Argument{pointer(floats(2, 3)), pointer(room(4 * threads * blocks)), pointer(zeros(8)), pointer(zeros(4))}, options)
			require.NoError(t, err)
			require.Equal(t, want, kinds(report), "%s: %v", between, report.Err())
		}
	}
}

// TestTicketOfOneThread: a thread that publishes and reads by itself needs no
// barrier.
func TestTicketOfOneThread(t *testing.T) {
	for _, fences := range []int{2, 1, 0} {
		b := kir.NewBuilder("alone", dtype.Int32)
		const blocks = 3
		work, y := b.Global("work", dtype.Float, b.T.Int(blocks)), b.Global("y", dtype.Float, b.T.Int(1))
		counter := b.Global("counter", dtype.Int32, b.T.Int(1))
		block, zero := b.BlockIndex(0, b.T.Int(blocks)), b.T.Int(0)
		b.If(b.T.Eq(b.Thread(0, 64), zero), func() {
			b.Store(b.Float(dtype.Float, 1), work, block)
			if fences > 0 {
				b.Add(kir.Fence{Scope: kir.GridScope})
			}
			old := b.AtomicAdd("old", b.Number(dtype.Int32, 1), b.At(counter, zero))
			if fences > 1 {
				b.Add(kir.Fence{Scope: kir.GridScope})
			}
			b.If(b.T.Eq(old, b.T.Int(blocks-1)), func() {
				b.Store(b.Op(core.AddOp, b.Load(work, zero), b.Load(work, b.T.Int(blocks-1))), y, zero)
			}, nil)
		}, nil)
		require.NoError(t, b.Kernel().Verify())
		report, err := sim.Run(b.Kernel(), []sim.Argument{pointer(room(4 * blocks)), pointer(room(4)), pointer(zeros(4))}, sim.Options{})
		require.NoError(t, err)
		if fences == 2 {
			require.NoError(t, report.Err())
		} else {
			require.Equal(t, []sim.Kind{sim.Race}, kinds(report))
		}
	}
}

// TestReleaseByOthers: a fence by each thread before the barrier is no release
// by the thread that does the atomic.
func TestReleaseByOthers(t *testing.T) {
	for _, test := range []struct {
		own   bool
		scope kir.Scope // of the barriers: a block is a warp
	}{{true, kir.BlockScope}, {true, kir.WarpScope}, {false, kir.BlockScope}, {false, kir.WarpScope}} {
		own, scope := test.own, test.scope
		b := kir.NewBuilder("release", dtype.Int32)
		const threads, blocks = 32, 2
		work, y := b.Global("work", dtype.Float, b.T.Int(blocks), b.T.Int(threads)), b.Global("y", dtype.Float, b.T.Int(threads))
		counter := b.Global("counter", dtype.Int32, b.T.Int(1))
		t0, block, zero := b.Thread(0, threads), b.BlockIndex(0, b.T.Int(blocks)), b.T.Int(0)
		flag := b.Shared("flag", dtype.Int32, 0, b.T.Int(1))
		fence := func(set bool) {
			if set {
				b.Add(kir.Fence{Scope: kir.GridScope})
			}
		}
		b.Store(b.Float(dtype.Float, 1), work, block, t0)
		fence(!own)
		b.Add(kir.Barrier{Scope: scope})
		b.If(b.T.Eq(t0, zero), func() {
			fence(own)
			b.Store(b.Index(dtype.Int32, b.AtomicAdd("old", b.Number(dtype.Int32, 1), b.At(counter, zero))), flag, zero)
			fence(true)
		}, nil)
		b.Add(kir.Barrier{Scope: scope})
		old := b.Let("last", b.Load(flag, zero), scalar.Range(0, 1))
		b.If(b.T.Eq(old, b.T.Int(1)), func() {
			b.Store(b.Op(core.AddOp, b.Load(work, zero, t0), b.Load(work, b.T.Int(1), t0)), y, t0)
		}, nil)
		require.NoError(t, b.Kernel().Verify())
		report, err := sim.Run(b.Kernel(), []sim.Argument{pointer(room(256)), pointer(room(128)), pointer(zeros(4))}, sim.Options{})
		require.NoError(t, err)
		if own {
			require.NoError(t, report.Err())
		} else {
			require.Equal(t, []sim.Kind{sim.Race}, kinds(report))
		}
	}
}

// TestCounters: a transpose through a tile without padding has 32-fold bank
// conflicts, and rows of 70 floats straddle sectors.
func TestCounters(t *testing.T) {
	run := func(l launch) sim.Counters {
		report, err := sim.Run(l.k, l.arguments, sim.Options{})
		require.NoError(t, err)
		return report.Counters
	}
	padded, plain := run(transpose(33)), run(transpose(32))
	require.EqualValues(t, 1, padded.BankConflicts)
	require.EqualValues(t, 32, plain.BankConflicts)
	require.Equal(t, padded.SharedRequests, plain.SharedRequests)
	require.Greater(t, plain.SharedWavefronts, 5*padded.SharedWavefronts)
	require.Equal(t, int64(4*40*70), padded.GlobalRead)
	require.Equal(t, int64(4*40*70), padded.GlobalWritten)

	stages := run(pipeline(drained...))
	require.Equal(t, int64(5*64*16), stages.GlobalRead, "guarded copies that write zeros read nothing")
	require.Equal(t, int64(2*(7+5*4+1+1)), stages.SharedRequests)     // copies, loads, and the epilogue
	require.Equal(t, int64(5*4+5*4+4+4), run(ticket()).GlobalWritten) // partial sums, atomics, the sum, the counter

	vectors := run(vectorised())
	require.Equal(t, sim.Counters{Statements: 128 * (1 + 1 + 1 + 4 + 1), WarpStatements: 4 * 8, GlobalRequests: 8, GlobalSectors: 8 * 16,
		GlobalRead: 2048, GlobalWritten: 2048}, vectors)
}

// TestReports: findings do not depend on anything but the arguments, stop at
// 20, and say where.
func TestReports(t *testing.T) {
	text := func(options sim.Options) string {
		l := pipeline()
		drop[kir.Barrier](0)(&l)
		report, err := sim.Run(l.k, l.arguments, options)
		require.NoError(t, err)
		return fmt.Sprint(report.Findings)
	}
	require.Equal(t, text(sim.Options{Order: sim.Random, Seed: 3}), text(sim.Options{Order: sim.Random, Seed: 3}))
	require.NotEqual(t, text(sim.Options{Order: sim.Reverse}), text(sim.Options{}))

	b := kir.NewBuilder("many", dtype.Int32)
	y := b.Global("y", dtype.Float, b.T.Int(1))
	b.Thread(0, 32)
	for range 30 {
		b.Store(b.Float(dtype.Float, 1), y, b.T.Int(7))
	}
	report, err := sim.Run(b.Kernel(), []sim.Argument{pointer(room(4))}, sim.Options{})
	require.NoError(t, err)
	require.True(t, report.Stopped)
	require.Len(t, report.Findings, 20)
	require.Equal(t, "out of bounds: y[7] by block 0 thread 0 at s0 `y[7] = 1`: coordinate 0 is 7 and the extent 1 (32 times)",
		report.Findings[0].String())
}

// TestArguments: what the host passes is checked before anything runs.
// TestAgain runs kernels on the counters and semaphores that they left.
func TestAgain(t *testing.T) {
	for _, made := range []func() launch{ticket, allreduce} {
		left := made()
		for range 3 {
			l := made()
			for i, a := range l.k.Arguments {
				if a.Kind == kir.Pointer && l.k.Buffers[a.Buffer].Zeroed {
					l.arguments[i] = left.arguments[i]
				}
			}
			report, err := sim.Run(l.k, l.arguments, sim.Options{Outputs: l.outputs})
			require.NoError(t, err)
			require.NoError(t, report.Err())
			l.check(t)
		}
	}
}

func TestArguments(t *testing.T) {
	b := kir.NewBuilder("arguments", dtype.Int32)
	n := b.Integer("n", scalar.Range(1, 100))
	x, y := b.Input("x", dtype.Float, n), b.Global("y", dtype.Float, n)
	z := b.Global("z", dtype.Int32, b.T.Int(1))
	b.Kernel().Buffers[z].Zeroed = true
	b.Store(b.Load(x, b.Thread(0, 32)), y, b.Thread(0, 32))
	ok := func() []sim.Argument {
		return []sim.Argument{integer(32), pointer(zeros(128)), pointer(room(128)), pointer(zeros(4))}
	}
	report, err := sim.Run(b.Kernel(), ok(), sim.Options{Outputs: []kir.BufferID{x, y}})
	require.NoError(t, err)
	require.NoError(t, report.Err())
	for _, test := range []struct {
		change  func(a []sim.Argument) []sim.Argument
		problem string
	}{
		{func(a []sim.Argument) []sim.Argument { return a[1:] }, "3 arguments for 4 parameters"},
		{func(a []sim.Argument) []sim.Argument { a[0] = integer(0); return a }, "argument n is 0, not a multiple of 1 between 1 and 100"},
		{func(a []sim.Argument) []sim.Argument { a[0] = a[1]; return a }, "argument n is given by the wrong kind of value"},
		{func(a []sim.Argument) []sim.Argument { a[1] = pointer(zeros(124)); return a }, "x has 124 bytes and needs 32 elements of Float"},
		{func(a []sim.Argument) []sim.Argument { a[2] = a[1]; return a }, "y is read-only, and its memory is that of an argument which is not"},
		{func(a []sim.Argument) []sim.Argument { a[3].Memory.Data[2] = 1; return a }, "z must be zero and is not"},
		{func(a []sim.Argument) []sim.Argument { a[3].Memory.Data[3] = 0x80; return a }, "z must be zero and is not"},
	} {
		_, err := sim.Run(b.Kernel(), test.change(ok()), sim.Options{})
		require.ErrorContains(t, err, strings.ReplaceAll(test.problem, "y is read-only, and", "is read-only, and"))
	}
}
