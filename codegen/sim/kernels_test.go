package sim_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A launch is a kernel with arguments and the values that it must compute.
type launch struct {
	k         *kir.Kernel
	arguments []sim.Argument
	outputs   []kir.BufferID
	check     func(t *testing.T)
}

// floats returns memory that holds x.
func floats(x ...float32) *sim.Memory {
	m := &sim.Memory{Data: make([]byte, 4*len(x))}
	for i, v := range x {
		binary.LittleEndian.PutUint32(m.Data[4*i:], math.Float32bits(v))
	}
	return m
}

// counted returns memory that holds f(0), f(1), ...
func counted(n int, f func(i int) float32) *sim.Memory {
	x := make([]float32, n)
	for i := range x {
		x[i] = f(i)
	}
	return floats(x...)
}

func room(bytes int) *sim.Memory  { return &sim.Memory{Data: make([]byte, bytes), Undefined: true} }
func zeros(bytes int) *sim.Memory { return &sim.Memory{Data: make([]byte, bytes)} }

func pointer(m *sim.Memory) sim.Argument { return sim.Argument{Memory: m} }
func integer(n int64) sim.Argument {
	return sim.Argument{Number: scalar.Value{Type: dtype.Index, I: n}}
}

// holds checks every element of m.
func holds(m *sim.Memory, want func(i int) float32) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		for i := range len(m.Data) / 4 {
			require.Equal(t, want(i), math.Float32frombits(binary.LittleEndian.Uint32(m.Data[4*i:])), "element %d", i)
		}
	}
}

// sample is the input of most kernels.
func sample(i int) float32 { return float32(i%17) - 3 }

// sampleSum is the sum of sample over [from, to): exact in float32.
func sampleSum(from, to int) float32 {
	var s float32
	for i := from; i < to; i++ {
		s += sample(i)
	}
	return s
}

// elementwise is y = 2x + 1 with a tail.
func elementwise() launch {
	b := kir.NewBuilder("elementwise", dtype.Int32)
	n := b.Integer("n", scalar.Range(0, 1<<30))
	x, y := b.Input("x", dtype.Float, n), b.Global("y", dtype.Float, n)
	i := b.T.Add(b.T.Mul(b.BlockIndex(0, b.T.CeilDiv(n, b.T.Int(128))), b.T.Int(128)), b.Thread(0, 128))
	b.If(b.T.Lt(i, n), func() {
		b.Store(b.Op(core.AddOp, b.Op(core.MulOp, b.Load(x, i), b.Float(dtype.Float, 2)), b.Float(dtype.Float, 1)), y, i)
	}, nil)
	const size = 1000
	out := room(4 * size)
	return launch{b.Kernel(), []sim.Argument{integer(size), pointer(counted(size, sample)), pointer(out)}, []kir.BufferID{y},
		holds(out, func(i int) float32 { return 2*sample(i) + 1 })}
}

// vectorised copies four elements a thread through registers.
func vectorised() launch {
	b := kir.NewBuilder("vectorised", dtype.Int32)
	const size = 512
	x, y := b.Input("x", dtype.Float, b.T.Int(size)), b.Global("y", dtype.Float, b.T.Int(size))
	for _, id := range []kir.BufferID{x, y} {
		b.Kernel().Buffers[id].Align = 16
	}
	r := b.Local("r", dtype.Float, 4)
	b.Kernel().Buffers[r].Registers = true
	i := b.T.Mul(b.T.Add(b.T.Mul(b.BlockIndex(0, b.T.Int(2)), b.T.Int(64)), b.Thread(0, 64)), b.T.Int(4))
	zero := b.T.Int(0)
	b.Add(kir.Move{Dst: b.Vector(4, r, zero), Src: b.Vector(4, x, i)})
	b.Repeat("e", 4, kir.UnrollFull, func(e scalar.ID) {
		b.Store(b.Op(core.NegOp, b.Load(r, e)), r, e)
	})
	b.Add(kir.Move{Dst: b.Vector(4, y, i), Src: b.Vector(4, r, zero)})
	out := room(4 * size)
	return launch{b.Kernel(), []sim.Argument{pointer(counted(size, sample)), pointer(out)}, []kir.BufferID{y},
		holds(out, func(i int) float32 { return -sample(i) })}
}

