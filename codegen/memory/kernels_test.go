package memory_test

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

// A launch is a kernel in which nothing orders threads and no shared buffer has
// a place, with arguments and the values that it must compute.
type launch struct {
	k         *kir.Kernel
	arguments []sim.Argument
	outputs   []kir.BufferID
	check     func(t *testing.T)
}

// A kernel builds a launch.
type kernel struct {
	*kir.Builder
	memory []sim.Argument
	out    []kir.BufferID
	holds  []func(t *testing.T)
}

func newKernel(name string) *kernel { return &kernel{Builder: kir.NewBuilder(name, dtype.Int32)} }

func (b *kernel) launch() launch {
	return launch{b.Kernel(), b.memory, b.out, func(t *testing.T) {
		t.Helper()
		for _, f := range b.holds {
			f(t)
		}
	}}
}

func (b *kernel) n(x int64) scalar.ID { return b.T.Int(x) }

func (b *kernel) sizes(shape []int64) (ids []scalar.ID, count int) {
	count = 1
	for _, n := range shape {
		ids, count = append(ids, b.n(n)), count*int(n)
	}
	return ids, count
}

// sample is what inputs hold.
func sample(i int) float32 { return float32(i*7%17) - 3 }

// sum is the sum of sample over [from, to): exact.
func sum(from, to int) float32 {
	var s float32
	for i := from; i < to; i++ {
		s += sample(i)
	}
	return s
}

func (b *kernel) input(name string, shape ...int64) kir.BufferID {
	ids, count := b.sizes(shape)
	m := &sim.Memory{Data: make([]byte, 4*count)}
	for i := range count {
		binary.LittleEndian.PutUint32(m.Data[4*i:], math.Float32bits(sample(i)))
	}
	b.memory = append(b.memory, sim.Argument{Memory: m})
	id := b.Input(name, dtype.Float, ids...)
	b.Kernel().Buffers[id].Align = 16
	return id
}

// work adds a buffer in device memory that holds nothing.
func (b *kernel) work(name string, shape ...int64) (kir.BufferID, *sim.Memory) {
	ids, count := b.sizes(shape)
	m := &sim.Memory{Data: make([]byte, 4*count), Undefined: true}
	b.memory = append(b.memory, sim.Argument{Memory: m})
	return b.Global(name, dtype.Float, ids...), m
}

// output adds one that must hold the given values in the end.
func (b *kernel) output(name string, want func(i int) float32, shape ...int64) kir.BufferID {
	id, m := b.work(name, shape...)
	b.out = append(b.out, id)
	b.holds = append(b.holds, func(t *testing.T) {
		t.Helper()
		for i := range len(m.Data) / 4 {
			require.Equal(t, want(i), math.Float32frombits(binary.LittleEndian.Uint32(m.Data[4*i:])), "%s, element %d", name, i)
		}
	})
	return id
}

// counter adds a zeroed integer.
func (b *kernel) counter(name string) kir.BufferID {
	id := b.Global(name, dtype.Int32, b.n(1))
	b.Kernel().Buffers[id].Zeroed = true
	b.memory = append(b.memory, sim.Argument{Memory: &sim.Memory{Data: make([]byte, 4)}})
	return id
}

// tile declares shared memory without a place.
func (b *kernel) tile(name string, t dtype.Type, shape ...int64) kir.BufferID {
	ids, _ := b.sizes(shape)
	return b.symbolicTile(name, t, ids...)
}

func (b *kernel) symbolicTile(name string, t dtype.Type, shape ...scalar.ID) kir.BufferID {
	id := b.Buffer(name, kir.Shared, t, shape...)
	b.Add(kir.Declare{Buffer: id})
	return id
}

func (b *kernel) float(x float64) kir.ValueID { return b.Float(dtype.Float, x) }

func (b *kernel) times(x float64, v kir.ValueID) kir.ValueID { return b.Op(core.MulOp, b.float(x), v) }

// mirrored is n-1-t.
func (b *kernel) mirrored(t scalar.ID, n int64) scalar.ID { return b.T.Sub(b.n(n-1), t) }

// own stages elements in shared memory that each thread reads back itself.
func own() launch {
	b := newKernel("own")
	t := b.Thread(0, 64)
	x, y := b.input("x", 64), b.output("y", func(i int) float32 { return 2 * sample(i) }, 64)
	s := b.tile("s", dtype.Float, 64)
	b.Store(b.Load(x, t), s, t)
	b.Store(b.times(2, b.Load(s, t)), y, t)
	return b.launch()
}

