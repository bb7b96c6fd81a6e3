package lower

import (
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/scalar"
)

// settle is a pass. A test of an index in a loop that is written out, against a bound of
// which a least value is known, holds for sure in the first iterations: there it is
// replaced by one of the number of the iteration, which the compiler knows. So is one
// that an index is not negative, in all but the first iterations. Of a row in the
// registers of a warp only the last few elements of a thread are tested so, and only
// for those is there a value for an element that does not exist.
func (l *lowering) settle() error {
	l.settleIn(l.b.Kernel().Body, nil)
	return nil
}

// settleIn settles the tests in b, which is in loops, the innermost one last.
func (l *lowering) settleIn(b kir.Block, loops []*kir.For) {
	for i, s := range b {
		switch s := s.(type) {
		case kir.Move:
			if s.Guarded {
				for _, loop := range loops {
					s.Guard = l.settled(s.Guard, loop)
				}
				b[i] = s
			}
		case *kir.For:
			around := loops
			if n, isConst := l.t.ConstInt(s.Stop); isConst && n > 1 && s.Unroll == kir.UnrollFull && s.Start == l.t.Int(0) && s.Step == l.t.Int(1) {
				around = append(loops[:len(loops):len(loops)], s)
			}
			l.settleIn(s.Body, around)
		case *kir.If:
			for _, loop := range loops {
				s.Cond = l.settled(s.Cond, loop)
			}
			l.settleIn(s.Then, loops)
			l.settleIn(s.Else, loops)
		}
	}
}

// settled returns cond, in an iteration of s, with its tests settled.
func (l *lowering) settled(cond scalar.ID, s *kir.For) scalar.ID {
	symbol := l.b.Kernel().Symbols[s.Symbol].Expr
	switch args := l.t.Args(cond); l.t.Op(cond) {
	case scalar.Select: // a && b
		if no, isConst := l.t.ConstInt(args[2]); isConst && no == 0 {
			return l.t.And(l.settled(args[0], s), l.settled(args[1], s))
		}
		if yes, isConst := l.t.ConstInt(args[1]); isConst && yes != 0 { // a || b
			return l.t.Or(l.settled(args[0], s), l.settled(args[2], s))
		}
	case scalar.Lt, scalar.Le:
		inLoop, isKnown := false, true // by the iteration alone
		l.t.Symbols(cond, func(id scalar.ID) { inLoop, isKnown = inLoop || id == symbol, isKnown && id == symbol })
		if !inLoop || isKnown {
			return cond
		}
		n, _ := l.t.ConstInt(s.Stop)
		holds := func(i int64) bool {
			at := l.t.Int(i)
			is, isConst := l.t.ConstInt(l.t.Substitute(cond, func(id scalar.ID) (scalar.ID, bool) { return at, id == symbol }))
			return isConst && is != 0
		}
		first, last := int64(0), n
		for first < n && holds(first) {
			first++
		}
		for last > 0 && holds(last-1) {
			last--
		}
		switch {
		case last == 0:
			return l.t.Bool(true)
		case first > 0:
			cond = l.t.Or(l.t.Lt(symbol, l.t.Int(first)), cond)
		}
		if last < n {
			cond = l.t.Or(l.t.Le(l.t.Int(last), symbol), cond)
		}
	}
	return cond
}