// tree sums 128 elements a block by halving in shared memory.
func tree() launch {
	b := kir.NewBuilder("tree", dtype.Int32)
	const threads, blocks = 128, 3
	x, y := b.Input("x", dtype.Float, b.T.Int(threads*blocks)), b.Global("y", dtype.Float, b.T.Int(blocks))
	t, block := b.Thread(0, threads), b.BlockIndex(0, b.T.Int(blocks))
	s := b.Shared("s", dtype.Float, 0, b.T.Int(threads))
	b.Store(b.Load(x, b.T.Add(b.T.Mul(block, b.T.Int(threads)), t)), s, t)
	for half := int64(threads / 2); half > 0; half /= 2 {
		b.Add(kir.Barrier{Scope: kir.BlockScope})
		b.If(b.T.Lt(t, b.T.Int(half)), func() {
			b.Store(b.Op(core.AddOp, b.Load(s, t), b.Load(s, b.T.Add(t, b.T.Int(half)))), s, t)
		}, nil)
	}
	b.If(b.T.Eq(t, b.T.Int(0)), func() { b.Store(b.Load(s, b.T.Int(0)), y, block) }, nil)
	out := room(4 * blocks)
	return launch{b.Kernel(), []sim.Argument{pointer(counted(threads*blocks, sample)), pointer(out)}, []kir.BufferID{y},
		holds(out, func(i int) float32 { return sampleSum(i*threads, (i+1)*threads) })}
}

// warpSum adds the butterfly sum of v over a warp.
func warpSum(b *kir.Builder, r kir.BufferID) {
	for lane := int64(16); lane > 0; lane /= 2 {
		v := b.Load(r)
		b.Store(b.Op(core.AddOp, v, b.Shuffle(kir.ShuffleXor, v, lane, 32)), r)
	}
}

// warp sums 32 elements a warp by shuffles.
func warp() launch {
	b := kir.NewBuilder("warp", dtype.Int32)
	const threads = 96
	x, y := b.Input("x", dtype.Float, b.T.Int(threads)), b.Global("y", dtype.Float, b.T.Int(threads/32))
	t := b.Thread(0, threads)
	r := b.Local("r", dtype.Float)
	b.Store(b.Load(x, t), r)
	warpSum(b, r)
	b.If(b.T.Eq(b.T.Mod(t, b.T.Int(32)), b.T.Int(0)), func() { b.Store(b.Load(r), y, b.T.FloorDiv(t, b.T.Int(32))) }, nil)
	out := room(4 * threads / 32)
	return launch{b.Kernel(), []sim.Argument{pointer(counted(threads, sample)), pointer(out)}, []kir.BufferID{y},
		holds(out, func(i int) float32 { return sampleSum(i*32, i*32+32) })}
}

// blockSum leaves the sum of r over the block of 128 threads in r of every
// thread, through scratch of 4 elements.
func blockSum(b *kir.Builder, t scalar.ID, r, scratch kir.BufferID) {
	lane := b.T.Mod(t, b.T.Int(32))
	warpSum(b, r)
	b.If(b.T.Eq(lane, b.T.Int(0)), func() { b.Store(b.Load(r), scratch, b.T.FloorDiv(t, b.T.Int(32))) }, nil)
	b.Add(kir.Barrier{Scope: kir.BlockScope})
	b.Store(b.Float(dtype.Float, 0), r)
	b.If(b.T.Lt(lane, b.T.Int(4)), func() { b.Store(b.Load(scratch, lane), r) }, nil)
	warpSum(b, r)
}

