package lower

import (
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// maxParts bounds the states that a thread holds for the others.
const maxParts = 32

// An exchange is a reduction of which threads or blocks each have a part. It is
// emitted in three steps: each thread's part goes to registers, the parts of all
// threads are combined, and the result is stored where the statement stands.
// What is combined between the first and the last step may be several exchanges,
// and each iteration of loops around the statement.
type exchange struct {
	id     core.ExprID
	fold   fold
	across []schedule.Parallel
	loops  []core.AxisID // classes of loops of which each iteration has a part, outermost first
	count  int64         // of parts
	parts  []kir.BufferID

	isAlike bool  // all parts of a thread that there are have the same number of elements
	number  int64 // that all parts of all threads have, while that is known; else 0

	scanned *line    // of a scan
	sorted  *sorting // of a sort
}

// across returns the thread and block types that id is reduced over.
func (a *Analysis) across(id core.ExprID) []schedule.Parallel {
	e := a.f.Expr(id)
	if e.Op.Class != core.Reduction {
		return nil
	}
	var list []schedule.Parallel
	for _, x := range a.tensors[e.Out[0]].loop {
		switch {
		case a.isReduced(x) && a.isSpread(x):
			list = append(list, a.parallel(x))
		case a.parallel(x) == schedule.Vectorize:
			return nil // it is refused
		}
	}
	slices.Sort(list)
	return list
}

// exchangesIn returns the exchanges in n whose parts may be collected before n:
// none of inside computes what they read, and that is in registers, or isNext
// says that nothing is computed between.
func (l *lowering) exchangesIn(n *schedule.Nest, inside map[core.ExprID]bool, isNext bool) []*exchange {
	var list []*exchange
	var visit func(n *schedule.Nest, loops []core.AxisID, count int64)
	visit = func(n *schedule.Nest, loops []core.AxisID, count int64) {
		if n.Axis != core.NoAxis {
			class := l.m.LoopClass(n.Axis)
			if size, ok := l.writtenOut(n); ok && count*size <= maxParts {
				for _, b := range n.Body {
					visit(b, append(slices.Clip(loops), class), count*size)
				}
			}
			isNext = false
			return
		}
		x := &exchange{id: n.Expr, across: l.across(n.Expr), loops: loops, count: count}
		ready := !slices.ContainsFunc(l.f.TensorArgs(l.f.Expr(n.Expr)), func(v core.ValID) bool {
			return inside[l.f.Val(v).Def] || !isNext && l.s.Memory(v) != schedule.Local
		})
		isNext = false
		if len(x.across) > 0 && ready && l.exchanged[n.Expr] == nil {
			x.fold = l.fold(l.f.Expr(n.Expr))
			list = append(list, x)
		}
	}
	visit(n, nil, 1)
	return list
}

// writtenOut returns how often loop n runs in a thread, if it may be emitted
// twice, around a part and around a result.
func (l *lowering) writtenOut(n *schedule.Nest) (int64, bool) {
	class := l.m.LoopClass(n.Axis)
	q, p := l.m.Promotion(class), l.parallel(class)
	switch {
	case l.pipelines[class] != nil || p == schedule.Vectorize || p == schedule.Unswitch:
		return 0, false
	case l.isOne(q) || l.isSpread(class):
		return 1, true
	}
	size, isConst := l.t.ConstInt(l.extent(q))
	return size, isConst && size > 0
}

// meet combines the parts of the first of nodes, if it has any, and of those right
// after it of which threads have parts in the same way.
func (l *lowering) meet(nodes []*schedule.Nest) error {
	inside := map[core.ExprID]bool{}
	var list []*exchange
	parts := int64(0)
	for i, n := range nodes {
		for _, id := range l.inside(n) {
			inside[id] = true
		}
		found := l.exchangesIn(n, inside, i == 0)
		if len(found) == 0 {
			break
		}
		for _, x := range found {
			parts += x.count * int64(len(x.fold.types))
			if len(list) == 0 || slices.Equal(x.across, list[0].across) && parts <= maxParts {
				list = append(list, x)
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	for _, x := range list {
		if err := l.collect(x); err != nil {
			return err
		}
		l.exchanged[x.id] = x
	}
	return l.combineParts(list)
}

// together returns body with exchanges that do not wait for each other side by
// side: what stands between and does not wait for the first of them goes before.
func (l *lowering) together(body []*schedule.Nest) []*schedule.Nest {
	if len(body) < 2 || len(l.alias) > 0 { // order matters where memory is overwritten
		return body
	}
	phase := l.phases(body)
	last := map[int]*schedule.Nest{} // exchange of a phase
	for _, n := range body {
		if p, ok := phase[n]; ok {
			last[p] = n
		}
	}
	for i := 0; i < len(body); i++ {
		p, ok := phase[body[i]]
		if !ok || last[p] == body[i] {
			continue
		}
		end := slices.Index(body, last[p]) + 1
		before, with, after := l.divide(body[i], body[i+1:end], l.across(l.inside(body[i])[0]))
		body = slices.Concat(body[:i], before, body[i:i+1], with, after, body[end:])
		i += len(before) + len(with)
	}
	return body
}

// phases returns, for the nodes of body that are nothing but exchanges, how many
// such nodes are on the way to it: those of one phase do not wait for each other.
func (l *lowering) phases(body []*schedule.Nest) map[*schedule.Nest]int {
	after := map[core.ExprID]int{} // what waits for an expression is in this phase
	phase := map[*schedule.Nest]int{}
	for _, n := range body {
		p, ids := 0, l.inside(n)
		for _, id := range ids {
			for _, v := range l.f.TensorArgs(l.f.Expr(id)) {
				p = max(p, after[l.f.Val(v).Def])
			}
		}
		next := p
		if len(l.across(ids[0])) > 0 && len(l.exchangesIn(n, nil, false)) == len(ids) {
			phase[n], next = p, p+1
		}
		for _, id := range ids {
			after[id] = next
		}
	}
	return phase
}

// divide sorts the nodes after n: exchanges that may join those of n, what may
// be computed before them, and the rest.
func (l *lowering) divide(n *schedule.Nest, nodes []*schedule.Nest, across []schedule.Parallel) (before, with, after []*schedule.Nest) {
	waits := map[core.ExprID]bool{} // for n, or what joins it
	isWaiting := func(id core.ExprID) bool {
		return slices.ContainsFunc(l.f.TensorArgs(l.f.Expr(id)), func(v core.ValID) bool { return waits[l.f.Val(v).Def] })
	}
	wait := func(x *schedule.Nest) {
		for _, id := range l.inside(x) {
			waits[id] = true
		}
	}
	wait(n)
	var earlier []*schedule.Nest
	for _, x := range nodes {
		ids, inside := l.inside(x), map[core.ExprID]bool{}
		if slices.ContainsFunc(ids, isWaiting) {
			wait(x)
			continue
		}
		for _, id := range ids {
			inside[id] = true
		}
		joins := l.exchangesIn(x, inside, false)
		if len(joins) == 0 || !slices.Equal(joins[0].across, across) {
			earlier = append(earlier, x)
			continue
		}
		wait(x)
		before, with, earlier = append(before, earlier...), append(with, x), nil
	}
	for _, x := range nodes {
		if !slices.Contains(before, x) && !slices.Contains(with, x) {
			after = append(after, x)
		}
	}
	return before, with, after
}

// collect puts what each thread has of x in registers.
func (l *lowering) collect(x *exchange) error {
	var shape []int64
	if x.count > 1 {
		shape = []int64{x.count}
	}
	for _, t := range x.fold.types {
		x.parts = append(x.parts, l.b.Local(l.name("part"), t, shape...))
	}
	var emit func(loops []core.AxisID) error
	emit = func(loops []core.AxisID) error {
		if len(loops) > 0 {
			return l.open(loops[0], func() error { return emit(loops[1:]) })
		}
		c := l.context(l.f.Expr(x.id).Out[0], false)
		if x.scanned != nil {
			if err := x.scanned.inOrder(c); err != nil {
				return err
			}
		}
		return c.part(x)
	}
	return emit(x.loops)
}

// partAt returns where the thread has result k of the part of the iteration that is
// being emitted.
func (c *context) partAt(x *exchange, k int) kir.Access {
	if x.count == 1 {
		return c.b.At(x.parts[k])
	}
	n := c.t.Int(0)
	for _, class := range x.loops {
		if q := c.m.Promotion(class); !c.isSpread(class) && !c.isOne(q) {
			n = c.t.Add(c.t.Mul(n, c.extent(q)), c.loops[class])
		}
	}
	return c.b.At(x.parts[k], n)
}

// part stores what the thread has: the identity where it has no element, unless nothing that
// has one depends on it, as the elements of a scan come before what is beyond the end, if
// nothing is before the first one.
func (c *context) part(x *exchange) error {
	c.numStatements++
	e, f := c.f.Expr(x.id), x.fold
	g, err := c.guard(x.id, false)
	if err != nil {
		return err
	}
	c.limit(e)
	if len(e.Out) > 1 {
		if err := c.checkSiblings(e, g.among); err != nil {
			return err
		}
	}
	if v := c.f.TensorArgs(e)[0]; f.state != nil && f.state.number > 0 && c.alike[c.f.Val(v).Def] && c.s.Memory(v) == schedule.Local {
		x.isAlike = c.countsAlike(e, g)
	}
	x.number = c.numberOfPart(x, g)
	var nothing kir.Block
	for k := range x.parts {
		if f.op.Class == core.Scan && !g.hasBefore() {
			break
		}
		nothing = append(nothing, kir.Assign{Dst: c.partAt(x, k), Value: c.b.Const(f.identity(k))})
	}
	s := &guarded{id: x.id, g: guard{tests: g.tests, ranges: g.ranges, once: g.once}, fold: &f} // every thread goes on with a state
	err = c.under(s, c.all(c.conditions(g.tests), g.once), func() error {
		v, err := c.contribution(e, f)
		if err == nil {
			if len(v) < len(x.parts) {
				v = f.state.of(c.lowering, f, v[0])
			}
			for k := range x.parts {
				if x.isShared(k) {
					c.b.Add(kir.Assign{Dst: c.partAt(x, k), Value: v[k]})
				}
			}
		}
		return err
	})
	if s.s != nil {
		s.s.Else = nothing
		return err
	}
	for _, n := range nothing {
		c.b.Add(n)
	}
	return err
}

// storesOnce reports whether nothing is folded into the result of id but what
// threads have, in one iteration.
func (l *lowering) storesOnce(id core.ExprID) bool {
	e := l.f.Expr(id)
	for _, class := range l.m.Nest(id) {
		if !l.isOne(l.m.Promotion(class)) && slices.ContainsFunc(e.Out, func(v core.ValID) bool { return !l.isOwnLoop(v, class) }) {
			return false
		}
	}
	return len(l.across(id)) > 0 && !slices.ContainsFunc(l.tensors[e.Out[0]].loop, func(a core.AxisID) bool {
		return l.isReduced(a) && !l.isSpread(a) && !l.isOne(l.m.Promotion(a))
	})
}

// storeReduced folds the result of x into the tensors, in the threads that write
// them. One tensor may have room for points without an element where another has
// not.
func (c *context) storeReduced(x *exchange) error {
	e := c.f.Expr(x.id)
	delete(c.exchanged, x.id)
	w := c.context(c.tensor.v, true)
	g, err := w.guard(x.id, true)
	if err != nil {
		return err
	}
	for _, v := range e.Out[1:] {
		other, err := c.lowering.context(v, true).guard(x.id, true)
		if err != nil {
			return err
		}
		g.tests = append(g.tests, other.tests...)
	}
	_, valid := c.limits(e)
	if y, ok := c.limited[c.tensor.v]; ok && y.valid != valid {
		valid = c.t.And(valid, y.valid)
	}
	state := make([]kir.ValueID, len(x.parts))
	for k := range state {
		state[k] = c.loadFrom(c.partAt(x, k))
	}
	return c.conditional(c.all(c.conditions(g.tests), g.among, []scalar.ID{valid}), func() error {
		if !c.isAcrossBlocks(c.tensor.v) && !c.storesOnce(x.id) {
			return w.accumulate(e, x.fold, state)
		}
		for k, v := range e.Out { // nothing was there before
			dst, err := w.write(v)
			if err != nil {
				return err
			}
			c.assign(dst, state[k])
		}
		return nil
	})
}
