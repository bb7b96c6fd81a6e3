package memory

import (
	"cmp"
	"slices"
	"sort"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/scalar"
)

// A relation says which iteration of a loop an access was in, as seen from a
// later statement.
type relation struct {
	kind iterationKind
	n    uint8
}

type iterationKind uint8

const (
	current iterationKind = iota // this one
	back                         // n ago
	older                        // at least n ago
	exact                        // number n, from 0
	anyOne                       // the loop has ended
)

// Where relations become coarse: how many of the first iterations of a loop with
// copies are told apart, and how many stages of a circular buffer. Elsewhere an
// access is of this iteration, of the last or of an older one.
const (
	maxExact  = 8
	maxStages = 8
)

// relations are those of the loops around an access, outermost first: two bytes
// each, so that they compare.
type relations string

func (r relations) at(i int) relation { return relation{iterationKind(r[2*i]), r[2*i+1]} }

func (r relations) with(i int, x relation) relations {
	return r[:2*i] + relations([]byte{byte(x.kind), x.n}) + r[2*i+2:]
}

func relationsOf(loops []*node) relations {
	out := make([]byte, 0, 2*len(loops))
	for _, l := range loops {
		out = append(out, byte(l.pass.kind), l.pass.n)
	}
	return relations(out)
}

// An entry is an access that something later may have to wait for.
type entry struct {
	a   *access
	rel relations
	// flight is of an asynchronous copy the number of groups that the thread has
	// committed since the copy's own: at least this many on every path. notCommitted
	// or landed else.
	flight int
	// apart says that the thread of the later statement is not the one that
	// did this: they took different sides of a condition.
	apart bool
	// ordered says of global memory that the block is past a barrier.
	ordered bool
	// grouped says that the threads with one index along z are past a barrier.
	grouped bool
	ticket  ticket
}

const (
	landed       = -2
	notCommitted = -1
)

// A ticket is how much of the fence, atomic and fence that order blocks has
// followed an access.
type ticket uint8

const (
	noTicket ticket = iota
	released
	taken
	acquired
)

// A state is the entries at a place of the kernel, sorted.
type state []entry