// staged reads back what another thread stored.
func staged() launch {
	b := newKernel("staged")
	t := b.Thread(0, 64)
	x, y := b.input("x", 64), b.output("y", func(i int) float32 { return sample(63 - i) }, 64)
	s := b.tile("s", dtype.Float, 64)
	b.Store(b.Load(x, t), s, t)
	b.Store(b.Load(s, b.mirrored(t, 64)), y, t)
	return b.launch()
}

// tree sums 128 elements a block by halving in shared memory.
func tree() launch {
	b := newKernel("tree")
	const threads, blocks = 128, 3
	t, block := b.Thread(0, threads), b.BlockIndex(0, b.n(blocks))
	x, y := b.input("x", blocks, threads), b.output("y", func(i int) float32 { return sum(i*threads, (i+1)*threads) }, blocks)
	s := b.tile("s", dtype.Float, threads)
	b.Store(b.Load(x, block, t), s, t)
	for half := int64(threads / 2); half > 0; half /= 2 {
		b.If(b.T.Lt(t, b.n(half)), func() {
			b.Store(b.Op(core.AddOp, b.Load(s, t), b.Load(s, b.T.Add(t, b.n(half)))), s, t)
		}, nil)
	}
	b.If(b.T.Eq(t, b.n(0)), func() { b.Store(b.Load(s, b.n(0)), y, block) }, nil)
	return b.launch()
}

// columns sums over y with x kept, by halving: rows of the tile are threads.
func columns() launch {
	b := newKernel("columns")
	const across, rows = 16, 8
	tx, ty := b.Thread(0, across), b.Thread(1, rows)
	x := b.input("x", rows, across)
	y := b.output("y", func(i int) float32 {
		var s float32
		for r := range rows {
			s += sample(r*across + i)
		}
		return s
	}, across)
	s, r := b.tile("s", dtype.Float, rows, across), b.Local("r", dtype.Float)
	b.Store(b.Load(x, ty, tx), r)
	b.Store(b.Load(r), s, ty, tx)
	for half := int64(rows / 2); half > 0; half /= 2 {
		low := b.T.Lt(ty, b.n(half))
		b.If(low, func() { b.Store(b.Op(core.AddOp, b.Load(r), b.Load(s, b.T.Add(ty, b.n(half)), tx)), r) }, nil)
		b.If(low, func() { b.Store(b.Load(r), s, ty, tx) }, nil)
	}
	b.If(b.T.Eq(ty, b.n(0)), func() { b.Store(b.Load(s, b.n(0), tx), y, tx) }, nil)
	return b.launch()
}

func (b *kernel) warpSum(r kir.BufferID) {
	for lane := int64(16); lane > 0; lane /= 2 {
		v := b.Load(r)
		b.Store(b.Op(core.AddOp, v, b.Shuffle(kir.ShuffleXor, v, lane, 32)), r)
	}
}

// blockSum leaves the sum of r over 128 threads in r of every thread.
func (b *kernel) blockSum(t scalar.ID, r, scratch kir.BufferID) {
	lane := b.T.Mod(t, b.n(32))
	b.warpSum(r)
	b.If(b.T.Eq(lane, b.n(0)), func() { b.Store(b.Load(r), scratch, b.T.FloorDiv(t, b.n(32))) }, nil)
	b.Store(b.float(0), r)
	b.If(b.T.Lt(lane, b.n(4)), func() { b.Store(b.Load(scratch, lane), r) }, nil)
	b.warpSum(r)
}

// rows sums rows of 128 elements, one after the other: the scratch of the block
// reduction is used again by each.
func rows() launch {
	b := newKernel("rows")
	const threads, count = 128, 3
	t := b.Thread(0, threads)
	x, y := b.input("x", count, threads), b.output("y", func(i int) float32 { return sum(i*threads, (i+1)*threads) }, count)
	scratch := b.tile("scratch", dtype.Float, 4)
	b.Repeat("row", count, kir.UnrollNone, func(row scalar.ID) {
		r := b.Local("r", dtype.Float)
		b.Store(b.Load(x, row, t), r)
		b.blockSum(t, r, scratch)
		b.If(b.T.Eq(t, b.n(0)), func() { b.Store(b.Load(r), y, row) }, nil)
	})
	return b.launch()
}

