package lower

import (
	"math/bits"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// warp is the number of lanes that shuffle.
const warp = 32

// acrossThreads emits a reduction of which threads or blocks each have a part.
// Every thread of the block gets the result of the block; of several blocks, the
// last to arrive gets that of all.
func (c *context) acrossThreads(id core.ExprID, f fold, g guard, across []schedule.Parallel) error {
	e := c.f.Expr(id)
	part := make([]kir.BufferID, len(f.types))
	for k, t := range f.types {
		part[k] = c.b.Local(c.name("part"), t)
		c.b.Store(c.b.Const(f.identity(k)), part[k])
	}
	adds := guard{tests: g.tests, once: g.once} // every thread goes on with a state
	err := c.under(&guarded{id: id, g: adds, fold: &f}, c.all(c.conditions(g.tests), g.once), func() error {
		x, err := c.contribution(e, f)
		if f.op == core.WelfordOp {
			x = append(x, c.b.Const(core.ConvertScalar(f.types[1], scalar.Value{Type: dtype.Int})), c.b.Number(f.types[2], 1))
		}
		if err == nil {
			for k := range part {
				c.b.Store(x[k], part[k])
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	r := &threadReduction{context: c, fold: f, part: part}
	if err := r.split(across); err != nil {
		return err
	}
	r.block()
	if len(r.blocks) > 0 {
		if err := r.grid(id); err != nil {
			return err
		}
	}
	return c.storeReduced(id, f, r)
}

// storeReduced folds the results into the tensors, in the threads that write
// them. One tensor may have room for points without an element where another has
// not.
func (c *context) storeReduced(id core.ExprID, f fold, r *threadReduction) error {
	w := c.context(c.tensor.v, true)
	g, err := w.guard(id, true)
	if err != nil {
		return err
	}
	for _, v := range c.f.Expr(id).Out[1:] {
		other, err := c.lowering.context(v, true).guard(id, true)
		if err != nil {
			return err
		}
		g.tests = append(g.tests, other.tests...)
	}
	_, valid := c.limits(c.f.Expr(id))
	if x, ok := c.limited[c.tensor.v]; ok {
		valid = c.t.And(valid, x.valid)
	}
	return c.conditional(c.all(c.conditions(g.tests), g.among, []scalar.ID{valid}), func() error {
		if len(r.blocks) == 0 {
			return w.accumulate(c.f.Expr(id), f, r.state())
		}
		for k, v := range c.f.Expr(id).Out { // nothing was there before
			dst, err := w.write(v)
			if err != nil {
				return err
			}
			c.assign(dst, r.b.Load(r.part[k]))
		}
		return nil
	})
}

// A threadReduction combines one state per thread.
type threadReduction struct {
	*context
	fold   fold
	part   []kir.BufferID // of the thread
	dims   []int          // of the block, reduced
	kept   []int
	blocks []schedule.Parallel
	size   [3]int64 // of the block
}

// split sorts the dimensions. Those of the block must be constants: scratch
// memory and shuffles depend on them.
func (r *threadReduction) split(across []schedule.Parallel) error {
	for i := range 3 {
		d := r.dimension(schedule.TIDx + schedule.Parallel(i))
		reduced := slices.Contains(across, d.parallel)
		if r.size[i] = 1; !d.used {
			continue
		}
		n, ok := r.t.ConstInt(d.extent)
		if !ok {
			return r.refuse("block size", r.tensor.v, "%s is reduced across threads and the block has %s of them along %v, which is not a constant",
				r.f.Name(r.tensor.v), r.b.Kernel().Expr(d.extent), d.parallel)
		}
		if r.size[i] = n; reduced {
			r.dims = append(r.dims, i)
		} else {
			r.kept = append(r.kept, i)
		}
	}
	for _, p := range across {
		if p.IsBlock() {
			r.blocks = append(r.blocks, p)
		}
	}
	return nil
}

// linear returns the row-major number of the thread among those that differ in
// dims, the last dimension first, and how many they are.
func (r *threadReduction) linear(dims []int) (index, int64) {
	at, n := r.t.Int(0), int64(1)
	for i := len(dims) - 1; i >= 0; i-- {
		size := r.size[dims[i]]
		at = r.t.Add(r.t.Mul(at, r.t.Int(size)), r.dimension(schedule.TIDx+schedule.Parallel(dims[i])).symbol)
		n *= size
	}
	return at, n
}

func (r *threadReduction) state() []kir.ValueID {
	x := make([]kir.ValueID, len(r.part))
	for k, b := range r.part {
		x[k] = r.b.Load(b)
	}
	return x
}

func (r *threadReduction) set(x []kir.ValueID) {
	for k, v := range x {
		r.b.Store(v, r.part[k])
	}
}

// block gives every thread the combination of the block: by shuffles where the
// threads along x are whole warps or a fraction of one, else by a tree in
// shared memory.
func (r *threadReduction) block() {
	if len(r.dims) == 0 {
		return
	}
	if n := r.size[0]; len(r.dims) == 1 && r.dims[0] == 0 {
		switch {
		case n <= warp && bits.OnesCount64(uint64(n)) == 1:
			r.butterfly(n)
			return
		case n%warp == 0:
			r.butterfly(warp)
			r.acrossWarps(n / warp)
			return
		}
	}
	r.tree()
}

// butterfly gives each lane the combination of its group of n, the same bits.
func (r *threadReduction) butterfly(n int64) {
	for lane := n / 2; lane > 0; lane /= 2 {
		own := r.state()
		other := make([]kir.ValueID, len(own))
		for k, v := range own {
			other[k] = r.temporary("other", r.b.Shuffle(kir.ShuffleXor, v, lane, int(n)))
		}
		r.set(r.combine(r.fold, own, other))
	}
	if r.fold.isSymmetric() || n == 1 {
		return
	}
	first := r.state()
	for k, v := range first {
		first[k] = r.temporary("first", r.b.ShuffleAt(v, r.t.Int(0), int(n)))
	}
	r.set(first)
}

// acrossWarps combines n warps along x: the first lane of each writes, and every
// warp reads all.
func (r *threadReduction) acrossWarps(n int64) {
	if n == 1 {
		return
	}
	row, rows := r.linear(r.kept)
	scratch := r.scratch(rows, n)
	x := r.dimension(schedule.TIDx).symbol
	lane, number := r.t.Mod(x, r.t.Int(warp)), r.t.FloorDiv(x, r.t.Int(warp))
	r.b.If(r.t.Eq(lane, r.t.Int(0)), func() {
		for k, v := range r.state() {
			r.b.Store(v, scratch[k], row, number)
		}
	}, nil)
	group := int64(2)
	for group < n {
		group *= 2
	}
	at := r.t.Mod(x, r.t.Int(group))
	for k := range r.part {
		r.b.Store(r.b.Const(r.fold.identity(k)), r.part[k])
	}
	_ = r.conditional(r.t.Lt(at, r.t.Int(n)), func() error {
		for k := range r.part {
			r.b.Store(r.b.Load(scratch[k], row, at), r.part[k])
		}
		return nil
	})
	r.butterfly(group)
}

// tree folds the upper half of the threads onto the lower until one is left.
func (r *threadReduction) tree() {
	column, columns := r.linear(r.kept)
	at, n := r.linear(r.dims)
	if n == 1 {
		return
	}
	scratch := r.scratch(n, columns)
	store := func() {
		for k, v := range r.state() {
			r.b.Store(v, scratch[k], at, column)
		}
	}
	store()
	half := int64(1)
	for half*2 < n {
		half *= 2
	}
	for ; half > 0; half /= 2 {
		upper := r.t.Add(at, r.t.Int(half))
		mask := r.t.Lt(at, r.t.Int(half))
		if 2*half > n {
			mask = r.t.And(mask, r.t.Lt(upper, r.t.Int(n)))
		}
		// Reads and writes are statements of their own: between the two of
		// different threads there is a barrier.
		r.b.If(mask, func() {
			other := make([]kir.ValueID, len(scratch))
			for k := range scratch {
				other[k] = r.b.Load(scratch[k], upper, column)
			}
			r.set(r.combine(r.fold, r.state(), other))
		}, nil)
		r.b.If(mask, store, nil)
		n = half
	}
	for k := range r.part {
		r.b.Store(r.b.Load(scratch[k], r.t.Int(0), column), r.part[k])
	}
}

// scratch declares shared memory for a state per point of shape.
func (r *threadReduction) scratch(shape ...int64) []kir.BufferID {
	ids := make([]index, len(shape))
	for i, n := range shape {
		ids[i] = r.t.Int(n)
	}
	out := make([]kir.BufferID, len(r.part))
	for k, t := range r.fold.types {
		out[k] = r.shared(r.name("scratch"), t, ids...)
	}
	return out
}

// shared declares a buffer that synchronise places.
func (l *lowering) shared(name string, t dtype.Type, shape ...index) kir.BufferID {
	id := l.b.Buffer(name, kir.Shared, t, shape...)
	buffer := &l.b.Kernel().Buffers[id]
	buffer.Align, buffer.Offset = 16, l.t.Int(0)
	l.b.Add(kir.Declare{Buffer: id})
	return id
}

// A limit says that only one block along dims has a tensor's elements: the one
// where valid holds.
type limit struct {
	dims  []schedule.Parallel
	valid scalar.ID
}

// grid combines the blocks along the reduced dimensions: each leaves its state in
// global memory and takes a ticket; the last one folds them in the order of
// their numbers, whatever the order of arrival, and leaves the counter at 0.
func (r *threadReduction) grid(id core.ExprID) error {
	if dims, _ := r.limits(r.f.Expr(id)); len(dims) > 0 {
		return r.refuse("grid reduction", r.tensor.v, "%s is reduced across blocks and reads the result of another such reduction", r.f.Name(r.tensor.v))
	}
	for _, class := range r.m.Nest(id) {
		if !r.isSpread(class) && !r.isOne(r.m.Promotion(class)) {
			return r.refuse("grid reduction", r.tensor.v, "%s is reduced across blocks inside a loop: reduce the loop's axis first by rfactor()", r.f.Name(r.tensor.v))
		}
	}
	segment, segments := r.blockNumber(func(p schedule.Parallel) bool { return !slices.Contains(r.blocks, p) })
	number, blocks := r.blockNumber(func(p schedule.Parallel) bool { return slices.Contains(r.blocks, p) })
	column, columns := r.linear(r.kept)
	leader := r.t.Bool(true)
	for _, i := range r.dims {
		leader = r.t.And(leader, r.t.Eq(r.dimension(schedule.TIDx+schedule.Parallel(i)).symbol, r.t.Int(0)))
	}
	work := make([]kir.BufferID, len(r.part))
	for k, t := range r.fold.types {
		work[k] = r.b.Global(r.name("work"), t, segments, blocks, r.t.Int(columns))
	}
	counter := r.b.Global(r.name("arrived"), dtype.Int, segments)
	r.b.Kernel().Buffers[counter].Zeroed = true
	_ = r.conditional(leader, func() error {
		for k, v := range r.state() {
			r.b.Store(v, work[k], segment, number, column)
		}
		return nil
	})
	r.b.Add(kir.Barrier{Scope: kir.BlockScope}) // the ticket tells of the whole block
	ticket := r.shared(r.name("ticket"), dtype.Int)
	r.first(func() {
		r.b.Add(kir.Fence{Scope: kir.GridScope})
		old := r.b.AtomicAdd(r.name("old"), r.b.Number(dtype.Int, 1), r.b.At(counter, segment))
		r.below[old] = blocks
		r.b.Add(kir.Fence{Scope: kir.GridScope}) // and the barrier before the ticket is read
		r.b.Store(r.b.Index(dtype.Int, old), ticket)
	})
	isLast := r.b.Op(core.EqOp, r.b.Load(ticket), r.b.Index(dtype.Int, r.t.Sub(blocks, r.t.Int(1))))
	last := r.b.Let(r.name("last"), isLast, scalar.Facts{Lo: 0, Hi: 1, Divisor: 1})
	r.b.If(last, func() {
		for k := range r.part {
			r.b.Store(r.b.Const(r.fold.identity(k)), r.part[k])
		}
		r.b.For(r.name("block"), r.t.Int(0), blocks, r.t.Int(1), kir.UnrollAuto, func(i index) {
			other := make([]kir.ValueID, len(work))
			for k := range work {
				other[k] = r.b.Load(work[k], segment, i, column)
			}
			r.set(r.combine(r.fold, r.state(), other))
		})
		r.first(func() { r.b.Store(r.b.Number(dtype.Int, 0), counter, segment) })
	}, nil)
	for _, v := range r.f.Expr(id).Out {
		r.limited[v] = limit{r.blocks, last}
	}
	return nil
}

// first emits body for the first thread of the block.
func (l *lowering) first(body func()) {
	is := l.t.Bool(true)
	for _, d := range l.dimensions {
		if d.used && d.parallel.IsThread() {
			is = l.t.And(is, l.t.Eq(d.symbol, l.t.Int(0)))
		}
	}
	_ = l.conditional(is, func() error { body(); return nil })
}

// blockNumber returns the number of the block among those along the dimensions
// of the grid that are selected, and how many they are.
func (l *lowering) blockNumber(selected func(schedule.Parallel) bool) (at, n index) {
	at, n = l.t.Int(0), l.t.Int(1)
	for i := len(l.dimensions) - 1; i >= 0; i-- {
		if d := &l.dimensions[i]; d.used && d.parallel.IsBlock() && selected(d.parallel) {
			at = l.t.Add(l.t.Mul(at, d.extent), d.symbol)
			n = l.t.Mul(n, d.extent)
		}
	}
	return at, n
}
