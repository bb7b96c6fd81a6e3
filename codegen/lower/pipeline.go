package lower

import (
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// A pipeline is a loop of which tiles are loaded before the iteration that uses
// them, into the slots of circular buffers. With P tiles ahead it becomes
//
//	for p < P       load tile p
//	for i < n       load tile i+P; compute with tile i
//
// where tile t is in slot t modulo the number of slots. Loads past the last tile
// read nothing. Those that are asynchronous are one group per tile, also where
// there is none; where to wait for them, and for the readers of a slot, is
// decided with all other barriers (synchronise.go).
//
// Blocks that are dealt tiles in turn have their own number of iterations (dealt.go).
//
// If the loop is inside others, each of their iterations starts at slot 0.
//
// Registers have no index: there the tile in use is in slot 0 and those ahead follow in
// order, and each iteration begins with moving them up by one.
type pipeline struct {
	class     core.AxisID // of the loop
	buffering schedule.Buffering
	tensors   []core.ValID // that have circular buffers
}

// findPipelines sorts circular buffers by their loops, or says why one cannot be
// filled ahead.
func (a *Analysis) findPipelines() error {
	for _, v := range a.s.Tensors() {
		b := a.s.Buffering(v)
		if b.Stages == 0 {
			continue
		}
		if err := a.checkCircular(v); err != nil {
			return err
		}
		class, err := a.pipelinedLoop(v)
		if err != nil {
			return err
		}
		p := a.pipelines[class]
		if p == nil {
			p = &pipeline{class: class, buffering: b}
			a.pipelines[class] = p
		}
		if p.buffering != b {
			w := p.tensors[0]
			return a.refuse("circular buffer", v, "%s has %d stages, %d ahead, and %s, in the same loop, has %d, %d ahead: what one loop loads ahead must agree",
				a.f.Name(v), b.Stages, b.Prefetch, a.f.Name(w), p.buffering.Stages, p.buffering.Prefetch)
		}
		p.tensors = append(p.tensors, v)
		a.circular[v] = p
	}
	return nil
}

// checkCircular refuses circular buffers that are not filled from global memory by
// copies.
func (a *Analysis) checkCircular(v core.ValID) error {
	name, e := a.f.Name(v), a.f.Expr(a.f.Val(v).Def)
	switch {
	case e.Op != core.SetOp:
		return a.refuse("circular buffer", v, "%s has a circular buffer and is the result of %s(): only a copy is made ahead; cache it", name, e.Op.Name)
	}
	if p := a.f.TensorArgs(e)[0]; a.s.Memory(p) != schedule.Global {
		return a.refuse("circular buffer", v, "%s has a circular buffer and copies %s, which is in %v memory: only what is in global memory is there ahead of its use", name, a.f.Name(p), a.s.Memory(p))
	}
	return nil
}

// pipelinedLoop returns the loop whose iterations are the tiles of v: the
// innermost one that it shares with its readers and that one thread runs. Loops
// of one iteration are none unless there is no other.
func (a *Analysis) pipelinedLoop(v core.ValID) (core.AxisID, error) {
	name, id, position := a.f.Name(v), a.f.Val(v).Def, a.s.Position(v)
	found := core.NoAxis
	if position > 0 {
		nest := a.m.Nest(id)
		last := slices.Index(nest, a.m.LoopClass(a.s.Loop(v)[position-1]))
		for _, class := range slices.Backward(nest[:last+1]) {
			if a.isSpread(class) {
				continue
			}
			if one := a.isOne(a.m.Promotion(class)); !one || found == core.NoAxis {
				found = class
				if !one {
					break
				}
			}
		}
	}
	if found == core.NoAxis {
		return found, a.refuse("circular buffer", v, "%s has a circular buffer and is not computed inside a loop of its readers whose iterations one thread runs: inline it into the loop over its tiles", name)
	}
	source := a.f.TensorArgs(a.f.Expr(id))[0]
	if d := a.f.Val(source).Def; d != core.NoExpr && slices.Contains(a.m.Nest(d), found) {
		return found, a.refuse("circular buffer", v, "%s has a circular buffer and the loop over its tiles computes %s, which it copies: a tile would be read before it is there", name, a.f.Name(source))
	}
	return found, nil
}

// pipelined emits a loop with circular buffers, of which body is the statements.
// around are the loops that it is in.
func (l *lowering) pipelined(p *pipeline, body []*schedule.Nest, around []core.AxisID) error {
	for _, v := range p.tensors {
		if err := l.declare(v); err != nil {
			return err
		}
	}
	copies, rest := l.divided(body, func(id core.ExprID) bool { return l.circular[l.f.Expr(id).Out[0]] == p })
	inside := append(slices.Clip(around), p.class)
	load := func(tile, register index) error {
		l.loops[p.class], l.ahead, l.register = tile, p, register
		err := l.block(copies, inside)
		l.ahead = nil
		if slices.ContainsFunc(p.tensors, func(v core.ValID) bool { return l.s.CopyKind(v) == schedule.AsyncCopy }) {
			l.b.Add(kir.AsyncCommit{})
		}
		return err
	}
	if err := l.prologue(p, load); err != nil {
		return err
	}
	own := l.ownTiles(p, rest)
	before := l.there
	defer func() { l.there = before }()
	return l.openOf(p.class, own.number, func() error {
		i, ahead := l.loops[p.class], l.t.Int(int64(p.buffering.Prefetch))
		l.moveUp(p)
		if err := load(l.t.Add(i, ahead), ahead); err != nil {
			return err
		}
		if l.loops[p.class] = i; own.there != nil {
			l.there = own.there(i)
		}
		return l.block(rest, inside)
	})
}

// prologue loads the first tiles, unless there is none: indices may then divide
// by a size of 0.
func (l *lowering) prologue(p *pipeline, load func(tile, register index) error) error {
	return l.conditional(l.t.Lt(l.t.Int(0), l.tiles(p)), func() error {
		if p.buffering.Prefetch == 1 {
			return load(l.t.Int(0), l.t.Int(1))
		}
		var err error
		l.b.Repeat(l.loopName(), int64(p.buffering.Prefetch), kir.UnrollFull, func(i index) { err = load(i, l.t.Add(i, l.t.Int(1))) })
		return err
	})
}

// moveUp lets the tiles in registers be in the slots of the iteration that begins.
func (l *lowering) moveUp(p *pipeline) {
	for _, v := range p.tensors {
		if l.s.Memory(v) != schedule.Local {
			continue
		}
		id := l.buffers[v]
		shape := l.b.Kernel().Buffers[id].Shape
		var move func(coords []index)
		move = func(coords []index) {
			if k := len(coords); k < len(shape) {
				n, _ := l.t.ConstInt(shape[k])
				if k == 0 {
					n = int64(p.buffering.Prefetch)
				}
				l.b.Repeat(l.loopName(), n, kir.UnrollFull, func(i index) { move(append(slices.Clip(coords), i)) })
				return
			}
			from := slices.Clone(coords)
			from[0] = l.t.Add(from[0], l.t.Int(1))
			l.b.Store(l.b.Load(id, from...), id, coords...)
		}
		move(nil)
	}
}

// tiles returns how many iterations the loop has.
func (l *lowering) tiles(p *pipeline) index { return l.extent(l.m.Promotion(p.class)) }

// divided returns the loops with the statements that are selected and those with
// the others.
func (l *lowering) divided(body []*schedule.Nest, selected func(core.ExprID) bool) (yes, no []*schedule.Nest) {
	for _, n := range body {
		a, b := []*schedule.Nest{n}, []*schedule.Nest(nil)
		if n.Axis == core.NoAxis {
			if !selected(n.Expr) {
				a, b = b, a
			}
		} else {
			with := func(inner []*schedule.Nest) []*schedule.Nest {
				if len(inner) == 0 {
					return nil
				}
				return []*schedule.Nest{{Axis: n.Axis, Body: inner, Expr: n.Expr}}
			}
			x, y := l.divided(n.Body, selected)
			a, b = with(x), with(y)
		}
		yes, no = append(yes, a...), append(no, b...)
	}
	return yes, no
}

// slots returns the extent of v's circular buffer along its slots.
func (l *lowering) slots(v core.ValID) []index {
	p := l.circular[v]
	switch {
	case p == nil:
		return nil
	case l.s.Memory(v) == schedule.Local:
		return []index{l.t.Int(int64(p.buffering.Prefetch + 1))}
	}
	return []index{l.t.Int(int64(p.buffering.Stages))}
}

// slot returns the coordinate of v's tile in its circular buffer.
func (l *lowering) slot(v core.ValID) []index {
	p := l.circular[v]
	switch {
	case p == nil:
		return nil
	case l.s.Memory(v) == schedule.Local && l.ahead == p:
		return []index{l.register}
	case l.s.Memory(v) == schedule.Local:
		return []index{l.t.Int(0)}
	}
	return []index{l.t.Mod(l.loops[p.class], l.t.Int(int64(p.buffering.Stages)))}
}

// aheadTests returns the test that a tile that is loaded ahead is there.
func (c *context) aheadTests() []test {
	if c.ahead == nil {
		return nil
	}
	return []test{{c.loops[c.ahead.class], c.tiles(c.ahead)}}
}

// isAsync reports whether the statement is an asynchronous copy. One that several
// threads make is none, as they may land at any time.
func (c *context) isAsync() bool {
	return c.s.CopyKind(c.tensor.v) == schedule.AsyncCopy && !c.redundant
}

// zeroFilled splits the condition of an asynchronous copy into that of the
// statement and that of reading: where only the latter fails it writes zeros, so
// that threads need not go apart. That takes an element of the buffer for each
// point of the loops; what belongs to other threads is left alone.
func (c *context) zeroFilled(g guard) (runs, reads guard) {
	if c.tensor.storage.compact || len(c.aliens) > 0 {
		return g, guard{}
	}
	those := c.threadTests(false, nil, nil, nil)
	if k := c.keeping; k != nil && k.isRing { // what is there stays
		those = append(those, c.aheadTests()...)
	}
	runs = guard{once: g.once, among: g.among}
	for _, x := range g.tests {
		if slices.Contains(those, x) {
			runs.tests = append(runs.tests, x)
		} else {
			reads.tests = append(reads.tests, x)
		}
	}
	return runs, reads
}

// asyncCopy emits a copy that a later wait completes.
func (c *context) asyncCopy(dst, src kir.Access, reads guard) error {
	v := c.tensor.v
	if n := src.Width * c.b.Kernel().Buffers[src.Buffer].DType.Size(); n != 4 && n != 8 && n != 16 {
		return c.refuse("copy", v, "%s is copied asynchronously by %d bytes, and only 4, 8 or 16 are copied at once", c.f.Name(v), n)
	}
	cond := c.holds(reads)
	if n, ok := c.t.ConstInt(cond); ok {
		if n == 0 {
			return nil
		}
		cond = scalar.None
	}
	cache, last := c.cacheOf(v)
	if cache == kir.CacheStreaming { // which copies of this kind are anyway
		cache = kir.CacheDefault
	}
	c.b.Add(kir.AsyncCopy{Dst: dst, Src: src, Guard: cond, Cache: cache, Last: last})
	return nil
}
