package memory

import (
	"fmt"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/scalar"
)

// A node is a statement.
type node struct {
	s        kir.Statement
	parent   *block
	place    int      // in parent
	bodies   []*block // of a For: its body; of an If: both sides
	accesses []*access
	loops    []*node // around it, outermost first
	conds    []scalar.ID
	tracked  bool // something in it is of concern
	copies   bool // an asynchronous copy or its commit is in it
	stages   int  // of a For: slots of the circular buffers that it copies into, one after the other
	uniform  bool // of a For or If: all threads of the block go the same way
	from, to int  // positions in the text

	// Of a For, while it is scanned.
	open bool
	pass relation
}

// A block is a list of statements, with a gap before each.
type block struct {
	owner         *node // nil: the kernel
	nodes         []*node
	gaps          []gap
	uniform       bool // all threads of a block reach it or none does
	uniformOnGrid bool // the same for all threads

	uniformOnCluster bool // the same for those of a cluster
}

// A gap is what is put between two statements, in this order.
type gap struct {
	commit  bool
	wait    int // groups that may be pending; noWait
	barrier barrier
}

const noWait = -1

// A barrier is the widest one of a gap.
type barrier uint8

const (
	noBarrier barrier = iota
	groupBarrier
	blockBarrier
	clusterBarrier
	gridBarrier
)

var emptyGap = gap{wait: noWait}

// A way is what an access does to memory.
type way uint8

const (
	read way = iota
	written
	added // atomically
)

// An access is a kir.Access of shared or global memory at its statement.
type access struct {
	number int
	at     *node
	way    way
	async  bool // it is not done before a wait
	sent   bool // to the memory of another block of the cluster
	// counted: that block can wait for it alone, by arrivals.
	counted  bool
	arrivals kir.BufferID
	form     string
	footprint
}

// A footprint is what an access touches: Width elements from Index on, by the
// threads for which all of conds hold.
type footprint struct {
	buffer kir.BufferID
	index  scalar.ID
	coords []scalar.ID
	width  int
	span   kir.Span
	conds  []scalar.ID
}

// tree makes the nodes of a kernel.
type tree struct {
	p        *plan
	grid     map[scalar.ID]bool // loop symbols that all threads of the grid share
	cluster  map[scalar.ID]bool // those that all threads of a cluster share
	position int
	lets     map[scalar.ID][]*node // the loops around the binding of a symbol
}

// uniformOnGrid reports whether an expression is the same for all threads.
func (b *tree) uniformOnGrid(id scalar.ID) bool {
	ok := true
	b.p.t.Symbols(id, func(s scalar.ID) {
		ok = ok && (b.p.symbol(s).Kind == kir.Parameter || b.grid[s])
	})
	return ok
}

// uniformOnCluster reports whether an expression is the same for all threads of a
// cluster: of the block's number along x it has no more than the cluster's.
func (b *tree) uniformOnCluster(id scalar.ID) bool {
	t := b.p.t
	if b.p.k.Launch.Cluster[0] < 2 {
		return true
	}
	if t.Op(id) == scalar.Symbol {
		s := b.p.symbol(id)
		return s.Kind == kir.Parameter || s.Kind == kir.BlockIdx && s.Dim != 0 || b.cluster[id]
	}
	args := t.Args(id)
	if t.Op(id) == scalar.FloorDiv && t.Op(args[0]) == scalar.Symbol {
		if s := b.p.symbol(args[0]); s.Kind == kir.BlockIdx && t.Divides(t.Int(b.p.k.Launch.Cluster[0]), args[1]) {
			return true
		}
	}
	return !slices.ContainsFunc(args, func(x scalar.ID) bool { return !b.uniformOnCluster(x) })
}

func (b *tree) block(list kir.Block, owner *node, loops []*node, conds []scalar.ID, uniform, onGrid, onCluster bool) *block {
	out := &block{owner: owner, uniform: uniform, uniformOnGrid: onGrid, uniformOnCluster: onCluster, gaps: make([]gap, len(list))}
	for i, s := range list {
		n := &node{s: s, parent: out, place: i, loops: loops, conds: conds, from: b.position}
		b.position++
		out.gaps[i] = emptyGap
		out.nodes = append(out.nodes, n)
		b.fill(n, out)
		n.to = b.position
		b.position++
		for _, body := range n.bodies {
			for _, m := range body.nodes {
				n.tracked = n.tracked || m.tracked
				n.copies = n.copies || m.copies
			}
		}
	}
	return out
}