// twoSums reduces twice in a row, through two scratch buffers that can share
// bytes only at the price of a barrier.
func twoSums() launch {
	b := newKernel("twoSums")
	const threads = 128
	t := b.Thread(0, threads)
	x := b.input("x", threads)
	y := b.output("y", func(i int) float32 { return threads * sum(0, threads) }, threads)
	r := b.Local("r", dtype.Float)
	b.Store(b.Load(x, t), r)
	for _, name := range []string{"first", "second"} {
		b.blockSum(t, r, b.tile(name, dtype.Float, 4))
	}
	b.Store(b.Load(r), y, t)
	return b.launch()
}

// ticket sums all elements: the block that arrives last adds up the partial
// sums, which several threads of each block wrote.
func ticket() launch {
	b := newKernel("ticket")
	const threads, blocks, parts = 128, 5, 4
	t, block, zero := b.Thread(0, threads), b.BlockIndex(0, b.n(blocks)), b.n(0)
	x, y := b.input("x", blocks, threads), b.output("y", func(int) float32 { return sum(0, threads*blocks) }, 1)
	work, _ := b.work("work", blocks*parts)
	counter := b.counter("counter")
	first, lane := b.T.Eq(t, zero), b.T.Mod(t, b.n(32))
	scratch, flag := b.tile("scratch", dtype.Float, 4), b.tile("flag", dtype.Bool, 1)
	r := b.Local("r", dtype.Float)
	b.Store(b.Load(x, block, t), r)
	b.warpSum(r)
	b.If(b.T.Eq(lane, zero), func() { b.Store(b.Load(r), work, b.T.Add(b.T.Mul(block, b.n(parts)), b.T.FloorDiv(t, b.n(32)))) }, nil)
	b.If(first, func() {
		b.Add(kir.Fence{Scope: kir.GridScope})
		old := b.AtomicAdd("arrival", b.Number(dtype.Int32, 1), b.At(counter, zero))
		b.Add(kir.Fence{Scope: kir.GridScope})
		b.Store(b.Index(dtype.Bool, b.T.Eq(old, b.n(blocks-1))), flag, zero)
	}, nil)
	last := b.Let("last", b.Load(flag, zero), scalar.Facts{})
	b.If(last, func() {
		b.Store(b.float(0), r)
		b.If(b.T.Lt(t, b.n(blocks*parts)), func() { b.Store(b.Load(work, t), r) }, nil)
		b.blockSum(t, r, scratch)
		b.If(first, func() {
			b.Store(b.Load(r), y, zero)
			b.Store(b.Number(dtype.Int32, 0), counter, zero)
		}, nil)
	}, nil)
	return b.launch()
}

// allreduce gives every block the sum of all through device memory.
func allreduce() launch {
	b := newKernel("allreduce")
	const threads, blocks = 128, 4
	t, block := b.Thread(0, threads), b.BlockIndex(0, b.n(blocks))
	x := b.input("x", blocks, threads)
	y := b.output("y", func(i int) float32 { return sample(i) - sum(0, threads*blocks) }, blocks, threads)
	work, _ := b.work("work", blocks)
	scratch := b.tile("scratch", dtype.Float, 4)
	r, total := b.Local("r", dtype.Float), b.Local("total", dtype.Float)
	b.Store(b.Load(x, block, t), r)
	b.blockSum(t, r, scratch)
	b.If(b.T.Eq(t, b.n(0)), func() { b.Store(b.Load(r), work, block) }, nil)
	b.Store(b.float(0), total)
	b.Repeat("k", blocks, kir.UnrollAuto, func(k scalar.ID) {
		b.Store(b.Op(core.AddOp, b.Load(total), b.Load(work, k)), total)
	})
	b.Store(b.Op(core.SubOp, b.Load(x, block, t), b.Load(total)), y, block, t)
	return b.launch()
}

// intermediate goes through device memory, by other threads of the same block.
func intermediate() launch {
	b := newKernel("intermediate")
	const threads, blocks = 64, 3
	t, block := b.Thread(0, threads), b.BlockIndex(0, b.n(blocks))
	x := b.input("x", blocks, threads)
	y := b.output("y", func(i int) float32 { return sample(i/threads*threads + threads - 1 - i%threads) }, blocks, threads)
	work, _ := b.work("work", blocks, threads)
	b.Store(b.Load(x, block, t), work, block, t)
	b.Store(b.Load(work, block, b.mirrored(t, threads)), y, block, t)
	return b.launch()
}

