package persistence

import (
	"fmt"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// LongestRow is how many elements a row has at most that threads of a block hold in
// registers: more are not asked about.
const LongestRow = 32 << 10

// A Price is what holding a byte of an element until a later phase costs, in quarters of
// an instruction for each element.
type Price int64

const (
	Free  Price = 3  // registers that nobody else needs: a cast is done again, an exp is not
	Fair  Price = 8  // an exp is done again
	Tight Price = 32 // they cost threads, and so requests under way
)

// Prices are those that schedulers try, the lowest first.
var Prices = []Price{Free, Fair, Tight}

// A Plan says what is held and what is computed again.
type Plan struct {
	*Phases
	Held []core.ValID // in order
	// What is held in registers from one phase to the next, at most, for each element of a row: bytes,
	// and registers where each tensor takes one at least, as what is narrow in memory is
	// wide where it is computed with.
	Bytes, Registers int64
	held             []bool // by tensor
	isPacked         bool
}

// Reread returns the inputs that are loaded in more than one phase, of which each row has
// elements of its own.
func (q *Plan) Reread() []core.ValID {
	last := q.lastReads()
	return slices.DeleteFunc(slices.Clone(q.f.Inputs()), func(v core.ValID) bool {
		return !q.isFull[v] || q.IsShared(v) || last[v] <= q.at[v]
	})
}

// Choose returns the plan that is the cheapest at a price. isPacked says that a thread has
// neighbouring elements, so that narrow ones share a register.
func (p *Phases) Choose(price Price, isPacked bool) *Plan {
	q := &Plan{Phases: p, isPacked: isPacked, held: make([]bool, len(p.at))}
	g := &network{}
	isCopied := p.copied()
	in := make([]int, len(p.at)) // by tensor: its node; what leaves it is the next one
	for _, v := range p.s.Tensors() {
		if p.isFull[v] {
			in[v] = g.node()
			g.node()
		}
	}
	for _, v := range p.s.Tensors() {
		if in[v] == 0 {
			continue
		}
		g.edge(source, in[v], p.again(v))
		hold := q.bytesOf(v) * int64(price)
		switch {
		case isCopied[v]:
			hold = infinite
		case q.isKept(v):
			hold = rowBytes
		}
		g.edge(in[v], in[v]+1, hold)
		if p.f.Val(v).Input {
			continue
		}
		for _, u := range p.f.TensorArgs(p.f.Expr(p.f.Val(v).Def)) {
			if in[u] != 0 {
				g.edge(in[u]+1, in[v], infinite)
			}
		}
	}
	isRead := p.readLater()
	for _, v := range p.s.Tensors() {
		if in[v] != 0 && isRead[v] {
			g.edge(in[v]+1, sink, infinite)
		}
	}
	reached := g.cut()
	for _, v := range p.s.Tensors() {
		if in[v] != 0 && reached[in[v]] && !reached[in[v]+1] {
			q.Held, q.held[v] = append(q.Held, v), true
		}
	}
	q.measure()
	return q
}

// measure finds what is held at a time.
func (q *Plan) measure() {
	bytes, registers := make([]int64, q.Last), make([]int64, q.Last)
	hold := func(v core.ValID, from, until int) {
		b := q.bytesOf(v)
		for phase := from; phase < until; phase++ {
			bytes[phase] += b
			registers[phase] += (b + 3) / 4
		}
	}
	last := q.lastReads()
	for _, v := range q.Held {
		if !q.isKept(v) && !q.IsResident(v) {
			hold(v, q.at[v], last[v])
		}
	}
	for _, v := range q.f.Inputs() {
		if q.IsResident(v) {
			hold(v, 0, q.Last)
		}
	}
	for phase := range q.Last {
		q.Bytes, q.Registers = max(q.Bytes, bytes[phase]), max(q.Registers, registers[phase])
	}
}

// lastReads returns the last phase in which each held tensor is read, by what is computed
// again too.
func (q *Plan) lastReads() []int {
	last := slices.Clone(q.at) // in which each tensor is computed or read
	for _, v := range slices.Backward(q.s.Tensors()) {
		if q.f.Val(v).Input {
			continue
		}
		in := q.at[v]
		if q.isFull[v] && !q.held[v] { // it is computed in each phase that reads it
			in = last[v]
		}
		for _, u := range q.f.TensorArgs(q.f.Expr(q.f.Val(v).Def)) {
			last[u] = max(last[u], in)
		}
	}
	return last
}

// LoadedAgain returns the inputs with elements along the row that are loaded in more than
// one phase, in order.
func (q *Plan) LoadedAgain() []core.ValID {
	last := q.lastReads()
	var all []core.ValID
	for _, v := range q.f.Inputs() {
		if q.f.Val(v).Tensor && q.isFull[v] && !q.held[v] && last[v] > q.at[v] {
			all = append(all, v)
		}
	}
	return all
}

// copied returns the inputs that are read by copies alone: those are held instead.
func (p *Phases) copied() map[core.ValID]bool {
	is := map[core.ValID]bool{}
	for _, v := range p.f.Inputs() {
		is[v] = true
	}
	for _, id := range p.f.Order() {
		if e := p.f.Expr(id); e.Op != core.SetOp {
			for _, u := range p.f.TensorArgs(e) {
				delete(is, u)
			}
		}
	}
	return is
}

// bytesOf is what an element of v takes in registers. Those of one byte are not packed.
func (q *Plan) bytesOf(v core.ValID) int64 {
	if n := int64(q.f.Val(v).DType.Size()); n != 1 && q.isPacked {
		return n
	} else {
		return max(n, 4)
	}
}

// readLater returns which tensors with elements along the row are read in a later phase
// than their own.
func (p *Phases) readLater() []bool {
	isRead := make([]bool, len(p.at))
	for _, id := range p.f.Order() {
		e := p.f.Expr(id)
		for _, u := range p.f.TensorArgs(e) {
			isRead[u] = isRead[u] || p.isFull[u] && p.at[e.Out[0]] > p.at[u]
		}
	}
	return isRead
}

// rowBytes is what loading an element again costs that all rows share: the first cache
// has it.
const rowBytes = 8

// isKept reports whether v is in shared memory, from where each phase loads it.
func (p *Phases) isKept(v core.ValID) bool { return p.s.Memory(v) == schedule.Shared }

// again returns what computing v again costs, in quarters of an instruction; infinite if
// that is not possible, or reads what all rows together do not leave in a cache.
func (p *Phases) again(v core.ValID) int64 {
	if p.isKept(v) {
		return infinite
	}
	if p.f.Val(v).Input {
		if p.IsShared(v) && !p.Resident || p.Reload {
			return rowBytes
		}
		return infinite
	}
	e := p.f.Expr(p.f.Val(v).Def)
	switch e.Op.Class {
	case core.Elementwise, core.View, core.Factory, core.Random:
	default:
		return infinite
	}
	cost := int64(4 * e.Op.Cost)
	if e.Op.Class == core.Random {
		cost = 36
	}
	return max(cost, 1)
}

// IsShared reports whether v has one row for all, of several.
func (p *Phases) IsShared(v core.ValID) bool {
	return !p.isOne && !slices.ContainsFunc(p.f.Axes(v), func(a core.AxisID) bool {
		return p.f.Axis(a).Kind != core.Broadcast && !p.pure[p.m.Exact(a)]
	})
}

// IsResident reports whether v is what all rows share, along them, or a copy of it, and is
// held for all rows: also where one phase alone reads it, as its load would be waited for in
// each row.
func (p *Phases) IsResident(v core.ValID) bool {
	if !p.Resident || !p.IsFull(v) || p.IsAfter(v) || !p.IsShared(v) {
		return false
	}
	if p.f.Val(v).Input {
		return true
	}
	e := p.f.Expr(p.f.Val(v).Def)
	return e.Op == core.SetOp && p.f.Val(p.f.TensorArgs(e)[0]).Input
}

// LoadsFirst reports whether an input is worth loading before rows are reduced: all rows have
// it in common, or there is one row, and its first reduction does not wait for it.
func (p *Phases) LoadsFirst(v core.ValID) bool {
	return p.isFull[v] && (p.IsShared(v) || p.isOne && p.at[v] > 0)
}

// LoadsSoon reports whether an input, which not all rows have in common, is read after they are reduced alone, and may be loaded before:
// nobody waits for it then.
func (p *Phases) LoadsSoon(v core.ValID) bool {
	return !p.isOne && p.isFull[v] && p.at[v] > 0 && !p.IsShared(v)
}

// IsRepeated reports whether v, which is read along rows, has the same elements for some of them.
func (p *Phases) IsRepeated(v core.ValID) bool {
	kept := func(v core.ValID) (n int) {
		for _, a := range p.f.Axes(v) {
			if p.f.Axis(a).Kind != core.Broadcast && !p.pure[p.m.Exact(a)] {
				n++
			}
		}
		return n
	}
	return slices.ContainsFunc(p.f.Inputs(), func(u core.ValID) bool { return p.f.Val(u).Tensor && kept(u) > kept(v) })
}

// Apply lets later phases read copies of what is not held.
//
// Errors: those of [schedule.Scheduled.Recompute].
func (q *Plan) Apply() error {
	at := func(v core.ValID) int { return q.at[v] }
	for phase := q.Last; phase > 0; phase-- { // while earlier ones are as they were planned
		copies := map[core.ValID]bool{}
		tensors := slices.Clone(q.s.Tensors())
		readers := map[core.ValID][]core.ValID{} // of this phase
		note := func(v core.ValID) {
			for _, u := range q.f.TensorArgs(q.f.Expr(q.f.Val(v).Def)) {
				if !slices.Contains(readers[u], v) {
					readers[u] = append(readers[u], v)
				}
			}
		}
		for _, v := range slices.Backward(tensors) {
			if q.f.Val(v).Input || copies[v] || int(v) >= len(q.at) {
				continue
			}
			if at(v) == phase {
				note(v)
				continue
			}
			if !q.isFull[v] || at(v) > phase || q.held[v] || len(readers[v]) == 0 {
				continue
			}
			again, err := q.s.Recompute(v, readers[v])
			if err != nil {
				return fmt.Errorf("phase %d: %w", phase, err)
			}
			copies[again] = true
			note(again)
		}
	}
	return nil
}
