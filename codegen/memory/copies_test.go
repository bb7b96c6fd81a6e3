package memory_test

import (
	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A pipelineForm is how pipeline is written.
type pipelineForm struct {
	slots, ahead, tiles int64
	again               bool // the whole is in a loop, and the number of rounds an argument
	symbolic            bool // the number of tiles is an argument
	skip                bool // copies past the end are skipped, else they write zeros
	commits             bool // are there
	epilogue            bool
	mirror              bool // threads read what others copied
}

// pipeline adds up tiles that arrive through slots of shared memory. The
// epilogue reverses the result through shared memory.
func (f pipelineForm) build() launch {
	b := newKernel("pipeline")
	const threads = 64
	tiles := b.n(f.tiles)
	if f.symbolic {
		tiles = b.Integer("tiles", scalar.Range(0, 1<<20))
		b.memory = append(b.memory, sim.Argument{Number: scalar.Value{Type: dtype.Index, I: f.tiles}})
	}
	t := b.Thread(0, threads)
	x := b.input("x", f.tiles, 4*threads)
	rounds := int64(1)
	if f.again {
		rounds = 3
	}
	y := b.output("y", func(i int) float32 {
		var s float32
		i %= threads
		if f.mirror != f.epilogue {
			i = threads - 1 - i
		}
		for tile := range int(f.tiles) {
			s += sum(tile*4*threads+4*i, tile*4*threads+4*i+4)
		}
		return s
	}, rounds, threads)
	if f.again {
		n := b.Integer("rounds", scalar.Range(0, 1<<20))
		b.memory = append(b.memory, sim.Argument{Number: scalar.Value{Type: dtype.Index, I: rounds}})
		b.For("round", b.n(0), n, b.n(1), kir.UnrollNone, func(round scalar.ID) { f.round(b, round, t, tiles, x, y) })
	} else {
		f.round(b, b.n(0), t, tiles, x, y)
	}
	return b.launch()
}

func (f pipelineForm) round(b *kernel, round, t, tiles scalar.ID, x, y kir.BufferID) {
	const threads = 64
	four := b.n(4)
	buffer := b.tile("buffer", dtype.Float, f.slots, 4*threads)
	acc := b.Local("acc", dtype.Float)
	b.Store(b.float(0), acc)
	issue := func(tile scalar.ID) {
		copied := kir.AsyncCopy{Dst: b.Vector(4, buffer, b.T.Mod(tile, b.n(f.slots)), b.T.Mul(t, four)),
			Src: b.Vector(4, x, tile, b.T.Mul(t, four)), Guard: b.T.Lt(tile, tiles)}
		if f.skip {
			guard := copied.Guard
			copied.Guard = scalar.None
			b.If(guard, func() { b.Add(copied) }, nil)
		} else {
			b.Add(copied)
		}
		if f.commits {
			b.Add(kir.AsyncCommit{})
		}
	}
	b.Repeat("p", f.ahead, kir.UnrollFull, issue)
	b.For("i", b.n(0), tiles, b.n(1), kir.UnrollNone, func(i scalar.ID) {
		issue(b.T.Add(i, b.n(f.ahead)))
		from := t
		if f.mirror {
			from = b.mirrored(t, threads)
		}
		b.Repeat("e", 4, kir.UnrollFull, func(e scalar.ID) {
			b.Store(b.Op(core.AddOp, b.Load(acc), b.Load(buffer, b.T.Mod(i, b.n(f.slots)), b.T.Add(b.T.Mul(from, four), e))), acc)
		})
	})
	if !f.epilogue {
		b.Store(b.Load(acc), y, round, t)
		return
	}
	epilogue := b.tile("epilogue", dtype.Float, threads)
	b.Store(b.Load(acc), epilogue, b.mirrored(t, threads))
	b.Store(b.Load(epilogue, t), y, round, t)
}

// asyncTile copies one tile and reads it.
func asyncTile() launch {
	b := newKernel("asyncTile")
	const threads = 64
	t := b.Thread(0, threads)
	x, y := b.input("x", threads), b.output("y", func(i int) float32 { return sample(threads - 1 - i) }, threads)
	s := b.tile("s", dtype.Float, threads)
	b.Add(kir.AsyncCopy{Dst: b.At(s, t), Src: b.At(x, t), Guard: scalar.None})
	b.Store(b.Load(s, b.mirrored(t, threads)), y, t)
	return b.launch()
}

// halfWaited has a wait in one of two blocks.
func halfWaited() launch {
	b := newKernel("halfWaited")
	const threads, blocks = 64, 2
	t, block := b.Thread(0, threads), b.BlockIndex(0, b.n(blocks))
	x := b.input("x", blocks, threads)
	y := b.output("y", func(i int) float32 { return sample(i) }, blocks, threads)
	s := b.tile("s", dtype.Float, threads)
	b.Add(kir.AsyncCopy{Dst: b.At(s, t), Src: b.At(x, block, t), Guard: scalar.None})
	b.Add(kir.AsyncCommit{})
	b.If(b.T.Eq(block, b.n(0)), func() { b.Add(kir.AsyncWait{}) }, nil)
	b.Store(b.Load(s, t), y, block, t)
	return b.launch()
}

// sometimes takes a ticket if an argument says so, and reads what another block
// wrote in any case.
func sometimes() launch {
	b := newKernel("sometimes")
	const threads, blocks = 64, 2
	n := b.Integer("n", scalar.Range(0, 1))
	b.memory = append(b.memory, sim.Argument{Number: scalar.Value{Type: dtype.Index, I: 0}})
	t, block := b.Thread(0, threads), b.BlockIndex(0, b.n(blocks))
	x := b.input("x", blocks, threads)
	y := b.output("y", func(i int) float32 { return sample((i + threads) % (blocks * threads)) }, blocks, threads)
	work, _ := b.work("work", blocks, threads)
	counter := b.counter("counter")
	b.Store(b.Load(x, block, t), work, block, t)
	b.If(b.T.Eq(n, b.n(1)), func() {
		b.If(b.T.Eq(t, b.n(0)), func() {
			b.Add(kir.Fence{Scope: kir.GridScope})
			b.Add(kir.AtomicAdd{Dst: b.At(counter, b.n(0)), Value: b.Number(dtype.Int32, 1), Old: kir.NoSymbol})
			b.Add(kir.Fence{Scope: kir.GridScope})
		}, nil)
	}, nil)
	b.Store(b.Load(work, b.T.Sub(b.n(1), block), t), y, block, t)
	return b.launch()
}

// zeroFilled copies where a condition holds and stores zeros elsewhere.
func zeroFilled() launch {
	b := newKernel("zeroFilled")
	const threads = 64
	t := b.Thread(0, threads)
	x, y := b.input("x", threads), b.output("y", func(i int) float32 {
		if i >= 40 {
			return 0
		}
		return sample(i)
	}, threads)
	s := b.tile("s", dtype.Float, threads)
	b.If(b.T.Lt(t, b.n(40)), func() { b.Add(kir.AsyncCopy{Dst: b.At(s, t), Src: b.At(x, t), Guard: scalar.None}) },
		func() { b.Store(b.float(0), s, t) })
	b.Store(b.Load(s, t), y, t)
	return b.launch()
}

var standard = pipelineForm{slots: 3, ahead: 2, tiles: 5, commits: true, epilogue: true, mirror: true}

func (f pipelineForm) with(change func(f *pipelineForm)) func() launch {
	change(&f)
	return f.build
}