// transpose goes through a tile with a padded row.
func transpose() launch {
	b := newKernel("transpose")
	const n, m = 40, 70
	tx, ty := b.Thread(0, 32), b.Thread(1, 8)
	bx, by := b.T.Mul(b.BlockIndex(0, b.n((m+31)/32)), b.n(32)), b.T.Mul(b.BlockIndex(1, b.n((n+31)/32)), b.n(32))
	x, y := b.input("x", n, m), b.output("y", func(i int) float32 { return sample(i%n*m + i/n) }, m, n)
	tile := b.tile("tile", dtype.Float, 32, 33)
	step := func(body func(row scalar.ID)) {
		b.Repeat("k", 4, kir.UnrollFull, func(k scalar.ID) { body(b.T.Add(b.T.Mul(k, b.n(8)), ty)) })
	}
	step(func(row scalar.ID) {
		i, j := b.T.Add(by, row), b.T.Add(bx, tx)
		b.If(b.T.And(b.T.Lt(i, b.n(n)), b.T.Lt(j, b.n(m))), func() { b.Store(b.Load(x, i, j), tile, row, tx) }, nil)
	})
	step(func(row scalar.ID) {
		j, i := b.T.Add(bx, row), b.T.Add(by, tx)
		b.If(b.T.And(b.T.Lt(i, b.n(n)), b.T.Lt(j, b.n(m))), func() { b.Store(b.Load(tile, tx, row), y, j, i) }, nil)
	})
	return b.launch()
}

// doubleBuffer reverses rows through a tile with slots that are used in turn.
func doubleBuffer(slots int64) launch {
	b := newKernel("doubleBuffer")
	const threads, count = 64, 6
	t := b.Thread(0, threads)
	x := b.input("x", count, threads)
	y := b.output("y", func(i int) float32 { return sample(i/threads*threads + threads - 1 - i%threads) }, count, threads)
	tile := b.tile("tile", dtype.Float, slots, threads)
	b.Repeat("i", count, kir.UnrollNone, func(i scalar.ID) {
		slot := b.T.Mod(i, b.n(slots))
		b.Store(b.Load(x, i, t), tile, slot, t)
		b.Store(b.Load(tile, slot, b.mirrored(t, threads)), y, i, t)
	})
	return b.launch()
}

// chain reverses elements through several tiles in a row; each is alive only
// next to its neighbours.
func chain(bytes ...int64) launch {
	b := newKernel("chain")
	const threads = 64
	t := b.Thread(0, threads)
	x := b.input("x", threads)
	y := b.output("y", func(i int) float32 {
		if len(bytes)%2 == 0 {
			return sample(i)
		}
		return sample(threads - 1 - i)
	}, threads)
	r := b.Local("r", dtype.Float)
	b.Store(b.Load(x, t), r)
	for i, n := range bytes {
		tile := b.tile("tile"+string(rune('A'+i)), dtype.Float, n/4)
		b.Store(b.Load(r), tile, t)
		b.Store(b.Load(tile, b.mirrored(t, threads)), r)
	}
	b.Store(b.Load(r), y, t)
	return b.launch()
}

// persistent keeps symbolically many elements of a row in shared memory; each
// thread reads its own.
func persistent() launch {
	b := newKernel("persistent")
	const threads, size = 32, 100
	n := b.Integer("n", scalar.Range(1, 1<<12))
	b.memory = append(b.memory, sim.Argument{Number: scalar.Value{Type: dtype.Index, I: size}})
	t := b.Thread(0, threads)
	x := b.input("x", size)
	y := b.output("y", func(i int) float32 { return sample(i) + sample(i) }, size)
	steps := b.T.CeilDiv(n, b.n(threads))
	row, other := b.symbolicTile("row", dtype.Float, b.T.Mul(steps, b.n(threads))), b.symbolicTile("other", dtype.Float, b.T.Mul(steps, b.n(threads)))
	each := func(name string, body func(i scalar.ID)) {
		b.For(name, b.n(0), steps, b.n(1), kir.UnrollNone, func(k scalar.ID) {
			i := b.T.Add(b.T.Mul(k, b.n(threads)), t)
			b.If(b.T.Lt(i, n), func() { body(i) }, nil)
		})
	}
	each("k", func(i scalar.ID) {
		b.Store(b.Load(x, i), row, i)
		b.Store(b.Load(x, i), other, i)
	})
	each("j", func(i scalar.ID) { b.Store(b.Op(core.AddOp, b.Load(row, i), b.Load(other, i)), y, i) })
	return b.launch()
}