// rows sums rows of 128 elements, one after the other, in one block. The
// scratch of the two levels is used again by the next row.
func rows() launch {
	b := kir.NewBuilder("rows", dtype.Int32)
	const threads, count = 128, 3
	x, y := b.Input("x", dtype.Float, b.T.Int(count), b.T.Int(threads)), b.Global("y", dtype.Float, b.T.Int(count))
	t := b.Thread(0, threads)
	scratch := b.Shared("scratch", dtype.Float, 0, b.T.Int(4))
	b.Repeat("row", count, kir.UnrollNone, func(row scalar.ID) {
		r := b.Local("r", dtype.Float)
		b.Store(b.Load(x, row, t), r)
		blockSum(b, t, r, scratch)
		b.Add(kir.Barrier{Scope: kir.BlockScope})
		b.If(b.T.Eq(t, b.T.Int(0)), func() { b.Store(b.Load(r), y, row) }, nil)
	})
	out := room(4 * count)
	return launch{b.Kernel(), []sim.Argument{pointer(counted(threads*count, sample)), pointer(out)}, []kir.BufferID{y},
		holds(out, func(i int) float32 { return sampleSum(i*threads, (i+1)*threads) })}
}

// ticket sums all elements: the block that arrives last adds up the partial
// sums of all.
func ticket() launch {
	b := kir.NewBuilder("ticket", dtype.Int32)
	const threads, blocks = 128, 5
	x, y := b.Input("x", dtype.Float, b.T.Int(threads*blocks)), b.Global("y", dtype.Float, b.T.Int(1))
	work := b.Global("work", dtype.Float, b.T.Int(blocks))
	counter := b.Global("counter", dtype.Int32, b.T.Int(1))
	b.Kernel().Buffers[counter].Zeroed = true
	t, block, zero := b.Thread(0, threads), b.BlockIndex(0, b.T.Int(blocks)), b.T.Int(0)
	first := b.T.Eq(t, zero)
	scratch := b.Shared("scratch", dtype.Float, 0, b.T.Int(4))
	flag := b.Shared("flag", dtype.Bool, 16, b.T.Int(1))
	r := b.Local("r", dtype.Float)
	b.Store(b.Load(x, b.T.Add(b.T.Mul(block, b.T.Int(threads)), t)), r)
	blockSum(b, t, r, scratch)
	b.If(first, func() {
		b.Store(b.Load(r), work, block)
		b.Add(kir.Fence{Scope: kir.GridScope})
		old := b.AtomicAdd("arrival", b.Number(dtype.Int32, 1), b.At(counter, zero))
		b.Add(kir.Fence{Scope: kir.GridScope})
		b.Store(b.Index(dtype.Bool, b.T.Eq(old, b.T.Int(blocks-1))), flag, zero)
	}, nil)
	b.Add(kir.Barrier{Scope: kir.BlockScope})
	last := b.Let("last", b.Load(flag, zero), scalar.Facts{})
	b.If(last, func() {
		b.Store(b.Float(dtype.Float, 0), r)
		b.If(b.T.Lt(t, b.T.Int(blocks)), func() { b.Store(b.Load(work, t), r) }, nil)
		blockSum(b, t, r, scratch)
		b.If(first, func() {
			b.Store(b.Load(r), y, zero)
			b.Store(b.Number(dtype.Int32, 0), counter, zero)
		}, nil)
	}, nil)
	out := room(4)
	return launch{b.Kernel(), []sim.Argument{pointer(counted(threads*blocks, sample)), pointer(out), pointer(room(4 * blocks)), pointer(zeros(4))},
		[]kir.BufferID{y}, holds(out, func(int) float32 { return sampleSum(0, threads*blocks) })}
}

// allreduce gives every block the sum of all, by a grid barrier.
func allreduce() launch {
	b := kir.NewBuilder("allreduce", dtype.Int32)
	const threads, blocks = 128, 4
	b.Kernel().Launch.Cooperative = true
	x, y := b.Input("x", dtype.Float, b.T.Int(threads*blocks)), b.Global("y", dtype.Float, b.T.Int(threads*blocks))
	work := b.Global("work", dtype.Float, b.T.Int(blocks))
	word := b.Global("word", dtype.Int, b.T.Int(1))
	b.Kernel().Buffers[word].Zeroed = true
	t, block, zero := b.Thread(0, threads), b.BlockIndex(0, b.T.Int(blocks)), b.T.Int(0)
	i := b.T.Add(b.T.Mul(block, b.T.Int(threads)), t)
	scratch := b.Shared("scratch", dtype.Float, 0, b.T.Int(4))
	r, sum := b.Local("r", dtype.Float), b.Local("sum", dtype.Float)
	b.Store(b.Load(x, i), r)
	blockSum(b, t, r, scratch)
	b.If(b.T.Eq(t, zero), func() { b.Store(b.Load(r), work, block) }, nil)
	b.Add(kir.Barrier{Scope: kir.GridScope, Semaphore: b.At(word, zero)})
	b.Store(b.Float(dtype.Float, 0), sum)
	b.Repeat("k", blocks, kir.UnrollAuto, func(k scalar.ID) {
		b.Store(b.Op(core.AddOp, b.Load(sum), b.Load(work, k)), sum)
	})
	b.Store(b.Op(core.SubOp, b.Load(x, i), b.Load(sum)), y, i)
	out := room(4 * threads * blocks)
	return launch{b.Kernel(), []sim.Argument{pointer(counted(threads*blocks, sample)), pointer(out), pointer(room(4 * blocks)), pointer(zeros(8))},
		[]kir.BufferID{y}, holds(out, func(i int) float32 { return sample(i) - sampleSum(0, threads*blocks) })}
}

