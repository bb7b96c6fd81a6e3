package scalar

import (
	"fmt"

	"nvfuser_go/core/dtype"
)

// Min returns the smaller of a and b.
func (t *Table) Min(a, b ID) ID { return t.extremum(Min, a, b) }

// Max returns the larger of a and b.
func (t *Table) Max(a, b ID) ID { return t.extremum(Max, a, b) }

func (t *Table) extremum(op Op, a, b ID) ID {
	a, b, dt := t.unify(op, a, b)
	x, ok := t.ConstInt(a)
	y, ok2 := t.ConstInt(b)
	if ok && ok2 {
		r, _ := arithmetic(op, dt, x, y)
		return t.integer(dt, r)
	}
	if a == b {
		return a
	}
	return t.intern(op, dt, min(a, b), max(a, b))
}

// Lt returns a < b.
func (t *Table) Lt(a, b ID) ID { return t.comparison(Lt, a, b) }

// Le returns a <= b.
func (t *Table) Le(a, b ID) ID { return t.comparison(Le, a, b) }

// Eq returns a == b. The operands may be of type Bool.
func (t *Table) Eq(a, b ID) ID { return t.comparison(Eq, a, b) }

func (t *Table) comparison(op Op, a, b ID) ID {
	if op != Eq || t.Type(a) != dtype.Bool || t.Type(b) != dtype.Bool {
		a, b, _ = t.unify(op, a, b)
	}
	if t.Type(a) == dtype.Int {
		a, b = t.AsIndex(a), t.AsIndex(b)
	}
	x, ok := t.ConstInt(a)
	y, ok2 := t.ConstInt(b)
	if ok && ok2 {
		r, _ := arithmetic(op, t.Type(a), x, y)
		return t.Bool(r != 0)
	}
	if a == b {
		return t.Bool(op != Lt)
	}
	if op == Eq {
		a, b = min(a, b), max(a, b)
	}
	return t.intern(op, dtype.Bool, a, b)
}

// Select returns a if the Bool c is true, else b. a and b have one type, of any
// kind, or are an Int and an Index.
func (t *Table) Select(c, a, b ID) ID {
	if t.Type(c) != dtype.Bool {
		panic(fmt.Sprintf("scalar: a condition of type %v", t.Type(c)))
	}
	if t.Type(a) != t.Type(b) {
		a, b, _ = t.unify(Select, a, b)
	}
	if n, ok := t.ConstInt(c); ok && n != 0 || a == b {
		return a
	} else if ok {
		return b
	}
	return t.intern(Select, t.Type(a), c, a, b)
}

// Not returns whether the Bool a is false.
func (t *Table) Not(a ID) ID { return t.Select(a, t.Bool(false), t.Bool(true)) }

// And returns whether the Bools a and b are both true.
func (t *Table) And(a, b ID) ID { return t.Select(a, b, t.Bool(false)) }

// Or returns whether one of the Bools a and b is true.
func (t *Table) Or(a, b ID) ID { return t.Select(a, t.Bool(true), b) }