// branches writes in both sides of a condition on the block, and reads after it.
func branches() launch {
	b := newKernel("branches")
	const threads, blocks = 64, 2
	t, block := b.Thread(0, threads), b.BlockIndex(0, b.n(blocks))
	x := b.input("x", blocks, threads)
	y := b.output("y", func(i int) float32 {
		return float32(1+i/threads) * sample(i/threads*threads+threads-1-i%threads)
	}, blocks, threads)
	s := b.tile("s", dtype.Float, threads)
	v := func(f float64) kir.ValueID { return b.times(f, b.Load(x, block, t)) }
	b.If(b.T.Eq(block, b.n(0)), func() { b.Store(v(1), s, t) }, func() { b.Store(v(2), s, t) })
	b.Store(b.Load(s, b.mirrored(t, threads)), y, block, t)
	return b.launch()
}

// unswitched writes an output in two copies of a loop, of which each block runs
// one.
func unswitched() launch {
	b := newKernel("unswitched")
	const threads, size = 64, 300
	n := b.Integer("n", scalar.Range(1, 1<<20))
	b.memory = append(b.memory, sim.Argument{Number: scalar.Value{Type: dtype.Index, I: size}})
	t, block := b.Thread(0, threads), b.BlockIndex(0, b.T.CeilDiv(n, b.n(2*threads)))
	x := b.input("x", size)
	y := b.output("y", func(i int) float32 { return 2 * sample(i) }, size)
	body := func(k scalar.ID, guard bool) {
		i := b.T.Add(b.T.Mul(b.T.Add(b.T.Mul(block, b.n(2)), k), b.n(threads)), t)
		store := func() { b.Store(b.times(2, b.Load(x, i)), y, i) }
		if guard {
			b.If(b.T.Lt(i, n), store, nil)
		} else {
			store()
		}
	}
	whole := b.T.Le(b.T.Mul(b.T.Add(block, b.n(1)), b.n(2*threads)), n)
	b.If(whole, func() { b.Repeat("k", 2, kir.UnrollFull, func(k scalar.ID) { body(k, false) }) },
		func() { b.Repeat("j", 2, kir.UnrollFull, func(k scalar.ID) { body(k, true) }) })
	return b.launch()
}

// kept reads the same tile in every iteration, before a second one is used.
func kept() launch {
	b := newKernel("kept")
	const threads, count = 64, 3
	t := b.Thread(0, threads)
	x := b.input("x", threads)
	y := b.output("y", func(i int) float32 { return 2 * sample(i%threads) }, count, threads)
	first := b.tile("first", dtype.Float, threads)
	b.Store(b.Load(x, t), first, t)
	b.Repeat("i", count, kir.UnrollNone, func(i scalar.ID) {
		r := b.Local("r", dtype.Float)
		b.Store(b.times(2, b.Load(first, b.mirrored(t, threads))), r)
		second := b.tile("second", dtype.Float, threads)
		b.Store(b.Load(r), second, t)
		b.Store(b.Load(second, b.mirrored(t, threads)), y, i, t)
	})
	return b.launch()
}

// sides uses a tile in each side of a condition on which threads differ, and a
// third one after it.
func sides() launch {
	b := newKernel("sides")
	const threads = 64
	t := b.Thread(0, threads)
	x := b.input("x", threads)
	y := b.output("y", func(i int) float32 {
		if i = threads - 1 - i; i < 40 {
			return 2 * sample(i)
		}
		return 3 * sample(i)
	}, threads)
	r := b.Local("r", dtype.Float)
	side := func(name string, f float64) func() {
		return func() {
			tile := b.tile(name, dtype.Float, threads)
			b.Store(b.times(f, b.Load(x, t)), tile, t)
			b.Store(b.Load(tile, t), r)
		}
	}
	b.If(b.T.Lt(t, b.n(40)), side("low", 2), side("high", 3))
	last := b.tile("last", dtype.Float, threads)
	b.Store(b.Load(r), last, t)
	b.Store(b.Load(last, b.mirrored(t, threads)), y, t)
	return b.launch()
}

// histogram counts in device memory; threads add to the same elements.
func histogram() launch {
	b := newKernel("histogram")
	const threads, bins = 64, 4
	t := b.Thread(0, threads)
	y := b.output("y", func(int) float32 { return threads / bins }, threads)
	work, _ := b.work("work", bins)
	bin := b.T.Mod(t, b.n(bins))
	b.If(b.T.Lt(t, b.n(bins)), func() { b.Store(b.float(0), work, t) }, nil)
	b.Add(kir.AtomicAdd{Dst: b.At(work, bin), Value: b.float(1), Old: kir.NoSymbol})
	b.Store(b.Load(work, bin), y, t)
	return b.launch()
}

