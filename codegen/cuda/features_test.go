package cuda_test

import (
	"encoding/binary"
	"math"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A feature is a kernel whose text is kept, with a launch of it and the values
// that its last arguments must then hold.
type feature struct {
	name      string
	note      string // what the text shows
	kernel    func() *kir.Kernel
	arguments func() []any
	outputs   map[int][]scalar.Value // by the number of the argument
	arch      int                    // 0: any
}

func counted(t dtype.Type, n int, f func(i int) float64) []scalar.Value {
	all := make([]scalar.Value, n)
	for i := range all {
		if t.IsFloat() {
			all[i] = scalar.Value{Type: t, Re: dtype.Round(t, f(i))}
		} else {
			all[i] = scalar.Value{Type: t, I: dtype.WrapInt(t, int64(f(i)))}
		}
	}
	return all
}

func memoryOf(values []scalar.Value) []byte {
	memory := make([]byte, len(values)*values[0].Type.Size())
	for i, v := range values {
		store(memory, i, v)
	}
	return memory
}

func room(t dtype.Type, n int) []byte { return make([]byte, n*t.Size()) }

func sample(i int) float64 { return float64(i%17) - 3 }

func sampleSum(from, to int) float64 {
	s := 0.0
	for i := from; i < to; i++ {
		s += sample(i)
	}
	return s
}

// vectors is y = x * sigmoid(x) of bfloat16, eight elements a thread.
func vectors() *kir.Kernel {
	b := kir.NewBuilder("vectors", dtype.Int32)
	n := b.Integer("n", scalar.Facts{Lo: 0, Hi: 1 << 30, Divisor: 8})
	x, y := b.Input("x", dtype.BFloat16, n), b.Global("y", dtype.BFloat16, n)
	for _, id := range []kir.BufferID{x, y} {
		b.Kernel().Buffers[id].Align = 16
	}
	i := b.T.Mul(b.T.Add(b.T.Mul(b.BlockIndex(0, b.T.CeilDiv(n, b.T.Int(1024))), b.T.Int(128)), b.Thread(0, 128)), b.T.Int(8))
	b.If(b.T.Lt(i, n), func() {
		in, out := b.Local("x", dtype.BFloat16, 8), b.Local("y", dtype.BFloat16, 8)
		b.Kernel().Buffers[in].Registers, b.Kernel().Buffers[out].Registers = true, true
		zero := b.T.Int(0)
		b.Add(kir.Move{Dst: b.Vector(8, in, zero), Src: b.Vector(8, x, i), Cache: kir.CacheStreaming})
		b.Repeat("i", 8, kir.UnrollFull, func(e scalar.ID) {
			b.Store(b.Cast(dtype.BFloat16, b.Op(core.SiluOp, b.Cast(dtype.Float, b.Load(in, e)))), out, e)
		})
		b.Add(kir.Move{Dst: b.Vector(8, y, i), Src: b.Vector(8, out, zero), Cache: kir.CacheStreaming})
	}, nil)
	return b.Kernel()
}

// moves copies by 2, 4 and 8 bytes, through each kind of access.
func moves() *kir.Kernel {
	b := kir.NewBuilder("moves", dtype.Int32)
	zero, n := b.T.Int(0), b.T.Int(64)
	x, y := b.Input("x", dtype.Half, n), b.Global("y", dtype.Half, n)
	flags, kept := b.Global("flags", dtype.Bool, n), b.Global("kept", dtype.Bool, n)
	for _, id := range []kir.BufferID{x, y, flags, kept} {
		b.Kernel().Buffers[id].Align = 16
	}
	t := b.Thread(0, 16)
	at := b.T.Mul(t, b.T.Int(4))
	tile := b.Shared("tile", dtype.Half, 0, n)
	r, bits := b.Local("r", dtype.Half, 4), b.Local("bits", dtype.Bool, 4)
	b.Add(kir.Move{Dst: b.Vector(4, r, zero), Src: b.Vector(4, x, at)})
	b.Add(kir.Move{Dst: b.Vector(4, tile, at), Src: b.Vector(4, r, zero)})
	b.Add(kir.Move{Dst: b.Vector(2, r, zero), Src: b.Vector(2, tile, b.T.Add(at, b.T.Int(2)))})
	b.Add(kir.Move{Dst: b.Vector(1, r, b.T.Int(2)), Src: b.Vector(1, tile, at)})
	b.Add(kir.Move{Dst: b.Vector(4, y, at), Src: b.Vector(4, r, zero)})
	b.Add(kir.Move{Dst: b.Vector(4, bits, zero), Src: b.Vector(4, flags, at), Cache: kir.CacheStreaming})
	b.Store(b.Op(core.LogicalNotOp, b.Load(bits, zero)), bits, zero)
	b.Add(kir.Move{Dst: b.Vector(4, kept, at), Src: b.Vector(4, bits, zero)})
	return b.Kernel()
}

// policies sets z to x + y, and then y to x, by 4, 8 and 16 bytes and by both policies.
func policies() *kir.Kernel {
	b := kir.NewBuilder("policies", dtype.Int32)
	n := b.T.Int(384)
	x, y, z := b.Input("x", dtype.Float, n), b.Global("y", dtype.Float, n), b.Global("z", dtype.Float, n)
	for _, id := range []kir.BufferID{x, y, z} {
		b.Kernel().Buffers[id].Align = 16
	}
	from := b.T.Mul(b.Thread(0, 16), b.T.Int(24))
	for _, hint := range []kir.CacheHint{kir.CacheEvictFirst, kir.CacheEvictLast} {
		for _, width := range []int64{1, 2, 4} {
			r, s := b.Local("r", dtype.Float, 4), b.Local("s", dtype.Float, 4)
			for k := int64(0); k < 4; k += width {
				global, local := b.T.Add(from, b.T.Int(k)), b.T.Int(k)
				b.Add(kir.Move{Dst: b.Vector(int(width), r, local), Src: b.Vector(int(width), x, global), Cache: hint})
				b.Add(kir.Move{Dst: b.Vector(int(width), s, local), Src: b.Vector(int(width), y, global), Cache: hint})
				for e := k; e < k+width; e++ {
					b.Store(b.Op(core.AddOp, b.Load(r, b.T.Int(e)), b.Load(s, b.T.Int(e))), s, b.T.Int(e))
				}
				b.Add(kir.Move{Dst: b.Vector(int(width), z, global), Src: b.Vector(int(width), s, local), Cache: hint})
				b.Add(kir.Move{Dst: b.Vector(int(width), y, global), Src: b.Vector(int(width), r, local), Cache: hint})
			}
			from = b.T.Add(from, b.T.Int(4))
		}
	}
	return b.Kernel()
}

// blockSum leaves the sum of r over a block of 128 threads in r of each.
func blockSum(b *kir.Builder, t scalar.ID, r, scratch kir.BufferID) {
	warp := func() {
		for lane := int64(16); lane > 0; lane /= 2 {
			v := b.Load(r)
			b.Store(b.Op(core.AddOp, v, b.Shuffle(kir.ShuffleXor, v, lane, 32)), r)
		}
	}
	lane := b.T.Mod(t, b.T.Int(32))
	warp()
	b.If(b.T.Eq(lane, b.T.Int(0)), func() { b.Store(b.Load(r), scratch, b.T.FloorDiv(t, b.T.Int(32))) }, nil)
	b.Add(kir.Barrier{Scope: kir.BlockScope})
	b.Store(b.Float(dtype.Float, 0), r)
	b.If(b.T.Lt(lane, b.T.Int(4)), func() { b.Store(b.Load(scratch, lane), r) }, nil)
	warp()
}

// ticket sums all elements; the last block to arrive adds up the sums of all.
func ticket() *kir.Kernel {
	b := kir.NewBuilder("ticket", dtype.Int32)
	n := b.Integer("n", scalar.Range(0, 1<<30))
	blocks := b.T.CeilDiv(n, b.T.Int(128))
	x, y := b.Input("x", dtype.Float, n), b.Global("y", dtype.Float)
	partial, counter := b.Global("partial", dtype.Float, blocks), b.Global("counter", dtype.Int, b.T.Int(1))
	b.Kernel().Buffers[counter].Zeroed = true
	t, block, zero := b.Thread(0, 128), b.BlockIndex(0, blocks), b.T.Int(0)
	first := b.T.Eq(t, zero)
	scratch, flag := b.Shared("scratch", dtype.Float, 0, b.T.Int(4)), b.Shared("flag", dtype.Bool, 16, b.T.Int(1))
	r := b.Local("r", dtype.Float)
	b.Store(b.Float(dtype.Float, 0), r)
	i := b.T.Add(b.T.Mul(block, b.T.Int(128)), t)
	b.If(b.T.Lt(i, n), func() { b.Store(b.Load(x, i), r) }, nil)
	blockSum(b, t, r, scratch)
	b.If(first, func() {
		b.Store(b.Load(r), partial, block)
		b.Add(kir.Fence{Scope: kir.GridScope})
		arrival := b.AtomicAdd("arrival", b.Number(dtype.Int, 1), b.At(counter, zero))
		b.Add(kir.Fence{Scope: kir.GridScope})
		b.Store(b.Index(dtype.Bool, b.T.Eq(arrival, b.T.Sub(blocks, b.T.Int(1)))), flag, zero)
	}, nil)
	b.Add(kir.Barrier{Scope: kir.BlockScope})
	b.If(b.Let("last", b.Load(flag, zero), scalar.Facts{}), func() {
		b.Store(b.Float(dtype.Float, 0), r)
		b.For("k", t, blocks, b.T.Int(128), kir.UnrollNone, func(k scalar.ID) {
			b.Store(b.Op(core.AddOp, b.Load(r), b.Load(partial, k)), r)
		})
		blockSum(b, t, r, scratch)
		b.If(first, func() {
			b.Store(b.Load(r), y)
			b.Store(b.Number(dtype.Int, 0), counter, zero)
		}, nil)
	}, nil)
	return b.Kernel()
}

// gridBarrier has every block read what all wrote, twice.
func gridBarrier() *kir.Kernel {
	b := kir.NewBuilder("grid_barrier", dtype.Int32)
	const blocks, threads = 3, 32
	b.Kernel().Launch.Cooperative = true
	n := b.T.Int(blocks * threads)
	x, y, word := b.Global("x", dtype.Float, n), b.Global("y", dtype.Float, n), b.Global("word", dtype.Int, b.T.Int(1))
	b.Kernel().Buffers[word].Zeroed = true
	i := b.T.Add(b.T.Mul(b.BlockIndex(0, b.T.Int(blocks)), b.T.Int(threads)), b.Thread(0, threads))
	mirror := b.T.Sub(b.T.Int(blocks*threads-1), i)
	barrier := kir.Barrier{Scope: kir.GridScope, Semaphore: b.At(word, b.T.Int(0))}
	b.Store(b.Op(core.AddOp, b.Load(x, i), b.Load(x, i)), x, i)
	b.Add(barrier)
	b.Store(b.Load(x, mirror), y, i)
	b.Add(barrier)
	b.Store(b.Load(y, mirror), x, i)
	return b.Kernel()
}

// pipeline adds up tiles that arrive through three slots of shared memory.
func pipeline() *kir.Kernel {
	b := kir.NewBuilder("pipeline", dtype.Int32)
	const threads, slots, ahead = 64, 3, 2
	tiles := b.Integer("tiles", scalar.Range(0, 1<<20))
	x, y := b.Input("x", dtype.Float, tiles, b.T.Int(4*threads)), b.Global("y", dtype.Float, b.T.Int(threads))
	b.Kernel().Buffers[x].Align = 16
	t := b.Thread(0, threads)
	buffer := b.Shared("buffer", dtype.Float, 0, b.T.Int(slots), b.T.Int(4*threads))
	acc := b.Local("acc", dtype.Float)
	b.Store(b.Float(dtype.Float, 0), acc)
	at := b.T.Mul(t, b.T.Int(4))
	issue := func(tile scalar.ID) {
		b.Add(kir.AsyncCopy{Dst: b.Vector(4, buffer, b.T.Mod(tile, b.T.Int(slots)), at), Src: b.Vector(4, x, tile, at), Guard: b.T.Lt(tile, tiles)})
		b.Add(kir.AsyncCommit{})
	}
	b.Repeat("p", ahead, kir.UnrollFull, issue)
	b.For("i", b.T.Int(0), tiles, b.T.Int(1), kir.UnrollAuto, func(i scalar.ID) {
		b.Add(kir.AsyncWait{Pending: ahead - 1})
		b.Add(kir.Barrier{Scope: kir.BlockScope})
		issue(b.T.Add(i, b.T.Int(ahead)))
		mirror := b.T.Sub(b.T.Int(threads-1), t) // what another thread copied
		b.Repeat("j", 4, kir.UnrollFull, func(e scalar.ID) {
			b.Store(b.Op(core.AddOp, b.Load(acc), b.Load(buffer, b.T.Mod(i, b.T.Int(slots)), b.T.Add(b.T.Mul(mirror, b.T.Int(4)), e))), acc)
		})
	})
	b.Add(kir.AsyncWait{})
	b.Store(b.Load(acc), y, t)
	return b.Kernel()
}

// copyPolicies sets y to x by way of shared memory, by asynchronous copies of 4, 8 and 16
// bytes of each policy, half of them guarded.
func copyPolicies() *kir.Kernel {
	b := kir.NewBuilder("copy_policies", dtype.Int32)
	const threads = 8
	hints := []kir.CacheHint{kir.CacheEvictFirst, kir.CacheEvictLast, kir.CacheEvictLastIf}
	n := b.T.Int(int64(threads * 4 * 2 * 3 * len(hints)))
	x, y := b.Input("x", dtype.Float, n), b.Global("y", dtype.Float, n)
	b.Kernel().Buffers[x].Align = 16
	t := b.Thread(0, threads)
	tile := b.Shared("tile", dtype.Float, 0, n)
	isFirst := b.T.Lt(t, b.T.Int(threads/2))
	from := b.T.Mul(t, b.T.Int(4))
	for _, hint := range hints {
		for _, width := range []int64{1, 2, 4} {
			for _, guard := range []scalar.ID{scalar.None, isFirst} {
				for k := int64(0); k < 4; k += width {
					at := b.T.Add(from, b.T.Int(k))
					c := kir.AsyncCopy{Dst: b.Vector(int(width), tile, at), Src: b.Vector(int(width), x, at), Guard: guard, Cache: hint}
					if hint == kir.CacheEvictLastIf {
						c.Last = isFirst
					}
					b.Add(c)
				}
				from = b.T.Add(from, b.T.Int(4*threads))
			}
		}
	}
	b.Add(kir.AsyncCommit{})
	b.Add(kir.AsyncWait{})
	from = b.T.Mul(t, b.T.Int(4))
	b.Repeat("group", int64(2*3*len(hints)), kir.UnrollNone, func(i scalar.ID) {
		b.Repeat("j", 4, kir.UnrollFull, func(e scalar.ID) {
			at := b.T.Add(b.T.Add(from, e), b.T.Mul(i, b.T.Int(4*threads)))
			b.Store(b.Load(tile, at), y, at)
		})
	})
	return b.Kernel()
}

// indices has the expressions of index arithmetic: quotients of what may be
// negative, choices, names for what is used again, 64 bits.
func indices() *kir.Kernel {
	b := kir.NewBuilder("indices", dtype.Int)
	t := b.T
	n := b.Integer("n", scalar.Range(0, 1<<40))
	shift := b.Integer("shift", scalar.Range(-1<<40, 1<<40))
	y := b.Global("y", dtype.Int, n, t.Int(8))
	i := t.Add(t.Mul(b.BlockIndex(0, t.CeilDiv(n, t.Int(32))), t.Int(32)), b.Thread(0, 32))
	h := b.Symbol("h", kir.HoistedIndex, 0, dtype.Index, scalar.Unknown())
	moved := t.Sub(t.Mul(i, t.Int(3)), shift)
	k := b.Kernel()
	symbol := kir.SymbolID(t.Tag(h).Val)
	k.Symbols[symbol].Expr = moved
	b.If(t.Lt(i, n), func() {
		b.Add(kir.Hoist{Symbol: symbol, Expr: moved})
		values := []scalar.ID{
			t.FloorDiv(moved, t.Int(7)), t.Mod(moved, t.Int(7)),
			t.FloorDiv(i, t.Int(7)), t.Mul(t.Mod(i, t.Int(7)), t.Sub(i, t.Int(2))),
			t.Min(t.Max(moved, t.Int(-5)), n), t.Select(t.Or(t.Lt(moved, t.Int(0)), t.And(t.Le(t.Int(9), i), t.Lt(i, t.Int(12)))), t.Neg(moved), t.Int(1<<40)),
			t.Sub(t.Int(-1), i), t.Mul(moved, t.Int(-2)),
		}
		for column, v := range values {
			b.Store(b.Index(dtype.Int, v), y, i, t.Int(int64(column)))
		}
	}, nil)
	return k
}

// scalars has numbers that the host passes, of each kind of type, and constants.
func scalars() *kir.Kernel {
	b := kir.NewBuilder("scalars", dtype.Int32)
	n := b.T.Int(3)
	y, z, w := b.Global("y", dtype.Float, n), b.Global("z", dtype.ComplexFloat, n), b.Global("w", dtype.Int, n)
	alpha, half := b.Scalar("alpha", dtype.Float), b.Scalar("half", dtype.Half)
	on, turn, big := b.Scalar("on", dtype.Bool), b.Scalar("turn", dtype.ComplexFloat), b.Scalar("big", dtype.Int)
	i := b.Thread(0, 3)
	b.Store(b.Op(core.WhereOp, on, b.Op(core.AddOp, alpha, b.Cast(dtype.Float, half)), b.Float(dtype.Float, 0.1)), y, i)
	one := b.Const(scalar.Value{Type: dtype.ComplexFloat, Re: 1, Im: -0.5})
	b.Store(b.Op(core.MulOp, turn, b.Op(core.AddOp, one, turn)), z, i)
	least := b.Number(dtype.Int, -1<<63)
	b.Store(b.Op(core.SubOp, least, b.Op(core.MulOp, big, b.Cast(dtype.Int, b.Index(dtype.Int32, i)))), w, i)
	return b.Kernel()
}

// sharing has values that are read twice, in one statement and in two.
func sharing() *kir.Kernel {
	b := kir.NewBuilder("sharing", dtype.Int32)
	n := b.T.Int(32)
	x, y := b.Input("x", dtype.Float, n), b.Global("y", dtype.Float, n)
	z := b.Global("z", dtype.Half, n)
	i := b.Thread(0, 32)
	e := b.Op(core.ExpOp, b.Load(x, i))
	sum := b.Op(core.AddOp, e, b.Float(dtype.Float, 1))
	b.Store(b.Op(core.DivOp, b.Op(core.SubOp, e, b.Float(dtype.Float, 1)), b.Op(core.MulOp, sum, sum)), y, i)
	h := b.Cast(dtype.Half, b.Op(core.NegOp, b.Op(core.NegOp, b.Load(x, i))))
	b.Store(b.Cast(dtype.Half, b.Op(core.MulOp, b.Cast(dtype.Float, h), b.Cast(dtype.Float, h))), z, i)
	return b.Kernel()
}

// naming has names that C++ does not take.
func naming() *kir.Kernel {
	b := kir.NewBuilder("class", dtype.Int32)
	n := b.T.Int(4)
	x, y, z := b.Input("float", dtype.Float, n), b.Input("expf", dtype.Float, n), b.Global("2 out.put", dtype.Float, n)
	r := b.Local("float", dtype.Float)
	i := b.Thread(0, 4)
	b.Store(b.Op(core.ExpOp, b.Op(core.AddOp, b.Load(x, i), b.Load(y, i))), r)
	b.Store(b.Load(r), z, i)
	return b.Kernel()
}

// atomics adds to each kind of element.
func atomics() *kir.Kernel {
	b := kir.NewBuilder("atomics", dtype.Int32)
	one := b.T.Int(1)
	zero := b.T.Int(0)
	b.Thread(0, 32)
	for _, t := range []dtype.Type{dtype.Int32, dtype.Int, dtype.UInt64, dtype.Float, dtype.Double, dtype.Half, dtype.BFloat16} {
		to := b.Global("to_"+t.Text(), t, one)
		v := b.Number(t, 3)
		if t.IsFloat() {
			v = b.Float(t, 0.5)
		}
		b.Add(kir.AtomicAdd{Dst: b.At(to, zero), Value: v, Old: kir.NoSymbol})
	}
	return b.Kernel()
}

// shuffles exchanges values of each kind of type, in each way.
func shuffles() *kir.Kernel {
	b := kir.NewBuilder("shuffles", dtype.Int32)
	n := b.T.Int(32)
	x := b.Input("x", dtype.Half, n)
	y, flags, z := b.Global("y", dtype.Half, n), b.Global("flags", dtype.Bool, n), b.Global("z", dtype.ComplexFloat, n)
	i := b.Thread(0, 32)
	v := b.Load(x, i)
	f := b.Cast(dtype.Float, v)
	b.Store(b.Shuffle(kir.ShuffleDown, v, 3, 8), y, i)
	positive := b.Shuffle(kir.ShuffleXor, b.Op(core.GtOp, f, b.Float(dtype.Float, 0)), 1, 32)
	b.Store(b.Op(core.LogicalAndOp, b.Op(core.LogicalNotOp, b.Op(core.IsNaNOp, f)), positive), flags, i)
	b.Store(b.ShuffleAt(b.Op(core.ComplexOp, f, f), b.T.Sub(b.T.Int(31), i), 32), z, i)
	b.Add(kir.Barrier{Scope: kir.WarpScope})
	return b.Kernel()
}

// warpMaxima gives each lane the largest element of its warp, and the reciprocal of it, which
// tells zeros apart.
func warpMaxima() *kir.Kernel {
	b := kir.NewBuilder("warpMaxima", dtype.Int32)
	n := b.T.Int(int64(32 * len(warpLargest)))
	x, y, z := b.Input("x", dtype.Float, n), b.Global("y", dtype.Float, n), b.Global("z", dtype.Float, n)
	i, r := b.Thread(0, int64(32*len(warpLargest))), b.Local("r", dtype.Float)
	b.Store(b.WarpMaximum(b.Load(x, i)), r)
	b.Store(b.Load(r), y, i)
	b.Store(b.Op(core.Lookup("reciprocal"), b.Load(r)), z, i)
	return b.Kernel()
}

// warpLargest is by warp the largest of the elements of warpElements.
var warpLargest = []float64{sample(16), math.NaN(), 0, math.Copysign(0, -1), -1e38}

func warpElements() []byte {
	m := memoryOf(counted(dtype.Float, 32*len(warpLargest), func(i int) float64 {
		switch lane := i % 32; {
		case i < 32:
			return sample(i)
		case i < 64:
			return sample(lane) - 1e6
		case i < 128:
			return math.Copysign(0, -1)
		case lane < 31:
			return math.Inf(-1)
		}
		return -1e38
	}))
	binary.LittleEndian.PutUint32(m[4*(32+7):], 0xffc00000) // NaN, and negative
	binary.LittleEndian.PutUint32(m[4*(64+3):], 0)
	return m
}

// clusters has a barrier between the blocks of a cluster.
func clusters() *kir.Kernel {
	b := kir.NewBuilder("clusters", dtype.Int32)
	b.Kernel().Launch.Cluster = [3]int64{2, 1, 1}
	n := b.T.Int(4)
	x, y := b.Global("x", dtype.Int32, n), b.Global("y", dtype.Int32, n)
	block := b.BlockIndex(0, n)
	rank := b.Symbol("rank", kir.ClusterIdx, 0, dtype.Index, scalar.Range(0, 1))
	b.Store(b.Index(dtype.Int32, block), x, block)
	b.Add(kir.Fence{Scope: kir.ClusterScope})
	b.Add(kir.Barrier{Scope: kir.ClusterScope})
	peer := b.T.Add(b.T.Sub(block, rank), b.T.Sub(b.T.Int(1), rank))
	b.Store(b.Load(x, peer), y, block)
	return b.Kernel()
}

// peers hands elements on to the next block of a cluster.
func peers() *kir.Kernel {
	b := kir.NewBuilder("peers", dtype.Int32)
	const threads, size = 8, 4
	b.Kernel().Launch.Cluster[0] = size
	n := b.T.Int(2 * size)
	x, y := b.Input("x", dtype.Float, n, b.T.Int(threads)), b.Global("y", dtype.Float, n, b.T.Int(threads))
	t, block := b.Thread(0, threads), b.BlockIndex(0, n)
	from := b.Shared("from", dtype.Float, 0, b.T.Int(threads))
	next := b.T.Mod(b.T.Add(block, b.T.Int(1)), b.T.Int(size))
	b.Add(kir.ClusterStart{})
	b.Add(kir.ClusterStart{Wait: true})
	b.Add(kir.Send{Dst: b.At(from, t), Rank: next, Value: b.Load(x, block, t)})
	b.Add(kir.Barrier{Scope: kir.ClusterScope})
	b.Store(b.Load(from, t), y, block, t)
	return b.Kernel()
}

// arrivals hands elements on to the next block of a cluster, which counts what arrives.
func arrivals() *kir.Kernel {
	b := kir.NewBuilder("arrivals", dtype.Int32)
	const threads, size = 8, 4
	b.Kernel().Launch.Cluster[0] = size
	n := b.T.Int(2 * size)
	x, y := b.Input("x", dtype.Float, n, b.T.Int(threads)), b.Global("y", dtype.Double, n, b.T.Int(threads))
	t, block := b.Thread(0, threads), b.BlockIndex(0, n)
	from, wide := b.Shared("from", dtype.Float, 0, b.T.Int(threads)), b.Shared("wide", dtype.Double, 64, b.T.Int(threads))
	word := b.Shared("word", dtype.Int, 128, b.T.Int(1))
	next := b.T.Mod(b.T.Add(block, b.T.Int(1)), b.T.Int(size))
	b.Add(kir.Expect{Arrivals: word, Bytes: threads * 12})
	b.Add(kir.ClusterStart{})
	b.Add(kir.ClusterStart{Wait: true})
	b.Add(kir.Send{Dst: b.At(from, t), Rank: next, Value: b.Load(x, block, t), Counted: true, Arrivals: word})
	b.Add(kir.Send{Dst: b.At(wide, t), Rank: next, Value: b.Float(dtype.Double, 2), Counted: true, Arrivals: word})
	b.Add(kir.Arrived{Arrivals: word})
	b.Store(b.Op(core.MulOp, b.Load(wide, t), b.Cast(dtype.Double, b.Load(from, t))), y, block, t)
	return b.Kernel()
}

// branches has both sides of a condition, and one that has only the other.
func branches() *kir.Kernel {
	b := kir.NewBuilder("branches", dtype.Int32)
	n := b.T.Int(40)
	y := b.Global("y", dtype.Int32, n)
	i := b.Thread(0, 40)
	b.If(b.T.Lt(i, b.T.Int(10)), func() { b.Store(b.Number(dtype.Int32, 1), y, i) }, func() { b.Store(b.Number(dtype.Int32, 2), y, i) })
	b.If(b.T.Or(b.T.Lt(i, b.T.Int(20)), b.T.Lt(b.T.Int(30), i)), func() {}, func() {
		v := b.Let("before", b.Load(y, i), scalar.Unknown())
		b.Store(b.Index(dtype.Int32, b.T.Add(v, b.T.Int(5))), y, i)
	})
	b.Add(kir.Fence{Scope: kir.BlockScope})
	return b.Kernel()
}

// choices load vectors from one of three tensors, and from one or shared memory, which is no choice between addresses.
func choices() *kir.Kernel {
	b := kir.NewBuilder("choices", dtype.Int32)
	n, zero := b.T.Int(128), b.T.Int(0)
	x, y, z := b.Input("x", dtype.Float, n), b.Input("y", dtype.Float, n), b.Input("z", dtype.Float, n)
	tile, out := b.Shared("tile", dtype.Float, 0, n), b.Global("out", dtype.Float, b.T.Int(256))
	for _, id := range []kir.BufferID{x, y, z, out} {
		b.Kernel().Buffers[id].Align = 16
	}
	t := b.Thread(0, 32)
	at := b.T.Mul(t, b.T.Int(4))
	from := func(to, v kir.BufferID) func() {
		return func() { b.Add(kir.Move{Dst: b.Vector(4, to, zero), Src: b.Vector(4, v, at)}) }
	}
	store := func(v kir.BufferID, first int64) {
		b.Add(kir.Move{Dst: b.Vector(4, out, b.T.Add(at, b.T.Int(first))), Src: b.Vector(4, v, zero)})
	}
	global := b.Local("global", dtype.Float, 4)
	b.If(b.T.Lt(t, b.T.Int(9)), from(global, x), func() { b.If(b.T.Lt(t, b.T.Int(20)), from(global, y), from(global, z)) })
	store(global, 0)
	for i := range 4 {
		b.Store(b.Load(global, b.T.Int(int64(i))), tile, b.T.Add(at, b.T.Int(int64(i))))
	}
	mixed := b.Local("mixed", dtype.Float, 4)
	b.If(b.T.Lt(t, b.T.Int(5)), from(mixed, x), from(mixed, tile))
	store(mixed, 128)
	return b.Kernel()
}