func (b *tree) fill(n *node, in *block) {
	p := b.p
	switch s := n.s.(type) {
	case *kir.For:
		symbol := p.k.Symbols[s.Symbol].Expr
		onGrid := b.uniformOnGrid(s.Start) && b.uniformOnGrid(s.Step)
		b.grid[symbol] = onGrid
		onGrid = onGrid && b.uniformOnGrid(s.Stop)
		onCluster := b.uniformOnCluster(s.Start) && b.uniformOnCluster(s.Step)
		b.cluster[symbol] = onCluster
		onCluster = onCluster && b.uniformOnCluster(s.Stop)
		n.uniform = p.agreement.Uniform(s.Start) && p.agreement.Uniform(s.Stop) && p.agreement.Uniform(s.Step)
		inside := append(slices.Clip(n.loops), n)
		n.bodies = []*block{b.block(s.Body, n, inside, n.conds, in.uniform && n.uniform, in.uniformOnGrid && onGrid, in.uniformOnCluster && onCluster)}
	case *kir.If:
		n.uniform = p.agreement.Uniform(s.Cond)
		uniform, onGrid, onCluster := in.uniform && n.uniform, in.uniformOnGrid && b.uniformOnGrid(s.Cond), in.uniformOnCluster && b.uniformOnCluster(s.Cond)
		then := append(slices.Clip(n.conds), s.Cond)
		otherwise := append(slices.Clip(n.conds), p.negated(s.Cond))
		n.bodies = []*block{b.block(s.Then, n, n.loops, then, uniform, onGrid, onCluster), b.block(s.Else, n, n.loops, otherwise, uniform, onGrid, onCluster)}
	case kir.Assign:
		b.loads(n, s.Value, map[kir.ValueID]bool{})
		b.access(n, &s.Dst, written, false)
	case kir.Send:
		b.loads(n, s.Value, map[kir.ValueID]bool{})
		b.access(n, &s.Dst, written, false)
		x := n.accesses[len(n.accesses)-1]
		x.sent, p.sends = true, true
		if s.Counted {
			x.counted, x.arrivals = true, s.Arrivals
		}
		// Two sends meet in the block that both are to.
		to := p.fresh(freshKey{role: targetRole, symbol: scalar.None, facts: scalar.Range(0, p.k.Launch.Cluster[0]-1)})
		x.conds = append(slices.Clip(x.conds), p.t.Eq(to, s.Rank))
	case kir.Move:
		b.access(n, &s.Src, read, false)
		b.access(n, &s.Dst, written, false)
	case kir.AsyncCopy:
		n.copies = true
		b.access(n, &s.Src, read, true)
		b.access(n, &s.Dst, written, true)
		b.slots(n, &s.Dst)
	case kir.AtomicAdd:
		n.tracked = true // it may be of a ticket
		b.loads(n, s.Value, map[kir.ValueID]bool{})
		b.access(n, &s.Dst, added, false)
		if s.Old != kir.NoSymbol {
			b.lets[p.k.Symbols[s.Old].Expr] = n.loops
		}
	case kir.Let:
		b.loads(n, s.Value, map[kir.ValueID]bool{})
		b.lets[p.k.Symbols[s.Symbol].Expr] = n.loops
	case kir.AsyncCommit:
		n.tracked, n.copies = true, true
	case kir.AsyncWait, kir.Barrier, kir.ClusterStart, kir.Fence, kir.Arrived:
		n.tracked = true
	}
}

// negated returns a condition for the other side of an If.
func (p *plan) negated(cond scalar.ID) scalar.ID {
	args := p.t.Args(cond)
	switch p.t.Op(cond) {
	case scalar.Lt:
		return p.t.Le(args[1], args[0])
	case scalar.Le:
		return p.t.Lt(args[1], args[0])
	}
	return p.t.Not(cond)
}

// loads adds the accesses of a value that a statement computes.
func (b *tree) loads(n *node, id kir.ValueID, visited map[kir.ValueID]bool) {
	if visited[id] {
		return
	}
	visited[id] = true
	v := &b.p.k.Values[id]
	for _, a := range v.Args {
		b.loads(n, a, visited)
	}
	switch {
	case v.Kind == kir.Load:
		b.access(n, &v.Access, read, false)
	case v.Kind == kir.Random && v.Stream < 0:
		b.loads(n, v.Seed, visited)
		b.loads(n, v.Offset, visited)
	}
}

func (b *tree) access(n *node, a *kir.Access, w way, async bool) {
	p := b.p
	if buffer := &p.k.Buffers[a.Buffer]; buffer.Space == kir.Local || buffer.ReadOnly {
		return
	}
	x := &access{number: len(p.accesses), at: n, way: w, async: async,
		footprint: footprint{a.Buffer, a.Index, a.Coords, a.Width, a.Span, n.conds}}
	p.accesses = append(p.accesses, x)
	n.accesses = append(n.accesses, x)
}