// neighbours reads what the next thread of the other block wrote.
func neighbours() launch {
	b := newKernel("neighbours")
	const threads, blocks = 64, 2
	t, block := b.Thread(0, threads), b.BlockIndex(0, b.n(blocks))
	x := b.input("x", blocks, threads)
	y := b.output("y", func(i int) float32 {
		if i%threads == threads-1 {
			return 0
		}
		return sample((1-i/threads)*threads + i%threads + 1)
	}, blocks, threads)
	work, _ := b.work("work", blocks*threads)
	at := b.T.Add(b.T.Mul(t, b.n(2)), block)
	other := b.T.Sub(b.T.Add(b.T.Mul(t, b.n(2)), b.n(3)), block)
	b.Store(b.Load(x, block, t), work, at)
	b.If(b.T.Lt(t, b.n(threads-1)), func() { b.Store(b.Load(work, other), y, block, t) },
		func() { b.Store(b.float(0), y, block, t) })
	return b.launch()
}

// turns loads which of two slots it is the turn of: an iteration writes one and
// reads the other, so that only the next one is in its way.
func turns() launch {
	b := newKernel("turns")
	const threads, count = 64, 4
	t := b.Thread(0, threads)
	x, turn := b.input("x", threads), b.Input("turn", dtype.Int, b.n(count))
	data := make([]byte, 8*count)
	data[8], data[24] = 1, 1
	b.memory = append(b.memory, sim.Argument{Memory: &sim.Memory{Data: data}})
	y := b.output("y", func(i int) float32 { return float32(i/threads) * sample(threads-1-i%threads) }, count, threads)
	tile := b.tile("tile", dtype.Float, 2, threads)
	b.Store(b.float(0), tile, b.n(1), t)
	b.Repeat("i", count, kir.UnrollNone, func(i scalar.ID) {
		k := b.Let("k", b.Load(turn, i), scalar.Range(0, 1))
		b.Store(b.Op(core.MulOp, b.Index(dtype.Float, b.T.Add(i, b.n(1))), b.Load(x, t)), tile, k, t)
		b.Store(b.Load(tile, b.T.Sub(b.n(1), k), b.mirrored(t, threads)), y, i, t)
	})
	return b.launch()
}

// redundantly stores one element several times by all threads.
func redundantly() launch {
	b := newKernel("redundantly")
	const threads, blocks = 64, 2
	t, block := b.Thread(0, threads), b.BlockIndex(0, b.n(blocks))
	y := b.output("y", func(int) float32 { return 1 }, blocks, threads)
	work, _ := b.work("work", blocks)
	b.Repeat("i", 3, kir.UnrollNone, func(scalar.ID) {
		b.Add(kir.Assign{Dst: b.At(work, block), Value: b.float(1), Redundant: true})
	})
	b.Store(b.Load(work, block), y, block, t)
	return b.launch()
}

// otherwise reads what another thread stored on the second side of a condition
// alone.
func otherwise() launch {
	b := newKernel("otherwise")
	const threads = 64
	t := b.Thread(0, threads)
	x, y := b.input("x", threads), b.output("y", func(i int) float32 {
		if i < 40 {
			return 0
		}
		return sample(threads - 1 - i)
	}, threads)
	s := b.tile("s", dtype.Float, threads)
	b.Store(b.Load(x, t), s, t)
	b.If(b.T.Lt(t, b.n(40)), func() { b.Store(b.float(0), y, t) },
		func() { b.Store(b.Load(s, b.mirrored(t, threads)), y, t) })
	return b.launch()
}

// halfOrdered has a barrier between a store to device memory and its use in
// one of two blocks only, for another reason.
func halfOrdered() launch {
	b := newKernel("halfOrdered")
	const threads, blocks = 64, 2
	t, block := b.Thread(0, threads), b.BlockIndex(0, b.n(blocks))
	x := b.input("x", blocks, threads)
	y := b.output("y", func(i int) float32 {
		n := sample(i/threads*threads + threads - 1 - i%threads)
		if i < threads {
			n += n
		}
		return n
	}, blocks, threads)
	work, _ := b.work("work", blocks, threads)
	s, r := b.tile("s", dtype.Float, threads), b.Local("r", dtype.Float)
	b.Store(b.float(0), r)
	b.Store(b.Load(x, block, t), work, block, t)
	b.If(b.T.Eq(block, b.n(0)), func() {
		b.Store(b.Load(x, block, t), s, t)
		b.Store(b.Load(s, b.mirrored(t, threads)), r)
	}, nil)
	b.Store(b.Op(core.AddOp, b.Load(r), b.Load(work, block, b.mirrored(t, threads))), y, block, t)
	return b.launch()
}

