package scalar

import "nvfuser_go/core/dtype"

// FloorDiv returns a / b rounded down.
func (t *Table) FloorDiv(a, b ID) ID { return t.division(FloorDiv, a, b) }

// Mod returns a - b*FloorDiv(a, b).
func (t *Table) Mod(a, b ID) ID { return t.division(Mod, a, b) }

// TruncDiv returns a / b rounded to zero.
func (t *Table) TruncDiv(a, b ID) ID { return t.division(TruncDiv, a, b) }

// Rem returns a - b*TruncDiv(a, b).
func (t *Table) Rem(a, b ID) ID { return t.division(Rem, a, b) }

// CeilDiv returns a / b rounded up.
func (t *Table) CeilDiv(a, b ID) ID {
	a, b, dt := t.unify(FloorDiv, a, b)
	if reasoned(dt) && t.facts[b].Lo >= 1 {
		n := sum{dt: dt, constant: -1}
		n.terms = []term{{a, 1}, {b, 1}}
		if t.sumFacts(&n).bounded() {
			return t.FloorDiv(t.linear(dt, part{a, 1}, part{b, 1}, part{t.integer(dt, 1), -1}), b)
		}
		if t.facts[a].Lo > -1<<63 {
			return t.Neg(t.FloorDiv(t.Neg(a), b))
		}
	}
	one, zero := t.integer(dt, 1), t.integer(dt, 0)
	return t.Add(t.FloorDiv(a, b), t.Select(t.Eq(t.Mod(a, b), zero), zero, one))
}

func (t *Table) division(op Op, a, b ID) ID {
	a, b, dt := t.unify(op, a, b)
	return t.divide(op, dt, a, b)
}

func (t *Table) divide(op Op, dt dtype.Type, a, b ID) ID {
	x, ok := t.ConstInt(a)
	y, ok2 := t.ConstInt(b)
	if ok && ok2 && y != 0 {
		r, _ := arithmetic(op, dt, x, y)
		return t.integer(dt, r)
	}
	if ok2 && y == 1 {
		if op == FloorDiv || op == TruncDiv {
			return a
		}
		return t.integer(dt, 0)
	}
	return t.intern(op, dt, a, b)
}

// recombine simplifies terms of s together.
func (t *Table) recombine(s *sum) {}