// clusterSum adds up what the blocks of each cluster have, three times: each leaves
// its number in a slot of all of them, one of several in turn.
func clusterSum(turns int64) launch {
	b := kir.NewBuilder("clusterSum", dtype.Int32)
	const threads, blocks, size, rounds = 40, 8, 4, 3
	b.Kernel().Launch.Cluster[0] = size
	x, y := b.Input("x", dtype.Float, b.T.Int(rounds), b.T.Int(blocks)), b.Global("y", dtype.Float, b.T.Int(blocks), b.T.Int(threads))
	t, block := b.Thread(0, threads), b.BlockIndex(0, b.T.Int(blocks))
	rank := b.Symbol("rank", kir.ClusterIdx, 0, dtype.Index, scalar.Range(0, size-1))
	slots := b.Shared("slots", dtype.Float, 0, b.T.Int(turns), b.T.Int(size))
	sum := b.Local("sum", dtype.Float)
	b.Store(b.Float(dtype.Float, 0), sum)
	b.Add(kir.Barrier{Scope: kir.ClusterScope})
	b.Repeat("i", rounds, kir.UnrollNone, func(i scalar.ID) {
		turn := b.T.Mod(i, b.T.Int(turns))
		b.If(b.T.Lt(t, b.T.Int(size)), func() { b.Add(kir.Send{Dst: b.At(slots, turn, rank), Rank: t, Value: b.Load(x, i, block)}) }, nil)
		b.Add(kir.Barrier{Scope: kir.ClusterScope})
		b.Repeat("k", size, kir.UnrollFull, func(k scalar.ID) {
			b.Store(b.Op(core.AddOp, b.Load(sum), b.Load(slots, turn, k)), sum)
		})
	})
	b.Store(b.Load(sum), y, block, t)
	out := room(4 * blocks * threads)
	return launch{b.Kernel(), []sim.Argument{pointer(counted(rounds*blocks, sample)), pointer(out)}, []kir.BufferID{y},
		holds(out, func(i int) float32 {
			first := i / threads / size * size
			s := float32(0)
			for r := range rounds {
				s += sampleSum(r*blocks+first, r*blocks+first+size)
			}
			return s
		})}
}