// blind has threads that no index tells apart.
func blind() launch {
	b := newKernel("blind")
	b.Kernel().Launch.Block[0] = b.n(64)
	y := b.output("y", func(int) float32 { return 2 }, 1)
	s := b.tile("s", dtype.Float, 1)
	b.Add(kir.Assign{Dst: b.At(s, b.n(0)), Value: b.float(2), Redundant: true})
	b.Add(kir.Assign{Dst: b.At(y, b.n(0)), Value: b.Load(s, b.n(0)), Redundant: true})
	return b.launch()
}

// clusterSum adds up what the blocks of a cluster have, three times: each sends its
// number to slots of all of them, some in turn.
func clusterSum(turns int64) launch {
	b := newKernel("clusterSum")
	const threads, blocks, size, rounds = 40, 8, 4, 3
	b.Kernel().Launch.Cluster[0] = size
	x := b.input("x", rounds, blocks)
	y := b.output("y", func(i int) float32 {
		first := i / threads / size * size
		s := float32(0)
		for r := range rounds {
			s += sum(r*blocks+first, r*blocks+first+size)
		}
		return s
	}, blocks, threads)
	t, block := b.Thread(0, threads), b.BlockIndex(0, b.n(blocks))
	slots := b.tile("slots", dtype.Float, turns, size)
	b.Add(kir.Barrier{Scope: kir.ClusterScope})
	total := b.Local("total", dtype.Float)
	b.Store(b.float(0), total)
	b.Repeat("i", rounds, kir.UnrollNone, func(i scalar.ID) {
		turn := b.T.Mod(i, b.n(turns))
		b.If(b.T.Lt(t, b.n(size)), func() {
			b.Add(kir.Send{Dst: b.At(slots, turn, b.T.Mod(block, b.n(size))), Rank: t, Value: b.Load(x, i, block)})
		}, nil)
		b.Repeat("k", size, kir.UnrollFull, func(k scalar.ID) {
			b.Store(b.Op(core.AddOp, b.Load(total), b.Load(slots, turn, k)), total)
		})
	})
	b.Store(b.Load(total), y, block, t)
	return b.launch()
}

// arrivals adds up what the blocks of a cluster have, twice, and what another thread has: each
// block sends its number to slots of all of them, where it is counted.
func arrivals() launch {
	b := newKernel("arrivals")
	const threads, blocks, size, rounds = 40, 8, 4, 2
	b.Kernel().Launch.Cluster[0] = size
	x := b.input("x", rounds, blocks)
	y := b.output("y", func(i int) float32 {
		first := i / threads / size * size
		return sum(first, first+size) + sum(blocks+first, blocks+first+size) + float32(threads-1-i%threads)
	}, blocks, threads)
	t, block := b.Thread(0, threads), b.BlockIndex(0, b.n(blocks))
	own, total := b.tile("own", dtype.Float, threads), b.Local("total", dtype.Float)
	var words, slots []kir.BufferID
	for range rounds {
		words, slots = append(words, b.tile("word", dtype.Int, 1)), append(slots, b.tile("slots", dtype.Float, size))
		b.Add(kir.Expect{Arrivals: words[len(words)-1], Bytes: 4 * size})
	}
	b.Add(kir.ClusterStart{})
	b.Store(b.Index(dtype.Float, t), own, t)
	b.Store(b.float(0), total)
	b.Add(kir.ClusterStart{Wait: true})
	for i, s := range slots {
		b.If(b.T.Lt(t, b.n(size)), func() {
			b.Add(kir.Send{Dst: b.At(s, b.T.Mod(block, b.n(size))), Rank: t, Value: b.Load(x, b.n(int64(i)), block), Counted: true, Arrivals: words[i]})
		}, nil)
		b.Add(kir.Arrived{Arrivals: words[i]})
		b.Repeat("k", size, kir.UnrollFull, func(k scalar.ID) {
			b.Store(b.Op(core.AddOp, b.Load(total), b.Load(s, k)), total)
		})
	}
	b.Store(b.Op(core.AddOp, b.Load(total), b.Load(own, b.mirrored(t, threads))), y, block, t)
	return b.launch()
}

