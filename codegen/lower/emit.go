package lower

import (
	"fmt"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// statements is a pass.
func (l *lowering) statements() error {
	for _, step := range []func() error{l.findKeepings, l.declareKept, l.nests, l.checkTaken} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// nests emits all loops.
func (l *lowering) nests() error {
	if len(l.sides) > 1 {
		return l.sideBySide(l.sides, l.t.Int(0))
	}
	if l.b.Kernel().Launch.Cluster[0] == 1 {
		return l.block(l.m.Tree(), nil)
	}
	l.starting = l.b.If(l.t.Bool(true), func() {}, nil)
	err := l.block(l.m.Tree(), nil)
	if len(l.starting.Then) > 0 { // no block sends before all have started
		l.starting.Then = append(l.starting.Then, kir.ClusterStart{})
		k := l.b.Kernel()
		first := slices.IndexFunc(k.Body, sends)
		k.Body = slices.Insert(k.Body, first, kir.Statement(kir.ClusterStart{Wait: true}))
	}
	return err
}

// sends reports whether s has a send.
func sends(s kir.Statement) bool {
	switch s := s.(type) {
	case kir.Send:
		return true
	case *kir.For:
		return slices.ContainsFunc(s.Body, sends)
	case *kir.If:
		return slices.ContainsFunc(s.Then, sends) || slices.ContainsFunc(s.Else, sends)
	}
	return false
}

// flat returns b with, in the place of conditions that are decided, what is done.
func (l *lowering) flat(b kir.Block) kir.Block {
	var out kir.Block
	for _, s := range b {
		switch s := s.(type) {
		case *kir.For:
			s.Body = l.flat(s.Body)
		case *kir.If:
			s.Then, s.Else = l.flat(s.Then), l.flat(s.Else)
			if n, ok := l.t.ConstInt(s.Cond); ok {
				then := s.Then
				if n == 0 {
					then = s.Else
				}
				out = append(out, then...)
				continue
			}
		}
		out = append(out, s)
	}
	return out
}

// block emits loops and statements. around is the loops that they are in.
func (l *lowering) block(body []*schedule.Nest, around []core.AxisID) error {
	nodes, levels := l.flattened(body, [][]core.AxisID{around})
	nodes = l.together(l.loadsFirst(l.loadsBeforeStores(nodes)))
	outside := func(n *schedule.Nest) []core.AxisID { return levels[n][len(levels[n])-1] }
	allocate := func(n *schedule.Nest) error {
		for _, level := range levels[n] {
			for _, id := range l.inside(n) {
				if err := l.allocate(id, level); err != nil {
					return err
				}
			}
		}
		return nil
	}
	kept, nodes := l.keptFirst(nodes, outside)
	for _, n := range kept {
		if err := allocate(n); err != nil {
			return err
		}
	}
	if err := l.keep(kept, func(n *schedule.Nest) error { return l.node(n, outside(n)) }); err != nil {
		return err
	}
	var packed []held
	for i, n := range nodes {
		l.unpackAgain(packed, n)
		if err := l.meet(nodes[i:]); err != nil {
			return err
		}
		if err := l.lines(n); err != nil {
			return err
		}
		if err := allocate(n); err != nil {
			return err
		}
		if err := l.node(n, outside(n)); err != nil {
			return err
		}
		packed = append(packed, l.packedIn(n)...)
	}
	return nil
}

// loadsBeforeStores returns nodes with what is loaded from inputs to registers before the first
// store: a thread that computes several outputs which have nothing in common has all its loads
// under way at once.
func (l *lowering) loadsBeforeStores(nodes []*schedule.Nest) []*schedule.Nest {
	stores := func(n *schedule.Nest) bool {
		return slices.ContainsFunc(l.inside(n), func(id core.ExprID) bool { return l.s.Memory(l.f.Expr(id).Out[0]) == schedule.Global })
	}
	reduces := func(n *schedule.Nest) bool {
		return slices.ContainsFunc(l.inside(n), func(id core.ExprID) bool { return l.f.Expr(id).Op.Class == core.Reduction })
	}
	first := slices.IndexFunc(nodes, stores)
	if first < 0 || len(l.alias) > 0 || len(l.pipelines) > 0 || slices.ContainsFunc(nodes, reduces) {
		return nodes
	}
	var loads, others []*schedule.Nest
	for _, n := range nodes[first:] {
		if l.isElementLoad(n, nil) && l.f.Expr(n.Expr).Op == core.SetOp {
			loads = append(loads, n)
		} else {
			others = append(others, n)
		}
	}
	return slices.Concat(nodes[:first], loads, others)
}

// loadsFirst returns nodes with single elements of inputs that are read after a reduction
// read before it: they take a register each, and nobody waits for them at the end. What is
// at a position that is loaded itself, which would be waited for at the beginning, is read
// before threads exchange what they have.
func (l *lowering) loadsFirst(nodes []*schedule.Nest) []*schedule.Nest {
	isReduction := func(id core.ExprID) bool { return l.f.Expr(id).Op.Class == core.Reduction }
	first := slices.IndexFunc(nodes, func(n *schedule.Nest) bool { return slices.ContainsFunc(l.inside(n), isReduction) })
	if first < 0 {
		return nodes
	}
	isLoaded, isGathered := map[core.ExprID]bool{}, map[core.ExprID]bool{}
	var direct, gathered, others []*schedule.Nest
	for _, n := range nodes[first:] {
		switch {
		case l.s.LoadsFirst() && l.isVectorLoad(n):
			direct = append(direct, n)
			continue
		case !l.isElementLoad(n, isLoaded):
			others = append(others, n)
			continue
		case l.f.Expr(n.Expr).Op.Class == core.Gather || l.isMadeOf(n.Expr, isGathered):
			isGathered[n.Expr] = true
			gathered = append(gathered, n)
		default:
			direct = append(direct, n)
		}
		isLoaded[n.Expr] = true
	}
	at := max(0, slices.IndexFunc(others, func(n *schedule.Nest) bool {
		return slices.ContainsFunc(l.inside(n), func(id core.ExprID) bool { return len(l.across(id)) > 0 || l.isMadeOf(id, isGathered) })
	}))
	return slices.Concat(nodes[:first], direct, others[:at], gathered, others[at:])
}

// isMadeOf reports whether an operand of id is the result of one of defs.
func (l *lowering) isMadeOf(id core.ExprID, defs map[core.ExprID]bool) bool {
	return slices.ContainsFunc(l.f.TensorArgs(l.f.Expr(id)), func(v core.ValID) bool { return defs[l.f.Val(v).Def] })
}

// isElementLoad reports whether n is not in a loop of a thread and moves elements of inputs,
// or of what isLoaded has, to a register.
func (l *lowering) isElementLoad(n *schedule.Nest, isLoaded map[core.ExprID]bool) bool {
	if n.Axis != core.NoAxis {
		return false
	}
	e := l.f.Expr(n.Expr)
	isMove := e.Op == core.SetOp || e.Op.Class == core.Gather || e.Op.Class == core.View
	return isMove && l.s.Memory(e.Out[0]) == schedule.Local && !slices.ContainsFunc(l.f.TensorArgs(e), func(v core.ValID) bool {
		return !l.f.Val(v).Input && !isLoaded[l.f.Val(v).Def]
	})
}

// isVectorLoad reports whether n is a loop that does nothing but copy an input to registers.
func (l *lowering) isVectorLoad(n *schedule.Nest) bool {
	ids := l.inside(n)
	if n.Axis == core.NoAxis || len(ids) != 1 {
		return false
	}
	e := l.f.Expr(ids[0])
	return e.Op == core.SetOp && l.s.Memory(e.Out[0]) == schedule.Local && l.f.Val(l.f.TensorArgs(e)[0]).Input
}

// A held is a tensor that is held packed, in the block that computes it.
type held struct {
	v    core.ValID
	read *bool // by an earlier loop of the block
}

// packedIn returns the tensors that n computes and that are to be held packed.
func (l *lowering) packedIn(n *schedule.Nest) (list []held) {
	for _, id := range l.inside(n) {
		for _, v := range l.f.Expr(id).Out {
			if l.s.HoldsPacked(v) {
				list = append(list, held{v, new(bool)})
			}
		}
	}
	return list
}

// unpackAgain hides from the compiler what it knows of the tensors that are held
// packed and that n reads, unless n is the first to do so.
func (l *lowering) unpackAgain(packed []held, n *schedule.Nest) {
	for _, h := range packed {
		reads := slices.ContainsFunc(l.inside(n), func(id core.ExprID) bool { return slices.Contains(l.f.TensorArgs(l.f.Expr(id)), h.v) })
		if reads && *h.read {
			l.b.Add(kir.Opaque{Buffer: l.buffers[h.v]})
		}
		*h.read = *h.read || reads
	}
}

// flattened returns body with, in the place of loops that are none in a thread,
// what is in them, and for each node what it is in: around, and such loops.
func (l *lowering) flattened(body []*schedule.Nest, around [][]core.AxisID) ([]*schedule.Nest, map[*schedule.Nest][][]core.AxisID) {
	var nodes []*schedule.Nest
	levels := map[*schedule.Nest][][]core.AxisID{}
	var visit func(body []*schedule.Nest, around [][]core.AxisID)
	visit = func(body []*schedule.Nest, around [][]core.AxisID) {
		for _, n := range body {
			if n.Axis != core.NoAxis {
				class := l.m.LoopClass(n.Axis)
				if value, isLoop := l.only(class); !isLoop && l.pipelines[class] == nil && !l.canUnswitch(n) {
					l.loops[class] = value
					visit(n.Body, append(slices.Clip(around), append(slices.Clip(around[len(around)-1]), class)))
					continue
				}
			}
			nodes, levels[n] = append(nodes, n), around
		}
	}
	visit(body, around)
	return nodes, levels
}

// node emits a loop or a statement.
func (l *lowering) node(n *schedule.Nest, around []core.AxisID) error {
	if is, err := l.windowed(n); is {
		return err
	}
	if n.Axis == core.NoAxis {
		return l.statement(n.Expr)
	}
	class := l.m.LoopClass(n.Axis)
	open := l.open
	if l.canUnswitch(n) {
		open = l.unswitch
	}
	if p := l.pipelines[class]; p != nil {
		return l.pipelined(p, n.Body, around)
	}
	return open(class, func() error { return l.block(n.Body, append(slices.Clip(around), class)) })
}

// inside returns the expressions in n, in order.
func (l *lowering) inside(n *schedule.Nest) []core.ExprID {
	if n.Axis == core.NoAxis {
		return []core.ExprID{n.Expr}
	}
	var ids []core.ExprID
	for _, b := range n.Body {
		ids = append(ids, l.inside(b)...)
	}
	return ids
}

// only returns the one index of a loop that a thread runs once: its iterations run
// in different threads, are one, or are done by one instruction.
func (l *lowering) only(class core.AxisID) (value index, isLoop bool) {
	switch p := l.parallel(class); {
	case l.isOne(l.m.Promotion(class)) || p == schedule.Vectorize:
		return l.t.Int(0), false
	case p.IsBlock() || p.IsThread():
		return l.dimension(p).symbol, false
	}
	return scalar.None, true
}

// open emits the loop of a class around body, if it is one.
func (l *lowering) open(class core.AxisID, body func() error) error {
	return l.openOf(class, l.extent(l.m.Promotion(class)), body)
}

// openOf emits a loop of n iterations.
func (l *lowering) openOf(class core.AxisID, n index, body func() error) error {
	value, isLoop := l.only(class)
	if !isLoop {
		l.loops[class] = value
		return body()
	}
	unroll := kir.UnrollAuto
	if _, isConst := l.t.ConstInt(n); isConst && unrolls(l.parallel(class)) {
		unroll = kir.UnrollFull
	}
	var err error
	around := l.serial
	l.serial = &serialLoop{before: l.b.If(l.t.Bool(true), func() {}, nil), waits: l.waitsInside(class)}
	defer func() { l.serial = around }()
	l.b.For(l.loopName(), l.t.Int(0), n, l.t.Int(1), unroll, func(i index) {
		l.loops[class], l.serial.value = i, i
		if kept, ok := l.backward[class]; ok {
			l.loops[class] = l.countDown(i, n, kept)
		}
		if l.fast != nil {
			l.fast.loops[kir.SymbolID(l.t.Tag(i).Val)] = l.t.Sub(n, l.t.Int(1))
		}
		err = body()
	})
	return err
}

// countDown names the i-th index of n in an order of which those that are kept come last,
// and the others before them, from the last to the first: the second cache has less of an
// element the more was moved since.
func (l *lowering) countDown(i, n index, kept int64) index {
	others := l.t.Sub(n, l.t.Int(kept))
	at := l.t.Select(l.t.Lt(i, others), l.t.Sub(l.t.Sub(others, l.t.Int(1)), i), i)
	down := l.b.Let(l.name("down"), l.b.Index(dtype.Int, at), l.t.Facts(i))
	l.below[down] = n
	return down
}

func (l *lowering) loopName() string {
	l.numLoops++
	return fmt.Sprintf("i%d", l.numLoops-1)
}

// allocate declares the storage of the results of id if that is done inside the
// loops around, and initialises it if id is a reduction.
func (l *lowering) allocate(id core.ExprID, around []core.AxisID) error {
	e := l.f.Expr(id)
	if l.isUnread(id) {
		return nil
	}
	for k, v := range e.Out {
		st := &l.tensors[v].storage
		if l.circular[v] != nil { // by pipelined
			continue
		}
		if n := len(around); n == 0 && st.position != 0 ||
			n > 0 && (st.position == 0 || around[n-1] != l.m.LoopClass(l.tensors[v].loop[st.position-1])) {
			continue
		}
		if err := l.declare(v); err != nil {
			return err
		}
		if e.Op.Class == core.Reduction && !l.isAcrossBlocks(v) && !l.storesOnce(id) {
			if err := l.initialise(id, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// isAcrossBlocks reports whether v is reduced over blocks of the grid: it then is
// stored once, by the last of them.
func (l *lowering) isAcrossBlocks(v core.ValID) bool {
	return slices.ContainsFunc(l.tensors[v].loop, func(a core.AxisID) bool { return l.isReduced(a) && byTicket(l.parallel(a)) })
}

// declare begins the life of the buffer of v.
func (l *lowering) declare(v core.ValID) error {
	memory := l.s.Memory(v)
	if memory == schedule.Global {
		return nil
	}
	if l.s.HoldsWindow(v) {
		return l.newWindow(v)
	}
	shape := l.slots(v)
	for _, a := range l.tensors[v].storage.axes {
		n := l.extent(a)
		shape = append(shape, n)
		if _, ok := l.t.ConstInt(n); !ok && memory == schedule.Local {
			return l.refuse("register size", v, "%s is kept in registers and has %s elements along an axis, which is not a constant: inline it further, or keep it in shared or global memory",
				l.f.Name(v), l.b.Kernel().Expr(n))
		}
	}
	space := kir.Local
	if memory == schedule.Shared {
		space = kir.Shared
	}
	id := l.b.Buffer(l.f.Name(v), space, l.storedType(v), shape...)
	buffer := &l.b.Kernel().Buffers[id]
	buffer.Align = 16
	if space == kir.Shared {
		buffer.Offset = l.t.Int(0) // until memory is placed
		buffer.Distinct = l.tensors[v].storage.onto && l.s.Buffering(v).Stages == 0 && l.f.Expr(l.f.Val(v).Def).Op.Class != core.Reduction
	}
	l.b.Add(kir.Declare{Buffer: id})
	l.buffers[v] = id
	if e := l.f.Expr(l.f.Val(v).Def); e.Op.Class == core.Reduction && len(e.Out) == 1 && space == kir.Local {
		l.results[id] = l.fold(e)
	}
	return nil
}

// statement emits the expression id.
func (l *lowering) statement(id core.ExprID) error {
	l.numStatements++
	if l.isUnread(id) {
		return nil
	}
	e := l.f.Expr(id)
	c := l.context(e.Out[0], false)
	if err := c.alwaysRuns(id); err != nil {
		return err
	}
	if a, width := c.vectorAxis(); width > 1 {
		return l.vector(id, a, width)
	}
	x := l.exchanged[id]
	_, isOfLine := dimOf(e)
	switch {
	case isOfLine && x == nil:
		return c.refuse("line", e.Out[0], "%s needs all of a dimension of what is computed in its loops, or is computed in a loop that is not written out in registers: inline what it reads less", l.f.Name(e.Out[0]))
	case isOfLine:
		return c.storeOfLine(x)
	case x != nil:
		return c.storeReduced(x)
	}
	if e.Op.Class == core.Reduction {
		return c.reduction(id)
	}
	g, err := c.guard(id, false)
	if err != nil {
		return err
	}
	l.limit(e)
	if c.redundant = g.redundant; c.isAsync() {
		g, c.reading = c.zeroFilled(g)
	}
	return c.under(&guarded{id: id, g: g}, c.holds(g), func() error { return c.body(id) })
}

// under emits what a statement does where cond, of its guard, holds.
func (c *context) under(s *guarded, cond scalar.ID, body func() error) error {
	if n, ok := c.t.ConstInt(cond); ok && n == 0 {
		return nil
	}
	var err error
	s.context = c
	s.s = c.b.If(cond, func() { err = body() }, nil)
	c.note(s)
	return err
}

// alwaysRuns refuses what is computed in a loop that is not its own axis and may
// have no iteration, if it is needed outside of that loop: a reader's size of 0
// must not leave it unwritten.
func (c *context) alwaysRuns(id core.ExprID) error {
	for _, v := range c.f.Expr(id).Out {
		for _, class := range c.m.Nest(id) {
			if q := c.m.Promotion(class); c.isOwnLoop(v, class) || c.t.Facts(c.extent(q)).Lo > 0 && !c.isWholeOfNothing(q) {
				continue
			}
			if c.isOutput(v) {
				return c.refuse("empty loop", v, "%s is an output and is computed in a loop of a reader, which may have no iteration: compute it outside of that loop", c.f.Name(v))
			}
			for _, r := range c.readers[v] {
				if !slices.Contains(c.m.Nest(r), class) {
					return c.refuse("empty loop", v, "%s is computed in a loop of a reader, which may have no iteration, and %s reads it outside of that loop: compute it outside of that loop",
						c.f.Name(v), c.f.Name(c.f.Expr(r).Out[0]))
				}
			}
		}
	}
	return nil
}

// isWholeOfNothing reports whether a is made by a whole split of what may have no element: it
// has iterations, of which none has an element either.
func (c *context) isWholeOfNothing(a core.AxisID) bool {
	return slices.ContainsFunc(c.f.TransformsTo([]core.AxisID{a}), func(id core.TransformID) bool {
		t := c.f.Transform(id)
		return t.Whole && c.t.Facts(c.extent(t.In[0])).Lo < 1
	})
}

// isOwnLoop reports whether the iterations of a loop are those of an axis of v.
func (a *Analysis) isOwnLoop(v core.ValID, class core.AxisID) bool {
	return slices.ContainsFunc(a.tensors[v].loop, func(x core.AxisID) bool { return a.m.LoopClass(x) == class && !a.m.IsPromoted(x) })
}

// body emits what a statement that is no reduction does for one element.
func (c *context) body(id core.ExprID) error {
	e := c.f.Expr(id)
	dst, err := c.write(e.Out[0])
	if err != nil {
		return err
	}
	switch {
	case c.isAsync():
		src, err := c.read(c.operand(e, 0))
		if err == nil {
			err = c.asyncCopy(dst, src, c.reading)
		}
		return err
	case e.Op == core.PadOp:
		return c.pad(e, dst)
	case e.Op == core.CatOp:
		return c.cat(e, dst)
	case e.Op.Class == core.Gather:
		return c.gather(e, dst)
	}
	value, err := c.value(id)
	if err != nil {
		return err
	}
	c.assign(dst, value)
	return nil
}

// assign stores a value in the type that the buffer has.
func (c *context) assign(dst kir.Access, value kir.ValueID) {
	value = c.b.Cast(c.b.Kernel().Buffers[dst.Buffer].DType, value)
	c.b.Add(kir.Assign{Dst: dst, Value: value, Redundant: c.redundant})
}
