package lower

import (
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// A part is one of the tensors that the elements of a pad or cat come from.
type part struct {
	tests []test // that an element is of this part, if it is of none before
	src   kir.Access
}

// partsOf returns the parts of the result of e, a pad or cat, for the element of c. Of a cat
// the last one has what is of no other.
func (c *context) partsOf(e *core.Expr) ([]part, error) {
	d := &c.f.Val(e.Out[0]).Domain
	root, ok := c.indices(c.start, d.Root, c.tensor.resizes)
	if !ok {
		return nil, c.refuse("index", e.Out[0], "the loops of %s do not lead to the dimensions of what it is made of", c.f.Name(e.Out[0]))
	}
	if e.Op == core.PadOp {
		var p part
		for k, a := range d.Root {
			if a != d.Logical[k] {
				p.tests = append(p.tests, test{root[k], scalar.None}, test{root[k], c.extent(a)})
			}
		}
		var err error
		p.src, err = c.read(c.operand(e, 0))
		return []part{p}, err
	}
	dim := int(e.Args[1].Int)
	at := root[dim]
	var parts []part
	for k, v := range e.Args[0].Tensors {
		var p part
		n := c.size(c.f.Shape(v)[dim])
		if k < len(e.Args[0].Tensors)-1 {
			p.tests = []test{{at, n}}
		}
		o := c.operand(e, k)
		o.at[dim] = at
		var err error
		if p.src, err = c.read(o); err != nil {
			return nil, err
		}
		parts, at = append(parts, p), c.t.Sub(at, n)
	}
	return parts, nil
}

// vectorOfParts emits width elements of a pad or cat of what is in global memory, in
// registers: by one instruction where all are of one part, else one by one.
func (l *lowering) vectorOfParts(id core.ExprID, a core.AxisID, width int64) error {
	e := l.f.Expr(id)
	v := e.Out[0]
	x := &partVector{lowering: l, e: e, width: width}
	var first guard
	for i := range width {
		l.loops[l.m.LoopClass(a)] = l.t.Int(i)
		c := l.context(v, false)
		g, err := c.guard(id, false)
		if err != nil {
			return err
		}
		if i == 0 {
			first = g
		}
		if g.redundant || l.all(first.once, first.among) != l.all(g.once, g.among) || !l.sameOutcome(first, g, i, width) {
			return l.refuse("vector", v, "%s is vectorized by %d, and some elements of a vector may exist without the others", l.f.Name(v), width)
		}
		dst, err := c.write(v)
		if err != nil {
			return err
		}
		parts, err := c.partsOf(e)
		if err != nil {
			return err
		}
		x.dsts, x.lanes = append(x.dsts, dst), append(x.lanes, parts)
	}
	if err := x.check(); err != nil {
		return err
	}
	l.loops[l.m.LoopClass(a)] = l.t.Int(0)
	l.limit(e)
	return l.context(v, false).under(&guarded{id: id, g: first}, l.holds(first), func() error {
		x.emit(0)
		return nil
	})
}

// A partVector is the elements of a vector, and their parts.
type partVector struct {
	*lowering
	e     *core.Expr
	width int64
	dsts  []kir.Access
	lanes [][]part // by element
}

// check refuses vectors that are none in memory.
func (x *partVector) check() error {
	v := x.e.Out[0]
	for i := range x.lanes {
		if !x.isLocal(x.dsts[i]) || x.dsts[i].Index != x.t.Add(x.dsts[0].Index, x.t.Int(int64(i))) {
			return x.refuse("vector", v, "%s is vectorized, and is not in registers, one element after another", x.f.Name(v))
		}
		for k, p := range x.lanes[i] {
			first, b := x.lanes[0][k].src, &x.b.Kernel().Buffers[p.src.Buffer]
			bytes := int(x.width) * b.DType.Size()
			switch {
			case b.Space != kir.Global || p.src.Index != x.t.Add(first.Index, x.t.Int(int64(i))):
				return x.refuse("vector", v, "%s is vectorized, but elements of what it is made of are not known to be next to each other in memory", x.f.Name(v))
			case bytes > b.Align || !x.t.Divides(x.t.Int(x.width), first.Index):
				return x.refuse("vector", v, "%s is vectorized by %d, and the address of %s is not known to be a multiple of %d bytes", x.f.Name(v), x.width, b.Name, bytes)
			case x.e.Op != core.PadOp && x.isMixed(k):
				return x.refuse("vector", v, "%s is vectorized by %d, which is not known to divide how much is joined", x.f.Name(v), x.width)
			}
		}
	}
	return nil
}

// emit emits the vector where it is of none of the parts before k.
func (x *partVector) emit(k int) {
	if k == len(x.lanes[0]) {
		for _, dst := range x.dsts {
			x.fill(dst)
		}
		return
	}
	cond, otherwise := x.all(x.conditions(x.lanes[0][k].tests)), func() { x.emit(k + 1) }
	if x.isMixed(k) { // a pad: parts of a cat begin where a vector does
		for _, parts := range x.lanes[1:] {
			cond = x.all([]scalar.ID{cond}, x.conditions(parts[k].tests))
		}
		otherwise = x.oneByOne
	}
	x.either(cond, func() {
		dst, src := x.dsts[0], x.lanes[0][k].src
		dst.Width, src.Width = int(x.width), int(x.width)
		x.b.Add(kir.Move{Dst: dst, Src: src})
	}, otherwise)
}

// isMixed reports whether some elements may be of part k, and others not.
func (x *partVector) isMixed(k int) bool {
	for i, parts := range x.lanes {
		if !x.sameOutcome(guard{tests: x.lanes[0][k].tests}, guard{tests: parts[k].tests}, int64(i), x.width) {
			return true
		}
	}
	return false
}

// either is choose for what cannot fail.
func (x *partVector) either(cond scalar.ID, then, otherwise func()) {
	_ = x.choose(cond, func() error { then(); return nil }, func() error { otherwise(); return nil })
}

// oneByOne emits each element apart, of the only part or none.
func (x *partVector) oneByOne() {
	for i, parts := range x.lanes {
		dst := x.dsts[i]
		x.either(x.all(x.conditions(parts[0].tests)), func() {
			x.b.Add(kir.Assign{Dst: dst, Value: x.b.Cast(x.b.Kernel().Buffers[dst.Buffer].DType, x.loadFrom(parts[0].src))})
		}, func() { x.fill(dst) })
	}
}

// fill stores what a pad adds.
func (x *partVector) fill(dst kir.Access) {
	value := x.number(x.e.Args[2].Scalar, x.f.Val(x.e.Out[0]).DType)
	x.b.Add(kir.Assign{Dst: dst, Value: x.b.Cast(x.b.Kernel().Buffers[dst.Buffer].DType, value)})
}