// transpose goes through a tile of 32 x 32 with a padded row.
func transpose(stride int64) launch {
	b := kir.NewBuilder("transpose", dtype.Int32)
	const n, m = 40, 70
	x, y := b.Input("x", dtype.Float, b.T.Int(n), b.T.Int(m)), b.Global("y", dtype.Float, b.T.Int(m), b.T.Int(n))
	tx, ty := b.Thread(0, 32), b.Thread(1, 8)
	bx, by := b.T.Mul(b.BlockIndex(0, b.T.Int((m+31)/32)), b.T.Int(32)), b.T.Mul(b.BlockIndex(1, b.T.Int((n+31)/32)), b.T.Int(32))
	tile := b.Shared("tile", dtype.Float, 0, b.T.Int(32), b.T.Int(stride))
	step := func(body func(row scalar.ID)) {
		b.Repeat("k", 4, kir.UnrollFull, func(k scalar.ID) { body(b.T.Add(b.T.Mul(k, b.T.Int(8)), ty)) })
	}
	step(func(row scalar.ID) {
		i, j := b.T.Add(by, row), b.T.Add(bx, tx)
		b.If(b.T.And(b.T.Lt(i, b.T.Int(n)), b.T.Lt(j, b.T.Int(m))), func() { b.Store(b.Load(x, i, j), tile, row, tx) }, nil)
	})
	b.Add(kir.Barrier{Scope: kir.BlockScope})
	step(func(row scalar.ID) {
		j, i := b.T.Add(bx, row), b.T.Add(by, tx)
		b.If(b.T.And(b.T.Lt(i, b.T.Int(n)), b.T.Lt(j, b.T.Int(m))), func() { b.Store(b.Load(tile, tx, row), y, j, i) }, nil)
	})
	out := room(4 * n * m)
	return launch{b.Kernel(), []sim.Argument{pointer(counted(n*m, sample)), pointer(out)}, []kir.BufferID{y},
		holds(out, func(i int) float32 { return sample(i%n*m + i/n) })}
}

// pipeline adds up tiles of 64 x 4 that arrive through three slots of shared
// memory, then reverses the result through shared memory at the place of the
// slots. drain is what stands between.
func pipeline(drain ...kir.Statement) launch {
	b := kir.NewBuilder("pipeline", dtype.Int32)
	const threads, tiles, slots, ahead = 64, 5, 3, 2
	four := b.T.Int(4)
	x, y := b.Input("x", dtype.Float, b.T.Int(tiles), b.T.Int(4*threads)), b.Global("y", dtype.Float, b.T.Int(threads))
	b.Kernel().Buffers[x].Align = 16
	t := b.Thread(0, threads)
	buffer := b.Shared("buffer", dtype.Float, 0, b.T.Int(slots), b.T.Int(4*threads))
	acc := b.Local("acc", dtype.Float)
	b.Store(b.Float(dtype.Float, 0), acc)
	issue := func(tile scalar.ID) {
		// Past the last tile the copy writes zeros, so it is still one.
		b.Add(kir.AsyncCopy{Dst: b.Vector(4, buffer, b.T.Mod(tile, b.T.Int(slots)), b.T.Mul(t, four)),
			Src: b.Vector(4, x, tile, b.T.Mul(t, four)), Guard: b.T.Lt(tile, b.T.Int(tiles))})
		b.Add(kir.AsyncCommit{})
	}
	b.Repeat("p", ahead, kir.UnrollFull, issue)
	b.Repeat("i", tiles, kir.UnrollNone, func(i scalar.ID) {
		b.Add(kir.AsyncWait{Pending: ahead - 1})
		b.Add(kir.Barrier{Scope: kir.BlockScope})
		issue(b.T.Add(i, b.T.Int(ahead)))
		mirror := b.T.Sub(b.T.Int(threads-1), t) // what another thread copied
		b.Repeat("e", 4, kir.UnrollFull, func(e scalar.ID) {
			b.Store(b.Op(core.AddOp, b.Load(acc), b.Load(buffer, b.T.Mod(i, b.T.Int(slots)), b.T.Add(b.T.Mul(mirror, four), e))), acc)
		})
	})
	for _, s := range drain {
		b.Add(s)
	}
	epilogue := b.Shared("epilogue", dtype.Float, 0, b.T.Int(threads))
	b.Store(b.Load(acc), epilogue, b.T.Sub(b.T.Int(threads-1), t))
	b.Add(kir.Barrier{Scope: kir.BlockScope})
	b.Store(b.Load(epilogue, t), y, t)
	out := room(4 * threads)
	return launch{b.Kernel(), []sim.Argument{pointer(counted(tiles*4*threads, sample)), pointer(out)}, []kir.BufferID{y},
		holds(out, func(i int) float32 {
			var s float32
			for tile := range tiles {
				s += sampleSum(tile*4*threads+4*i, tile*4*threads+4*i+4)
			}
			return s
		})}
}

var drained = []kir.Statement{kir.AsyncWait{}, kir.Barrier{Scope: kir.BlockScope}}

