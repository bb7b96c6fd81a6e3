package lower

import (
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// A fastCopy is the copy of an unswitched nest that makes no index tests: where
// all of them hold at every point of the nest.
type fastCopy struct {
	tests []test                     // of all statements
	loops map[kir.SymbolID]scalar.ID // of the nest: their last index
}

// unswitch emits a loop twice: without index tests where none can fail in it,
// and with them. Each thread decides for itself; what is in an inner loop that
// is to be unswitched is in one of the two copies already.
func (l *lowering) unswitch(class core.AxisID, body func() error) error {
	fast := &fastCopy{loops: map[kir.SymbolID]scalar.ID{}}
	l.fast, l.unswitched = fast, true
	var err, err2 error
	s := l.b.If(l.t.Bool(true), func() {
		err = l.open(class, body)
		l.fast = nil
	}, func() { err2 = l.open(class, body) })
	l.unswitched = false
	if err == nil {
		err = err2
	}
	s.Cond = l.allPoints(fast)
	if n, ok := l.t.ConstInt(s.Cond); ok {
		if n == 0 {
			s.Then = s.Else
		}
		s.Cond, s.Else = l.t.Bool(true), nil
	}
	return err
}

// canUnswitch reports whether the loop is to be unswitched and may be: the
// threads of a block then go apart, so that nothing in it may be for several of
// them, as what scans and sorts make of a line is.
func (l *lowering) canUnswitch(n *schedule.Nest) bool {
	if l.m.Parallel(n.Axis) != schedule.Unswitch || l.unswitched {
		return false
	}
	for _, id := range l.inside(n) {
		e := l.f.Expr(id)
		if _, isOfLine := dimOf(e); isOfLine {
			return false
		}
		for _, v := range append(l.f.TensorArgs(e), e.Out...) {
			if memory := l.s.Memory(v); memory == schedule.Shared || memory == schedule.Global && !l.f.Val(v).Input && len(l.readers[v]) > 0 {
				return false
			}
		}
		for _, a := range l.tensors[e.Out[0]].loop {
			if l.isReduced(a) && l.isSpread(a) {
				return false
			}
		}
	}
	return true
}

// allPoints returns the condition that the tests of a copy hold at all points of
// its nest.
func (l *lowering) allPoints(fast *fastCopy) scalar.ID {
	b := bounds{l: l, loops: fast.loops, memo: map[boundKey]index{}}
	cond := l.t.Bool(true)
	seen := map[test]bool{}
	for _, x := range fast.tests {
		if seen[x] {
			continue
		}
		seen[x] = true
		if x.below == scalar.None {
			cond = l.t.And(cond, b.compare(x.value, false, func(least index) scalar.ID { return l.t.Le(l.t.Int(0), least) }))
		} else {
			cond = l.t.And(cond, b.compare(x.value, true, func(most index) scalar.ID { return l.t.Lt(most, x.below) }))
		}
	}
	return cond
}

// Bounds finds the least and the largest value that an expression may have in
// the iterations of loops, as expressions of everything else. A remainder of
// what depends on the loops may be anything: its largest value is not that at
// their last iteration.
type bounds struct {
	l     *lowering
	loops map[kir.SymbolID]scalar.ID
	memo  map[boundKey]index
}

type boundKey struct {
	id    index
	upper bool
}

// compare returns a condition of the bound, or false if there is none that has a
// value before the loops: they may have no iteration where what an index is
// divided by is 0.
func (b *bounds) compare(id index, upper bool, is func(index) scalar.ID) scalar.ID {
	if e := b.of(id, upper); e != scalar.None && isTotal(b.l.t, e, map[scalar.ID]bool{}) {
		return is(e)
	}
	return b.l.t.Bool(false)
}

// of returns the bound of id, None if it is not known.
func (b *bounds) of(id index, upper bool) index {
	key := boundKey{id, upper}
	e, ok := b.memo[key]
	if !ok {
		e = b.find(id, upper)
		b.memo[key] = e
	}
	return e
}

func (b *bounds) find(id index, upper bool) index {
	t := b.l.t
	if !b.depends(id) {
		return id
	}
	args := t.Args(id)
	switch t.Op(id) {
	case scalar.Symbol:
		if upper {
			return b.loops[kir.SymbolID(t.Tag(id).Val)]
		}
		return t.Int(0)
	case scalar.Add, scalar.Min, scalar.Max:
		out := b.of(args[0], upper)
		for _, a := range args[1:] {
			x := b.of(a, upper)
			if out == scalar.None || x == scalar.None {
				return scalar.None
			}
			out = t.Apply(t.Op(id), t.Type(id), out, x)
		}
		return out
	case scalar.Mul:
		return b.product(args, upper)
	case scalar.FloorDiv:
		x := b.of(args[0], upper)
		if x == scalar.None || b.depends(args[1]) || t.Facts(args[1]).Lo < 0 {
			return scalar.None
		}
		return t.FloorDiv(x, args[1])
	case scalar.Mod:
		switch {
		case b.depends(args[1]) || t.Facts(args[1]).Lo < 0:
			return scalar.None
		case upper:
			return t.Sub(args[1], t.Int(1))
		}
		return t.Int(0)
	}
	return scalar.None
}

// product bounds a product of which at most one factor, a constant, is negative.
func (b *bounds) product(args []index, upper bool) index {
	t, negative := b.l.t, 0
	out := t.Int(1)
	for _, a := range args {
		if n, ok := t.ConstInt(a); ok && n < 0 {
			upper, negative = !upper, negative+1
		}
	}
	for _, a := range args {
		x := a
		if b.depends(a) {
			if x = b.of(a, upper); x == scalar.None || t.Facts(a).Lo < 0 {
				return scalar.None
			}
		} else if n, ok := t.ConstInt(a); !ok && t.Facts(a).Lo < 0 || ok && n < 0 && negative > 1 {
			return scalar.None
		}
		out = t.Mul(out, x)
	}
	return out
}

func (b *bounds) depends(id index) bool {
	found := false
	b.l.t.Symbols(id, func(s scalar.ID) {
		_, ok := b.loops[kir.SymbolID(b.l.t.Tag(s).Val)]
		found = found || ok
	})
	return found
}
