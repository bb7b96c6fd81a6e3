package memory

import (
	"slices"

	"nvfuser_go/codegen/kir"
)

// A scan walks over the statements with what is pending.
type scan struct {
	p      *plan
	insert bool  // tokens where they are needed; else it stops at the first place
	err    error // that ended it
	// recording keeps the walks over blocks; found has those inside the statement
	// that is being scanned.
	recording bool
	found     []*visit
	// onConflict, if not nil, is told of conflicts between two buffers with
	// bytes in common, which then count for nothing else.
	onConflict func(a, b kir.BufferID)
}

// A conflict is a pending access that something must order before a statement.
type conflict struct {
	before  entry
	after   *node
	buffer  kir.BufferID
	wait    bool
	barrier barrier
	place   *block // in which the gap is
}

// synchronise places tokens for the overlaps of the plan.
func (p *plan) synchronise() error {
	p.clear(p.root)
	s := scan{p: p, insert: true}
	s.block(p.root, nil)
	if s.err != nil {
		return s.err
	}
	p.improve()
	return nil
}

func (p *plan) clear(b *block) {
	for i, n := range b.nodes {
		b.gaps[i] = emptyGap
		for _, body := range n.bodies {
			p.clear(body)
		}
	}
}

// block returns the state after the statements, or the conflict that is to be
// resolved in a block around this one.
func (s *scan) block(b *block, st state) (state, *conflict) {
	v := s.visit(b)
	for i := range b.nodes {
		around := s.found
		s.found = nil
		after, c := s.step(b, i, st)
		if c != nil {
			return nil, c
		}
		if v != nil {
			v.before[i], v.inner[i] = st, s.found
		}
		st, s.found = after, around
	}
	if v != nil {
		v.after = st
	}
	return st, nil
}

// step returns the state after statement i of a block and what is in its gap.
func (s *scan) step(b *block, i int, st state) (state, *conflict) {
	n := b.nodes[i]
	if !n.tracked && b.gaps[i] == emptyGap {
		return st, nil
	}
	for {
		after, c := s.node(n, s.gap(b.gaps[i], st))
		if c == nil {
			return after, nil
		}
		if !s.insert || s.err != nil || c.place != b {
			return nil, c
		}
		if s.err = s.p.resolve(c, b, i, st); s.err != nil {
			return nil, c
		}
	}
}

// resolve adds to a gap what orders a conflict. st is the state before it.
func (p *plan) resolve(c *conflict, b *block, i int, st state) error {
	g, was := &b.gaps[i], b.gaps[i]
	if c.wait {
		e, ok := st.find(c.before)
		if !ok {
			return p.refuse("wait", c.buffer, c.before.a.at, c.after, "they are on two sides of a condition on which threads differ")
		}
		k := e.flight
		if k == notCommitted {
			g.commit, k = true, 0
		}
		if g.wait == noWait || k < g.wait {
			g.wait = k
		}
	}
	switch {
	case c.barrier == clusterBarrier && !b.uniformOnCluster:
		return p.refuse("cluster barrier", c.buffer, c.before.a.at, c.after, "no place between them is reached by all blocks of the cluster")
	case c.barrier == gridBarrier && !b.uniformOnGrid:
		return p.refuse("grid barrier", c.buffer, c.before.a.at, c.after, "no place between them is reached by all blocks")
	case c.barrier != noBarrier && !b.uniform:
		return p.refuse("barrier", c.buffer, c.before.a.at, c.after, "no place between them is reached by all threads of the block")
	}
	g.barrier = max(g.barrier, c.barrier)
	if *g == was {
		return p.refuse("barrier", c.buffer, c.before.a.at, c.after, "they are on two sides of a condition on which threads differ")
	}
	return nil
}

// gap returns the state after the tokens of a gap.
func (s *scan) gap(g gap, st state) state {
	if g.commit {
		st = st.commit()
	}
	if g.wait != noWait {
		st = st.wait(g.wait)
	}
	switch g.barrier {
	case groupBarrier:
		st = s.p.groupBarrier(st)
	case blockBarrier:
		st = s.p.barrier(st)
	case clusterBarrier:
		st = s.p.clusterBarrier(st)
	case gridBarrier:
		st = st.each(func(e *entry) bool { return e.flight != landed })
	}
	return st
}