// doubleBuffer reverses rows through two tiles in turn, with one barrier a row.
func doubleBuffer(slots int64) launch {
	b := kir.NewBuilder("doubleBuffer", dtype.Int32)
	const threads, count = 64, 6
	x, y := b.Input("x", dtype.Float, b.T.Int(count), b.T.Int(threads)), b.Global("y", dtype.Float, b.T.Int(count), b.T.Int(threads))
	t := b.Thread(0, threads)
	tile := b.Shared("tile", dtype.Float, 0, b.T.Int(2), b.T.Int(threads))
	b.Repeat("i", count, kir.UnrollNone, func(i scalar.ID) {
		slot := b.T.Mod(i, b.T.Int(slots))
		b.Store(b.Load(x, i, t), tile, slot, t)
		b.Add(kir.Barrier{Scope: kir.BlockScope})
		b.Store(b.Load(tile, slot, b.T.Sub(b.T.Int(threads-1), t)), y, i, t)
	})
	out := room(4 * threads * count)
	return launch{b.Kernel(), []sim.Argument{pointer(counted(threads*count, sample)), pointer(out)}, []kir.BufferID{y},
		holds(out, func(i int) float32 { return sample(i/threads*threads + threads - 1 - i%threads) })}
}

// gather is y[i] = x[index[i]], or 0 where the index is out of range. facts is
// what the table is told of an index.
func gather(facts scalar.Facts) launch {
	b := kir.NewBuilder("gather", dtype.Int32)
	const threads, size = 64, 50
	x, index := b.Input("x", dtype.Float, b.T.Int(size)), b.Input("index", dtype.Int, b.T.Int(threads))
	y := b.Global("y", dtype.Float, b.T.Int(threads))
	t := b.Thread(0, threads)
	r := b.Local("r", dtype.Float)
	b.Store(b.Float(dtype.Float, 0), r)
	k := b.Let("k", b.Load(index, t), facts)
	b.If(b.T.And(b.T.Le(b.T.Int(0), k), b.T.Lt(k, b.T.Int(size))), func() { b.Store(b.Load(x, k), r) }, nil)
	b.Store(b.Load(r), y, t)
	positions := zeros(8 * threads)
	at := func(i int) int { return (i*37)%70 - 5 }
	for i := range threads {
		binary.LittleEndian.PutUint64(positions.Data[8*i:], uint64(at(i)))
	}
	out := room(4 * threads)
	return launch{b.Kernel(), []sim.Argument{pointer(counted(size, sample)), pointer(positions), pointer(out)}, []kir.BufferID{y},
		holds(out, func(i int) float32 {
			if k := at(i); 0 <= k && k < size {
				return sample(k)
			}
			return 0
		})}
}

// good are the kernels without mistakes.
var good = map[string]func() launch{
	"elementwise":  elementwise,
	"vectorised":   vectorised,
	"tree":         tree,
	"warp":         warp,
	"rows":         rows,
	"ticket":       ticket,
	"allreduce":    allreduce,
	"cluster":      func() launch { return clusterSum(2) },
	"starts":       clusterStarts,
	"transpose":    func() launch { return transpose(33) },
	"pipeline":     func() launch { return pipeline(drained...) },
	"doubleBuffer": func() launch { return doubleBuffer(2) },
	"gather":       func() launch { return gather(scalar.Unknown()) },
}

// clusterStarts is clusterSum with a first barrier of two parts.
func clusterStarts() launch {
	l := clusterSum(2)
	replace(0, func(kir.Barrier) kir.Block { return kir.Block{kir.ClusterStart{}, kir.ClusterStart{Wait: true}} })(&l)
	return l
}

func TestGoodKernels(t *testing.T) {
	for name, build := range good {
		t.Run(name, func(t *testing.T) {
			for _, options := range []sim.Options{{}, {Order: sim.Reverse}, {Order: sim.Random, Seed: 1}, {Order: sim.Random, Seed: 2}} {
				l := build()
				require.NoError(t, l.k.Verify())
				require.NoError(t, l.k.CheckLimits(kir.Hopper))
				options.Outputs = l.outputs
				report, err := sim.Run(l.k, l.arguments, options)
				require.NoError(t, err)
				require.NoError(t, report.Err())
				l.check(t)
			}
		})
	}
}