// groups adds up what each group of threads with one index along z has, in a loop, of which two
// iterations in a row have slots of their own. With others, a group takes what the next one has.
func groups(others bool) launch {
	b := newKernel("groups")
	const lanes, warps, count, rounds = 32, 2, 3, 4
	x := b.input("x", rounds, count, warps)
	y := b.output("y", func(i int) float32 {
		group := i / (lanes * warps)
		if others {
			group = (group + 1) % count
		}
		s := float32(0)
		for r := range rounds {
			s += sum((r*count+group)*warps, (r*count+group+1)*warps)
		}
		return s
	}, count, warps, lanes)
	t, warp, group := b.Thread(0, lanes), b.Thread(1, warps), b.Thread(2, count)
	slots, total := b.tile("slots", dtype.Float, 2, count, warps), b.Local("total", dtype.Float)
	b.Store(b.float(0), total)
	b.Repeat("i", rounds, kir.UnrollNone, func(i scalar.ID) {
		turn, from := b.T.Mod(i, b.n(2)), group
		if others {
			from = b.T.Mod(b.T.Add(group, b.n(1)), b.n(count))
		}
		b.If(b.T.Eq(t, b.n(0)), func() { b.Store(b.Load(x, i, group, warp), slots, turn, group, warp) }, nil)
		b.Repeat("k", warps, kir.UnrollFull, func(k scalar.ID) {
			b.Store(b.Op(core.AddOp, b.Load(total), b.Load(slots, turn, from, k)), total)
		})
	})
	b.Store(b.Load(total), y, group, warp, t)
	return b.launch()
}

// kernels are those that can be planned.
var kernels = map[string]func() launch{
	"own": own, "staged": staged, "tree": tree, "columns": columns, "rows": rows, "twoSums": twoSums,
	"ticket": ticket, "allreduce": allreduce, "intermediate": intermediate, "transpose": transpose,
	"pipeline":                standard.build,
	"pipeline own":            standard.with(func(f *pipelineForm) { f.mirror, f.epilogue = false, false }),
	"pipeline without end":    standard.with(func(f *pipelineForm) { f.epilogue = false }),
	"pipeline symbolic":       standard.with(func(f *pipelineForm) { f.symbolic, f.skip = true, true }),
	"pipeline of zeros":       standard.with(func(f *pipelineForm) { f.symbolic = true }),
	"pipeline long":           standard.with(func(f *pipelineForm) { f.tiles, f.slots, f.ahead = 11, 4, 3 }),
	"pipeline no commits":     standard.with(func(f *pipelineForm) { f.commits = false }),
	"pipeline skip no commit": standard.with(func(f *pipelineForm) { f.commits, f.skip = false, true }),
	"pipeline with slack":     standard.with(func(f *pipelineForm) { f.slots, f.symbolic = 4, true }),
	"pipeline two slots":      standard.with(func(f *pipelineForm) { f.slots, f.ahead, f.symbolic = 2, 1, true }),
	"pipeline again":          standard.with(func(f *pipelineForm) { f.again, f.symbolic = true, true }),
	"pipeline again, fixed":   standard.with(func(f *pipelineForm) { f.again, f.tiles = true, 3 }),
	"halfWaited":              halfWaited,
	"sometimes":               sometimes,
	"asyncTile":               asyncTile,
	"zeroFilled":              zeroFilled,
	"doubleBuffer":            func() launch { return doubleBuffer(2) },
	"singleBuffer":            func() launch { return doubleBuffer(1) },
	"tripleBuffer":            func() launch { return doubleBuffer(3) },
	"chain":                   func() launch { return chain(256, 1024, 512, 2048) },
	"persistent":              persistent,
	"branches":                branches,
	"unswitched":              unswitched,
	"kept":                    kept,
	"sides":                   sides,
	"histogram":               histogram,
	"neighbours":              neighbours,
	"turns":                   turns,
	"redundantly":             redundantly,
	"otherwise":               otherwise,
	"halfOrdered":             halfOrdered,
	"blind":                   blind,
	"cluster":                 func() launch { return clusterSum(2) },
	"cluster, one slot":       func() launch { return clusterSum(1) },
	"arrivals":                arrivals,
	"groups":                  func() launch { return groups(false) },
	"groups, of others":       func() launch { return groups(true) },
}