func (s state) commit() state {
	return s.each(func(e *entry) bool {
		if e.flight != landed && e.flight < 1<<10 {
			e.flight++
		}
		return true
	})
}

func (s state) wait(pending int) state {
	return s.each(func(e *entry) bool {
		if e.flight != landed && e.flight >= pending {
			e.flight = landed
		}
		return true
	})
}

// barrier is the state after a barrier of the block.
func (p *plan) barrier(st state) state {
	return st.each(func(e *entry) bool {
		if e.flight != landed {
			return true
		}
		e.ordered = true
		if p.k.Buffers[e.a.buffer].Space == kir.Shared {
			return p.sends
		}
		return len(p.blocks) > 0 && e.ticket < acquired
	})
}

// groupBarrier is the state after a barrier of the threads with one index along z: those of
// others may still be at what was before.
func (p *plan) groupBarrier(st state) state {
	return st.each(func(e *entry) bool {
		e.grouped = e.grouped || e.flight == landed && p.k.Buffers[e.a.buffer].Space == kir.Shared
		return true
	})
}

// clusterBarrier is the state after a barrier of the cluster: of global memory it
// is taken for one of the block.
func (p *plan) clusterBarrier(st state) state {
	return p.barrier(st).each(func(e *entry) bool { return e.flight != landed || p.k.Buffers[e.a.buffer].Space != kir.Shared })
}

func (s *scan) node(n *node, st state) (state, *conflict) {
	s.p.steps++
	switch x := n.s.(type) {
	case *kir.For:
		return s.loop(n, x, st)
	case *kir.If:
		return s.condition(n, st)
	case kir.AsyncCommit:
		return st.commit(), nil
	case kir.AsyncWait:
		return st.wait(x.Pending), nil
	case kir.Barrier:
		switch x.Scope {
		case kir.GroupScope:
			return s.p.groupBarrier(st), nil
		case kir.BlockScope:
			return s.p.barrier(st), nil
		case kir.ClusterScope:
			return s.p.clusterBarrier(st), nil
		case kir.GridScope:
			return st.each(func(e *entry) bool { return e.flight != landed }), nil
		}
		return st, nil
	case kir.Arrived: // of the sends alone
		return st.each(func(e *entry) bool { return !e.a.counted || e.a.arrivals != x.Arrivals }), nil
	case kir.Fence:
		return s.fence(n, x, st)
	}
	return s.leaf(n, st)
}

// condition scans both sides. Threads may take different ones: what one side
// does is then pending on the other, as done by other threads.
func (s *scan) condition(n *node, st state) (state, *conflict) {
	then, c := s.block(n.bodies[0], st)
	if c != nil {
		return nil, c
	}
	before := st
	if !n.uniform {
		added := then.each(func(e *entry) bool {
			_, old := st.find(*e)
			e.apart = true
			return !old
		})
		before = merge(st, added)
	}
	otherwise, c := s.block(n.bodies[1], before)
	if c != nil {
		return nil, c
	}
	if n.uniform {
		return merge(then, otherwise), nil
	}
	otherwise = otherwise.each(func(e *entry) bool { return !e.apart })
	out := merge(then, otherwise)
	// A few threads take the ticket for the block.
	return out.each(func(e *entry) bool {
		x, _ := then.find(*e)
		y, _ := otherwise.find(*e)
		e.ticket = max(x.ticket, y.ticket)
		return true
	}), nil
}

// leaf scans a statement that accesses memory.
func (s *scan) leaf(n *node, st state) (state, *conflict) {
	p := s.p
	rel := relationsOf(n.loops)
	for _, a := range n.accesses {
		here := p.resolved(&entry{a: a, rel: rel})
		for _, id := range p.near(a.buffer) {
			pending := st.of(id, a.way)
			for i := range pending {
				p.steps++
				switch c := p.conflict(&pending[i], a, here); {
				case c == nil:
				case s.onConflict != nil && id != a.buffer:
					s.onConflict(id, a.buffer)
				default:
					return nil, c
				}
			}
		}
	}
	for _, a := range n.accesses {
		e := entry{a: a, rel: rel, flight: landed}
		if a.async {
			e.flight = notCommitted
		}
		if a.way == added && p.k.Buffers[a.buffer].Space == kir.Global {
			e.ticket = taken
		}
		st = merge(st, state{e})
	}
	if x, ok := n.s.(kir.AtomicAdd); ok && p.k.Buffers[x.Dst.Buffer].Space == kir.Global {
		st = st.advance(released, taken)
	}
	return st, nil
}

