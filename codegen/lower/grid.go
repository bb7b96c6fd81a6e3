package lower

import (
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// A limit says that only one block along dims has a tensor's elements: the one
// where valid holds.
type limit struct {
	dims  []schedule.Parallel
	valid scalar.ID
}

// grid combines the blocks along the reduced dimensions: each leaves its parts in
// global memory and takes a ticket; the last one folds them, its threads those of
// blocks by the numbers of the threads, whatever the order of arrival, and leaves
// the counter at 0.
func (m *meeting) grid() error {
	for _, x := range m.list {
		if err := m.checkGrid(x); err != nil {
			return err
		}
	}
	isReduced := func(p schedule.Parallel) bool { return slices.Contains(m.blocks, p) }
	segment, segments := m.blockNumber(func(p schedule.Parallel) bool { return !isReduced(p) })
	number, blocks := m.blockNumber(isReduced)
	column, columns := m.linear(m.kept)
	thread, threads := m.linear(m.dims)
	work := map[*exchange][]kir.BufferID{}
	for _, x := range m.list {
		for _, t := range x.fold.types {
			work[x] = append(work[x], m.b.Global(m.name("work"), t, segments, blocks, m.t.Int(columns*x.count)))
		}
	}
	at := func(i index) index { return m.t.Add(m.t.Mul(i, m.t.Int(columns)), column) }
	m.whenever(m.t.Eq(thread, m.t.Int(0)), func() {
		m.eachPart(m.list, func(x *exchange, i index) {
			for k, v := range m.state(x, i) {
				m.b.Store(v, work[x][k], segment, number, at(i))
			}
		})
	})
	if columns > 1 { // else the thread that takes the ticket wrote all
		m.b.Add(kir.Barrier{Scope: kir.BlockScope})
	}
	counter := m.b.Global(m.name("arrived"), dtype.Int, segments)
	m.b.Kernel().Buffers[counter].Zeroed = true
	last := m.ticket(m.b.At(counter, segment), blocks)
	m.b.If(last, func() {
		m.eachPart(m.list, func(x *exchange, i index) { m.set(x, i, m.nothing(x)) })
		m.b.For(m.name("block"), thread, blocks, m.t.Int(threads), kir.UnrollAuto, func(block index) {
			m.eachPart(m.list, func(x *exchange, i index) {
				other := make([]kir.ValueID, len(x.parts))
				for k := range other {
					other[k] = m.b.Load(work[x][k], segment, block, at(i))
				}
				m.set(x, i, m.combine(x.fold, m.state(x, i), other))
			})
		})
		m.block()
		m.first(func() { m.b.Store(m.b.Number(dtype.Int, 0), counter, segment) })
	}, nil)
	for _, x := range m.list {
		for _, v := range m.f.Expr(x.id).Out {
			m.limited[v] = limit{m.blocks, last}
		}
	}
	return nil
}

// checkGrid refuses what needs more than one ticket of a block.
func (m *meeting) checkGrid(x *exchange) error {
	v := m.f.Expr(x.id).Out[0]
	if dims, _ := m.limits(m.f.Expr(x.id)); len(dims) > 0 {
		return m.refuse("grid reduction", v, "%s is reduced across blocks and reads the result of another such reduction", m.f.Name(v))
	}
	for _, class := range m.m.Nest(x.id) {
		isLoop := !m.isSpread(class) && !m.isOne(m.m.Promotion(class))
		if isLoop && (!slices.Contains(x.loops, class) || !m.storesOnce(x.id)) {
			return m.refuse("grid reduction", v, "%s is reduced across blocks inside a loop: reduce the loop's axis first by rfactor()", m.f.Name(v))
		}
	}
	return nil
}

// ticket counts the block in and returns whether it is the last one.
func (m *meeting) ticket(counter kir.Access, blocks index) scalar.ID {
	ticket := m.sharedBuffer(m.name("ticket"), dtype.Int)
	m.b.Add(kir.Declare{Buffer: ticket})
	m.first(func() {
		m.b.Add(kir.Fence{Scope: kir.GridScope})
		old := m.b.AtomicAdd(m.name("old"), m.b.Number(dtype.Int, 1), counter)
		m.below[old] = blocks
		m.b.Add(kir.Fence{Scope: kir.GridScope}) // and the barrier before the ticket is read
		m.b.Store(m.b.Index(dtype.Int, old), ticket)
	})
	isLast := m.b.Op(core.EqOp, m.b.Load(ticket), m.b.Index(dtype.Int, m.t.Sub(blocks, m.t.Int(1))))
	return m.b.Let(m.name("last"), isLast, scalar.Facts{Lo: 0, Hi: 1, Divisor: 1})
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