// slots notes the loops that go through the slots of a circular buffer.
func (b *tree) slots(n *node, a *kir.Access) {
	t := b.p.t
	for i, c := range a.Coords {
		if t.Op(c) != scalar.Mod || t.Args(c)[1] != b.p.k.Buffers[a.Buffer].Shape[i] {
			continue
		}
		count, _ := t.ConstInt(t.Args(c)[1])
		t.Symbols(c, func(s scalar.ID) {
			for _, l := range n.loops {
				if b.p.loopSymbol(l) == s {
					l.stages = max(l.stages, min(int(count), maxStages))
				}
			}
		})
	}
}

// track drops the accesses to buffers that nothing can conflict over: those of
// global memory that one statement alone uses, or that nothing writes.
func (p *plan) track(b *block) {
	type uses struct{ at, writes int }
	count := map[kir.BufferID]uses{}
	for _, a := range p.accesses {
		u := count[a.buffer]
		u.at++
		if a.way == written {
			u.writes++
		}
		count[a.buffer] = u
	}
	p.accesses = slices.DeleteFunc(p.accesses, func(a *access) bool {
		u := count[a.buffer]
		return p.k.Buffers[a.buffer].Space == kir.Global && (u.at < 2 || u.writes == 0)
	})
	for i, a := range p.accesses {
		a.number = i
		if p.k.Buffers[a.buffer].Space == kir.Global {
			a.form = p.form(a)
		}
	}
	p.keep(b)
}

// keep removes the accesses that are not tracked from the nodes.
func (p *plan) keep(b *block) {
	for _, n := range b.nodes {
		n.accesses = slices.DeleteFunc(n.accesses, func(a *access) bool {
			return a.number >= len(p.accesses) || p.accesses[a.number] != a
		})
		n.tracked = n.tracked || len(n.accesses) > 0
		for _, body := range n.bodies {
			p.keep(body)
			n.tracked = n.tracked || slices.ContainsFunc(body.nodes, func(m *node) bool { return m.tracked })
		}
	}
}

// form is the same for accesses by the same expressions in loops of the same
// depths and ranges: copies of a statement, or its consumers.
func (p *plan) form(a *access) string {
	with := func(s scalar.ID) (scalar.ID, bool) {
		for depth, l := range a.at.loops {
			if p.loopSymbol(l) == s {
				return p.fresh(freshKey{role: formRole, n: int64(depth), facts: p.t.Facts(s)}), true
			}
		}
		return scalar.None, false
	}
	f := p.substituted(a.footprint, with)
	slices.Sort(f.conds)
	return fmt.Sprint(f.index, f.coords, f.width, slices.Compact(f.conds))
}

// substituted replaces the symbols of a footprint.
func (p *plan) substituted(f footprint, with func(scalar.ID) (scalar.ID, bool)) footprint {
	list := func(ids []scalar.ID) []scalar.ID {
		out := make([]scalar.ID, len(ids))
		for i, id := range ids {
			out[i] = p.t.Substitute(id, with)
		}
		return out
	}
	return footprint{f.buffer, p.t.Substitute(f.index, with), list(f.coords), f.width, f.span, list(f.conds)}
}

func (p *plan) loopSymbol(n *node) scalar.ID { return p.k.Symbols[n.s.(*kir.For).Symbol].Expr }

// statements returns the kernel's body with what is in the gaps.
func (p *plan) statements(b *block) kir.Block {
	var out kir.Block
	for i, n := range b.nodes {
		g := b.gaps[i]
		if g.commit {
			out = append(out, kir.AsyncCommit{})
		}
		if g.wait != noWait {
			out = append(out, kir.AsyncWait{Pending: g.wait})
		}
		switch g.barrier {
		case groupBarrier:
			out = append(out, kir.Barrier{Scope: kir.GroupScope})
		case blockBarrier:
			out = append(out, kir.Barrier{Scope: kir.BlockScope})
		case clusterBarrier:
			out = append(out, kir.Barrier{Scope: kir.ClusterScope})
		case gridBarrier:
			out = append(out, kir.Barrier{Scope: kir.GridScope, Semaphore: p.semaphore()})
		}
		switch s := n.s.(type) {
		case *kir.For:
			loop := *s
			loop.Body = p.statements(n.bodies[0])
			out = append(out, &loop)
		case *kir.If:
			out = append(out, &kir.If{Cond: s.Cond, Then: p.statements(n.bodies[0]), Else: p.statements(n.bodies[1])})
		default:
			out = append(out, s)
		}
	}
	return out
}