// advance moves the entries at one point of a ticket to the next.
func (s state) advance(from, to ticket) state {
	return s.each(func(e *entry) bool {
		if e.ticket == from {
			e.ticket = to
		}
		return true
	})
}

// fence scans a fence: one of the grid tells other blocks of what the block has
// done to global memory, so that must be ordered before it.
func (s *scan) fence(n *node, x kir.Fence, st state) (state, *conflict) {
	if x.Scope != kir.GridScope && x.Scope != kir.ClusterScope {
		return st, nil
	}
	for _, e := range st {
		if s.p.k.Buffers[e.a.buffer].Space != kir.Global || e.ordered || e.ticket >= taken {
			continue
		}
		here := footprint{conds: n.conds, buffer: e.a.buffer, width: 1, index: s.p.t.Int(0)}
		there := s.p.resolved(&e)
		there.index, there.coords, there.width = here.index, nil, 1
		if e.flight != landed || s.p.meets(there, here, otherThread) {
			return nil, s.p.placed(&conflict{before: e, after: n, buffer: e.a.buffer, wait: e.flight != landed, barrier: blockBarrier})
		}
	}
	return st.each(func(e *entry) bool {
		if s.p.k.Buffers[e.a.buffer].Space == kir.Global {
			switch e.ticket {
			case noTicket:
				e.ticket = released
			case taken:
				e.ticket = acquired
			}
		}
		return true
	}), nil
}

// conflict returns what must come between an entry and an access, of which the
// footprint is given; nil if nothing. Their buffers have bytes in common.
func (p *plan) conflict(e *entry, y *access, here footprint) *conflict {
	x := e.a
	same := x.buffer == y.buffer
	if x.way == added && y.way == added && same {
		return nil
	}
	global := p.k.Buffers[x.buffer].Space == kir.Global
	if (global || p.k.Buffers[x.buffer].Distinct) && x.way == written && x == y && e.flight == landed { // a copy that nothing read was not waited for
		return nil
	}
	if same && p.k.Buffers[x.buffer].Once && x.way == written && y.way == written {
		return nil
	}
	c := conflict{before: *e, after: y.at, buffer: y.buffer}
	var there footprint
	if same {
		there = p.resolved(e)
	}
	meets := func(how pairing) bool { return !same || p.meets(there, here, how) }
	other := otherThread
	if e.grouped {
		other = otherGroup
	}
	if !e.ordered && len(p.threads) > 0 && meets(other) && !(global && p.isOwn(x, y)) {
		c.barrier = blockBarrier
	}
	if (x.sent || y.sent) && meets(anyPeer) {
		c.barrier = clusterBarrier
	}
	if global && e.ticket < acquired && len(p.blocks) > 0 && meets(otherBlock) && !p.isOwn(x, y) {
		c.barrier = gridBarrier
	}
	if e.flight != landed {
		c.wait = c.barrier != noBarrier || !e.apart && meets(sameThread)
	}
	if c.barrier == noBarrier && !c.wait {
		return nil
	}
	return p.placed(&c)
}

// isOwn reports whether a write and another access, of global memory, are by
// the same thread if they are of one element: no other thread writes the
// elements of a thread's write.
func (p *plan) isOwn(x, y *access) bool {
	if x.form != y.form || x.way == added || y.way == added {
		return false
	}
	for _, a := range []*access{x, y} {
		if assign, ok := a.at.s.(kir.Assign); ok && assign.Redundant && a.way == written {
			return false
		}
	}
	return true
}

