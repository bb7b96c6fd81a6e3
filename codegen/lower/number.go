package lower

import (
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// noteNumber notes how many elements each state of e, a reduction of a thread under g, has in the
// end, if that is a constant: every iteration of its loops adds one then.
func (c *context) noteNumber(id core.ExprID, g guard) {
	e, n := c.f.Expr(id), int64(1)
	for _, a := range c.tensors[e.Out[0]].loop {
		size, isConst := c.t.ConstInt(c.extent(c.m.Promotion(a)))
		switch {
		case !c.isReduced(a):
		case !isConst || c.isSpread(a):
			n = 0
		default:
			n *= size
		}
	}
	if _, isNoted := c.numbers[id]; !c.isEverywhere(g.tests, g.once, g.among) || isNoted && c.numbers[id] != n {
		n = 0 // in some iterations, or another copy of the loops has others
	}
	c.numbers[id] = n
}

// numberOfPart returns how many elements the part of x has in all threads, of what is under g; 0
// if that is not known.
func (c *context) numberOfPart(x *exchange, g guard) int64 {
	e := c.f.Expr(x.id)
	v := c.f.TensorArgs(e)[0]
	switch {
	case x.fold.state == nil || x.fold.state.number == 0 || !c.isEverywhere(g.tests, g.once):
		return 0
	case !e.Op.Merges:
		return 1
	case c.f.Val(v).Def == core.NoExpr || c.s.Memory(v) != schedule.Local:
		return 0
	}
	return c.numbers[c.f.Val(v).Def]
}

// isEverywhere reports whether a statement runs in all iterations of all threads: nothing is
// tested for it, and no copy of its loops or end of them is for those where tests hold.
func (c *context) isEverywhere(tests []test, conditions ...[]scalar.ID) bool {
	return c.fast == nil && c.there == scalar.None && c.all(append(conditions, c.conditions(tests))...) == c.t.Bool(true)
}

// numberOf returns the number of elements that v says, if that is known.
func (l *lowering) numberOf(v kir.ValueID) (int64, bool) {
	x := &l.b.Kernel().Values[v]
	n := x.Const.I
	if x.DType == dtype.Float {
		n = int64(x.Const.Re)
	}
	return n, x.Kind == kir.Constant && n > 0
}

// numbersOf returns the numbers of elements of parts that each of some threads has, and that of
// all of them, if they are known.
func (l *lowering) numbersOf(parts [][]kir.ValueID, at int, threads int64) (each []int64, all int64, ok bool) {
	for _, p := range parts {
		n, ok := l.numberOf(p[at])
		if !ok {
			return nil, 0, false
		}
		each, all = append(each, n), all+n*threads
	}
	return each, all, true
}

// forget lets the numbers of elements of all parts be values like the others: where some are of
// nothing, or are combined by other loops than these, and in the end.
func (m *meeting) forget() {
	for _, x := range m.list {
		if x.number == 0 {
			continue
		}
		m.each(x, func(i index) {
			k := x.fold.state.number
			m.b.Add(kir.Assign{Dst: m.access(x, k, i), Value: m.b.Number(x.fold.types[k], x.number)})
		})
		x.number = 0
	}
}

// multiply lets parts have n times the elements.
func (m *meeting) multiply(n int64) {
	for _, x := range m.list {
		x.number *= n
	}
}

// isShared reports whether threads have to tell each other value k of their parts.
func (x *exchange) isShared(k int) bool { return x.number == 0 || k != x.fold.state.number }