func compareEntries(a, b entry) int {
	return cmp.Or(compareUses(&a, b.a.buffer, b.a.way), cmp.Compare(a.a.number, b.a.number), cmp.Compare(a.rel, b.rel), cmp.Compare(truth(a.apart), truth(b.apart)))
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// joined returns an entry that stands for both of two with one identity.
func joined(a, b entry) entry {
	switch {
	case a.flight == landed:
		a.flight = b.flight
	case b.flight != landed:
		a.flight = min(a.flight, b.flight)
	}
	a.ordered, a.grouped = a.ordered && b.ordered, a.grouped && b.grouped
	a.ticket = min(a.ticket, b.ticket)
	return a
}

// merge returns what is pending if one of two states is.
func merge(x, y state) state {
	if len(x) == 0 {
		return y
	} else if len(y) == 0 {
		return x
	}
	out := make(state, 0, len(x)+len(y))
	for len(x) > 0 && len(y) > 0 {
		switch c := compareEntries(x[0], y[0]); {
		case c < 0:
			out, x = append(out, x[0]), x[1:]
		case c > 0:
			out, y = append(out, y[0]), y[1:]
		default:
			out, x, y = append(out, joined(x[0], y[0])), x[1:], y[1:]
		}
	}
	return append(append(out, x...), y...)
}

// each returns the state with f applied to every entry; those for which it
// returns false are gone.
func (s state) each(f func(e *entry) bool) state {
	out := make(state, 0, len(s))
	sorted := true
	for _, e := range s {
		if f(&e) {
			sorted = sorted && (len(out) == 0 || compareEntries(out[len(out)-1], e) < 0)
			out = append(out, e)
		}
	}
	if sorted {
		return out
	}
	slices.SortStableFunc(out, compareEntries)
	n := 0
	for _, e := range out[1:] {
		if compareEntries(out[n], e) == 0 {
			out[n] = joined(out[n], e)
			continue
		}
		n++
		out[n] = e
	}
	return out[:n+1]
}

// find returns the entry with the identity of e.
func (s state) find(e entry) (entry, bool) {
	i, ok := slices.BinarySearchFunc(s, e, compareEntries)
	if !ok {
		return entry{}, false
	}
	return s[i], true
}

// compareUses sorts entries by their buffers, and reads after the others.
func compareUses(e *entry, id kir.BufferID, w way) int {
	return cmp.Or(cmp.Compare(e.a.buffer, id), cmp.Compare(truth(e.a.way == read), truth(w == read)))
}

// of returns the entries of a buffer that an access to it in some way may
// conflict with.
func (s state) of(id kir.BufferID, w way) state {
	last := read
	if w == read {
		last = written
	}
	i := sort.Search(len(s), func(i int) bool { return compareUses(&s[i], id, written) >= 0 })
	n := sort.Search(len(s), func(i int) bool { return compareUses(&s[i], id, last) > 0 })
	return s[i:n]
}

// inLoop changes the relation to the loop of each entry that was made in it
// since it was entered.
func (s state) inLoop(loop *node, change func(r relation) relation) state {
	depth := len(loop.loops)
	return s.each(func(e *entry) bool {
		if l := e.a.at.loops; depth < len(l) && l[depth] == loop && e.now(loop.loops) {
			e.rel = e.rel.with(depth, change(e.rel.at(depth)))
		}
		return true
	})
}

// now reports whether the entry is of this iteration of the given outer loops.
func (e *entry) now(outer []*node) bool {
	for i, l := range outer {
		if !l.open || e.rel.at(i) != l.pass {
			return false
		}
	}
	return true
}

// next is the state at the start of the iteration after one that ends with s.
func (s state) next(loop *node) state {
	most := uint8(max(loop.stages, 1))
	return s.inLoop(loop, func(r relation) relation {
		switch {
		case r.kind == current:
			return relation{back, 1}
		case r.kind == back && r.n < most:
			return relation{back, r.n + 1}
		case r.kind == back:
			return relation{older, most + 1}
		}
		return r
	})
}

// leave is the state after the loop.
func (s state) leave(loop *node) state {
	return s.inLoop(loop, func(r relation) relation {
		if r.kind == exact {
			return r
		}
		return relation{kind: anyOne}
	})
}

// counted is the state at the start of an iteration of which the number, n, is
// no longer told.
func (s state) counted(loop *node, n int) state {
	return s.inLoop(loop, func(r relation) relation {
		if r.kind == exact {
			return relation{back, uint8(n) - r.n}
		}
		return r
	})
}

// resolvedKey is what the footprint of an access depends on.
type resolvedKey struct {
	access int
	rel    relations
	passes relations
}

// resolved returns the footprint of an entry in terms of the symbols of the
// statement that is scanned.
func (p *plan) resolved(e *entry) footprint {
	passes := make([]byte, 0, 2*len(e.a.at.loops))
	for _, l := range e.a.at.loops {
		if !l.open {
			break
		}
		passes = append(passes, byte(l.pass.kind), l.pass.n)
	}
	key := resolvedKey{e.a.number, e.rel, relations(passes)}
	f, ok := p.memoResolved[key]
	if !ok {
		f = p.substituted(e.a.footprint, func(s scalar.ID) (scalar.ID, bool) { return p.earlier(e, s) })
		for i, l := range e.a.at.loops {
			if _, known := p.trips(l.s.(*kir.For)); known && e.rel.at(i).kind == older {
				f.conds = append(f.conds, p.isOlder(l, e.rel.at(i)))
			}
		}
		p.memoResolved[key] = f
	}
	return f
}

// earlier returns what a symbol of an entry's access was.
func (p *plan) earlier(e *entry, s scalar.ID) (scalar.ID, bool) {
	for i, l := range e.a.at.loops {
		if p.loopSymbol(l) == s {
			return p.iteration(l, e.rel.at(i))
		}
	}
	home, ok := p.lets[s]
	if !ok {
		return s, false
	}
	if !e.now(home) {
		return p.copyOf(anyRole, s), true
	}
	return s, false
}

// iteration returns the value that a loop's symbol had.
func (p *plan) iteration(l *node, r relation) (scalar.ID, bool) {
	s, f := p.loopSymbol(l), l.s.(*kir.For)
	step, ok := p.t.ConstInt(f.Step)
	_, known := p.trips(f)
	switch {
	case r.kind == current:
		return s, false
	case r.kind == exact:
		return p.t.Add(f.Start, p.t.Mul(p.t.Int(int64(r.n)), f.Step)), true
	case ok && r.kind == back:
		return p.t.Sub(s, p.t.Int(int64(r.n)*step)), true
	case r.kind == older && known:
		return p.olderValue(l, r), true
	case ok && r.kind == older:
		ago := p.fresh(freshKey{role: beforeRole, symbol: s, n: int64(r.n), facts: scalar.Range(int64(r.n), 1<<40)})
		return p.t.Sub(s, p.t.Mul(ago, f.Step)), true
	}
	return p.copyOf(anyRole, s), true
}

// olderValue returns a symbol for what the symbol of a loop was at least r.n
// iterations ago. The number of iterations is known, so that it has bounds.
func (p *plan) olderValue(l *node, r relation) scalar.ID {
	f := l.s.(*kir.For)
	first, _ := p.t.ConstInt(f.Start)
	step, _ := p.t.ConstInt(f.Step)
	trips, _ := p.trips(f)
	last := first + (trips-1-int64(r.n))*step
	return p.fresh(freshKey{role: beforeRole, symbol: p.loopSymbol(l), n: int64(r.n), facts: scalar.Range(first, max(first, last))})
}

// isOlder returns the condition that the value is of an iteration so long ago.
func (p *plan) isOlder(l *node, r relation) scalar.ID {
	step := l.s.(*kir.For).Step
	return p.t.Le(p.t.Add(p.olderValue(l, r), p.t.Mul(p.t.Int(int64(r.n)), step)), p.loopSymbol(l))
}