// near returns a buffer and those that have bytes in common with it, in order.
func (p *plan) near(id kir.BufferID) []kir.BufferID {
	if i, ok := p.number[id]; ok && p.neighbours[i] != nil {
		return p.neighbours[i]
	}
	return []kir.BufferID{id}
}

// setOverlaps says which pairs of shared buffers have bytes in common.
func (p *plan) setOverlaps(pairs map[[2]int]bool) {
	p.overlaps, p.neighbours = pairs, make([][]kir.BufferID, len(p.shared))
	for pair := range pairs {
		for k, i := range pair {
			if p.neighbours[i] == nil {
				p.neighbours[i] = []kir.BufferID{p.shared[i].id}
			}
			p.neighbours[i] = append(p.neighbours[i], p.shared[pair[1-k]].id)
		}
	}
	for _, list := range p.neighbours {
		slices.Sort(list)
	}
}

// placed sets the block in which a conflict is resolved: the body of the loop
// whose iterations tell the two apart, or the innermost one that both are in.
func (p *plan) placed(c *conflict) *conflict {
	a, b := c.before.a.at, c.after
	for i, l := range b.loops {
		if i >= len(a.loops) || a.loops[i] != l {
			break
		}
		if c.before.rel.at(i) != l.pass {
			c.place = l.bodies[0]
			return c
		}
	}
	around := map[*block]bool{}
	for x := a.parent; ; x = x.owner.parent {
		around[x] = true
		if x.owner == nil {
			break
		}
	}
	for c.place = b.parent; !around[c.place]; {
		c.place = c.place.owner.parent
	}
	return c
}

// loop scans the body of a loop until what is pending at its start does not
// grow.
func (s *scan) loop(n *node, f *kir.For, st state) (state, *conflict) {
	trips, known := s.p.trips(f)
	if !n.tracked || known && trips == 0 {
		return st, nil
	}
	n.open = true
	defer func() { n.open = false }()
	var out state
	if s.p.t.Facts(s.p.t.Sub(f.Stop, f.Start)).Lo <= 0 {
		out = st
	}
	// The first iterations by their numbers, as long as copies from before the
	// loop are under way.
	pass := 0
	for n.copies && s.p.isConst(f) && pass < maxExact && (!known || pass < int(trips)) && (known && trips <= maxExact || n.stages > 0 && st.foreign(n)) {
		n.pass = relation{exact, uint8(pass)}
		after, c := s.block(n.bodies[0], st)
		if c != nil {
			return nil, c
		}
		st = after
		if pass++; known && pass == int(trips) {
			return merge(out, st.leave(n)), nil
		}
		if !known {
			out = merge(out, st.leave(n))
		}
	}
	n.pass = relation{kind: current}
	st = st.counted(n, pass)
	for {
		after, c := s.block(n.bodies[0], st)
		if c != nil {
			return nil, c
		}
		out = merge(out, after.leave(n))
		if known && trips == 1 {
			return out, nil
		}
		head := merge(st, after.next(n))
		if head.equal(st) {
			return out, nil
		}
		st = head
	}
}

func (s state) equal(o state) bool {
	if len(s) != len(o) {
		return false
	}
	for i := range s {
		if s[i] != o[i] {
			return false
		}
	}
	return true
}

// foreign reports whether a copy from outside the loop is under way.
func (s state) foreign(loop *node) bool {
	for _, e := range s {
		if d := len(loop.loops); e.flight != landed && !(d < len(e.a.at.loops) && e.a.at.loops[d] == loop && e.now(loop.loops)) {
			return true
		}
	}
	return false
}

func (p *plan) isConst(f *kir.For) bool {
	_, ok := p.t.ConstInt(f.Start)
	_, ok2 := p.t.ConstInt(f.Step)
	return ok && ok2
}

// trips returns how often a loop runs, if that is a constant.
func (p *plan) trips(f *kir.For) (int64, bool) {
	start, ok := p.t.ConstInt(f.Start)
	stop, ok2 := p.t.ConstInt(f.Stop)
	step, ok3 := p.t.ConstInt(f.Step)
	if !ok || !ok2 || !ok3 || step < 1 {
		return 0, false
	}
	return max((stop-start+step-1)/step, 0), true
}
