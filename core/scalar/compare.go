package scalar

import (
	"fmt"
	"math"
	"slices"

	"nvfuser_go/core/dtype"
)

// Min returns the smaller of a and b.
func (t *Table) Min(a, b ID) ID { return t.extremum(Min, a, b) }

// Max returns the larger of a and b.
func (t *Table) Max(a, b ID) ID { return t.extremum(Max, a, b) }

// maxExtremum bounds the operands of a Min or Max; an operand that exceeds it
// is not opened.
const maxExtremum = 8

// extremum returns the Min or Max of a and b: of all operands in ascending
// order, less those that another one makes irrelevant.
func (t *Table) extremum(op Op, a, b ID) ID {
	a, b, dt := t.unify(op, a, b)
	x, ok := t.ConstInt(a)
	y, ok2 := t.ConstInt(b)
	if ok && ok2 {
		r, _ := arithmetic(op, dt, x, y)
		return t.integer(dt, r)
	}
	operands := slices.Concat(t.operands(op, a), t.operands(op, b))
	if len(operands) > maxExtremum {
		operands = []ID{a, b}
	}
	slices.Sort(operands)
	operands = slices.Compact(operands)
	kept := slices.Clone(operands)
	for i := len(operands) - 1; i >= 0; i-- {
		others := slices.Delete(slices.Clone(kept), i, i+1)
		if slices.ContainsFunc(others, func(o ID) bool { return t.beats(op, dt, o, operands[i]) }) {
			kept = others
		}
	}
	if len(kept) == 1 {
		return kept[0]
	}
	return t.intern(op, dt, kept...)
}

// Xor returns the bits in which a and b differ: of all operands in ascending
// order, less those that are there twice, and the constants as one.
func (t *Table) Xor(a, b ID) ID {
	a, b, dt := t.unify(Xor, a, b)
	operands := slices.Concat(t.operands(Xor, a), t.operands(Xor, b))
	slices.Sort(operands)
	constant := int64(0)
	var kept []ID
	for _, x := range operands {
		n, isConst := t.ConstInt(x)
		switch {
		case isConst:
			constant ^= n
		case len(kept) > 0 && kept[len(kept)-1] == x:
			kept = kept[:len(kept)-1]
		default:
			kept = append(kept, x)
		}
	}
	if constant != 0 || len(kept) == 0 {
		kept = append(kept, t.integer(dt, constant))
	}
	if len(kept) == 1 {
		return kept[0]
	}
	return t.intern(Xor, dt, kept...)
}

func (t *Table) operands(op Op, id ID) []ID {
	if t.Op(id) == op {
		return t.Args(id)
	}
	return []ID{id}
}

// beats reports whether Min or Max of a and b is provably a.
func (t *Table) beats(op Op, dt dtype.Type, a, b ID) bool {
	x, ok := t.ConstInt(a)
	y, ok2 := t.ConstInt(b)
	switch {
	case ok && ok2:
		r, _ := arithmetic(op, dt, x, y)
		return r == x
	case dt != dtype.Index:
		return false
	case op == Min:
		return t.atMost(a, b)
	}
	return t.atMost(b, a)
}

// atMost reports whether a <= b provably.
func (t *Table) atMost(a, b ID) bool {
	if t.facts[a].atMost(t.facts[b]) {
		return true
	}
	s := t.gather(dtype.Index, part{a, 1}, part{b, -1})
	return t.sumFacts(&s).Hi <= 0
}

// Lt returns a < b.
func (t *Table) Lt(a, b ID) ID { return t.comparison(Lt, a, b) }

// Le returns a <= b.
func (t *Table) Le(a, b ID) ID { return t.comparison(Le, a, b) }

// Eq returns a == b. The operands may be of type Bool.
func (t *Table) Eq(a, b ID) ID { return t.comparison(Eq, a, b) }

func (t *Table) comparison(op Op, a, b ID) ID {
	dt := t.Type(a)
	if op != Eq || dt != dtype.Bool || t.Type(b) != dtype.Bool {
		a, b, dt = t.unify(op, a, b)
	}
	if dt == dtype.Int && t.cannotWrap(a) && t.cannotWrap(b) { // one node for both types, and the rules of Index
		a, b, dt = t.AsIndex(a), t.AsIndex(b), dtype.Index
	}
	x, ok := t.ConstInt(a)
	y, ok2 := t.ConstInt(b)
	switch {
	case ok && ok2:
		r, _ := arithmetic(op, dt, x, y)
		return t.Bool(r != 0)
	case a == b:
		return t.Bool(op != Lt)
	case op == Eq && dt == dtype.Bool && ok:
		return t.equalsBool(b, x != 0)
	case op == Eq && dt == dtype.Bool && ok2:
		return t.equalsBool(a, y != 0)
	case op == Eq && dt != dtype.Bool:
		return t.equal(dt, a, b)
	case op == Eq:
		return t.intern(Eq, dtype.Bool, min(a, b), max(a, b))
	case dt != dtype.Index || t.depth >= maxDepth:
		return t.intern(op, dtype.Bool, a, b)
	}
	key := request{op, a, b}
	if r, ok := t.memo[key]; ok {
		return r
	}
	t.depth++
	r := t.less(op, a, b)
	t.depth--
	t.remember(key, r)
	return r
}

// cannotWrap reports whether the Int id has the value of its view as an Index,
// whatever the symbols are: it is no arithmetic.
func (t *Table) cannotWrap(id ID) bool {
	op := t.Op(id)
	return op == Const || op == Symbol || op >= FirstOpaque
}

func (t *Table) equalsBool(a ID, value bool) ID {
	if value {
		return a
	}
	return t.Not(a)
}

// less returns a < b, or a <= b, which it writes as a < b+1.
func (t *Table) less(op Op, a, b ID) ID {
	strict := op == Lt
	fa, fb := t.facts[a], t.facts[b]
	switch {
	case fa.Hi < fb.Lo, !strict && fa.atMost(fb):
		return t.Bool(true)
	case fa.Lo > fb.Hi, strict && fb.atMost(fa):
		return t.Bool(false)
	}
	s := t.gather(dtype.Index, part{a, 1}, part{b, -1})
	if !strict {
		t.addTerm(&s, part{t.Int(-1), 1})
	}
	if r, ok := t.negative(s); ok {
		return r
	}
	return t.intern(op, dtype.Bool, a, b)
}

// negative returns s < 0, unless a coefficient has no negative.
func (t *Table) negative(s sum) (ID, bool) {
	for range maxRounds {
		f := t.sumFacts(&s)
		if f.Hi < 0 {
			return t.Bool(true), true
		} else if f.Lo >= 0 {
			return t.Bool(false), true
		}
		reduced, ok := t.reduce(&s)
		if !ok {
			break
		}
		s = reduced
	}
	if !s.negatable() {
		return None, false
	}
	if id, ok := t.withoutDivision(s); ok {
		return id, true
	}
	low, high := s.sides()
	return t.intern(Lt, dtype.Bool, t.build(&low), t.build(&high)), true
}

// reduce returns e with s < 0 if and only if e < 0: s = c*e' + b, where b/c
// rounded down is a constant q, and e = e' + q.
func (t *Table) reduce(s *sum) (sum, bool) {
	var constants []int64
	for _, x := range s.terms {
		if c := magnitude(x.coef); c > 1 {
			constants = append(constants, c)
		}
	}
	slices.Sort(constants)
	constants = slices.Compact(constants)
	for _, c := range slices.Backward(constants) {
		low, high := sum{dt: s.dt, constant: s.constant}, sum{dt: s.dt}
		for _, x := range s.terms {
			if x.coef%c == 0 {
				high.terms = append(high.terms, term{x.product, x.coef / c})
			} else {
				low.terms = append(low.terms, x)
			}
		}
		f := t.sumFacts(&low)
		if q := floorDiv(f.Lo, c); finite(f.Lo) && finite(f.Hi) && q == floorDiv(f.Hi, c) {
			high.constant = q
			return high, true
		}
	}
	if e, ok := t.reduceByDivisor(s, constants); ok {
		return e, true
	}
	return t.reduceByFactor(s)
}

// reduceByDivisor is reduce where what is left is no product of c, but a multiple of it
// all the same, as a size may be: 8*a + b < n says of b from 0 to 7 and n = 8*m what
// 8*a < n says. Then e = c*e' + c*q.
func (t *Table) reduceByDivisor(s *sum, constants []int64) (sum, bool) {
	for _, c := range slices.Backward(constants) {
		low, high := sum{dt: s.dt, constant: s.constant}, sum{dt: s.dt}
		for _, x := range s.terms {
			if d := t.facts[x.product].Divisor; x.coef%c == 0 || d > 0 && d%c == 0 {
				high.terms = append(high.terms, x)
			} else {
				low.terms = append(low.terms, x)
			}
		}
		f := t.sumFacts(&low)
		q := floorDiv(f.Lo, c)
		if !finite(f.Lo) || !finite(f.Hi) || q != floorDiv(f.Hi, c) || len(low.terms) == 0 && low.constant == q*c || magnitude(q) > math.MaxInt64/c/2 {
			continue
		}
		high.constant = q * c
		return high, true
	}
	return sum{}, false
}

// reduceByFactor is reduce for a positive factor c of some products.
func (t *Table) reduceByFactor(s *sum) (sum, bool) {
	var factors []ID
	for _, x := range s.terms {
		if len(t.factors(x.product)) > 1 {
			factors = append(factors, t.factors(x.product)...)
		}
	}
	slices.Sort(factors)
	for _, c := range slices.Compact(factors) {
		low := sum{dt: s.dt, constant: s.constant}
		var high []part
		for _, x := range s.terms {
			if rest, ok := without(t.factors(x.product), []ID{c}); ok {
				high = append(high, t.of(s.dt, x.coef, rest))
			} else {
				low.terms = append(low.terms, x)
			}
		}
		if within(t.sumFacts(&low), t.facts[c].Lo) {
			return t.gather(s.dt, high...), true
		}
	}
	return sum{}, false
}

// withoutDivision returns s < 0 if one side of it is a single division by a
// positive number:
//
//	a/d < n    a < n*d
//	n < a/d    (n+1)*d - 1 < a
func (t *Table) withoutDivision(s sum) (ID, bool) {
	for i, x := range s.terms {
		if t.Op(x.product) != FloorDiv || x.coef != 1 && x.coef != -1 {
			continue
		}
		a, d := t.Args(x.product)[0], t.Args(x.product)[1]
		if t.facts[d].Lo < 1 || slices.ContainsFunc(s.terms, func(y term) bool { return y != x && (y.coef < 0) == (x.coef < 0) }) {
			continue
		}
		n := sum{dt: s.dt, constant: s.constant}
		n.terms = slices.Delete(slices.Clone(s.terms), i, i+1)
		if x.coef > 0 {
			n.constant = -n.constant
			for i := range n.terms { // each is negative
				n.terms[i].coef = -n.terms[i].coef
			}
			return t.Lt(a, t.Mul(t.build(&n), d)), true
		}
		t.addTerm(&n, part{t.Int(1), 1})
		return t.Lt(t.Add(t.Mul(t.build(&n), d), t.Int(-1)), a), true
	}
	return None, false
}

// sides returns the sums a and b with s = a - b whose coefficients are
// positive. So is the constant, unless there is no other term on its side. s
// must be negatable, or stand for its value modulo 2^64.
func (s *sum) sides() (a, b sum) {
	a, b = sum{dt: s.dt}, sum{dt: s.dt}
	for _, x := range s.terms {
		if x.coef > 0 {
			a.terms = append(a.terms, x)
		} else {
			b.terms = append(b.terms, term{x.product, -x.coef})
		}
	}
	if s.constant < 0 && len(a.terms) > 0 || len(b.terms) == 0 {
		b.constant = -s.constant
	} else {
		a.constant = s.constant
	}
	return a, b
}

// negatable reports whether no coefficient of s is the least integer, which has
// no negative.
func (s *sum) negatable() bool {
	return s.constant != math.MinInt64 &&
		!slices.ContainsFunc(s.terms, func(x term) bool { return x.coef == math.MinInt64 })
}

// equal returns a == b for integers of type dt. The difference is compared with
// 0, which is right in the ring of the type as well.
func (t *Table) equal(dt dtype.Type, a, b ID) ID {
	s := t.gather(dt, part{a, 1}, part{b, -1})
	if len(s.terms) == 0 {
		return t.Bool(s.constant == 0)
	}
	if dt == dtype.Index && !s.negatable() {
		return t.intern(Eq, dtype.Bool, min(a, b), max(a, b))
	}
	if s.terms[0].coef < 0 {
		for i := range s.terms {
			s.terms[i].coef = -s.terms[i].coef
		}
		s.constant = -s.constant
	}
	if dt == dtype.Index {
		f := t.sumFacts(&s)
		n := sum{dt: dt, terms: s.terms}
		if f.Lo > 0 || f.Hi < 0 || !divides(t.sumFacts(&n).Divisor, s.constant) {
			return t.Bool(false)
		}
		g := s.constant
		for _, x := range s.terms {
			g = gcd(g, x.coef)
		}
		for i := range s.terms {
			s.terms[i].coef /= g
		}
		s.constant /= g
	}
	x, y := s.sides()
	return t.intern(Eq, dtype.Bool, t.build(&x), t.build(&y))
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
	if t.Type(a) == dtype.Bool {
		x, ok := t.ConstInt(a)
		y, ok2 := t.ConstInt(b)
		if ok && ok2 && x > y {
			return c
		} else if ok && ok2 {
			return t.complement(c)
		}
	}
	if n, ok := t.negated(c); ok {
		return t.Select(n, b, a)
	}
	return t.intern(Select, t.Type(a), c, a, b)
}

// complement returns not c.
func (t *Table) complement(c ID) ID {
	if n, ok := t.negated(c); ok {
		return n
	}
	switch t.Op(c) {
	case Lt:
		return t.Le(t.Args(c)[1], t.Args(c)[0])
	case Le:
		return t.Lt(t.Args(c)[1], t.Args(c)[0])
	}
	return t.intern(Select, dtype.Bool, c, t.Bool(false), t.Bool(true))
}

// negated returns n if c is not n.
func (t *Table) negated(c ID) (ID, bool) {
	if t.Op(c) != Select {
		return None, false
	}
	args := t.Args(c)
	x, ok := t.ConstInt(args[1])
	y, ok2 := t.ConstInt(args[2])
	return args[0], t.Type(c) == dtype.Bool && ok && ok2 && x < y
}

// Not returns whether the Bool a is false.
func (t *Table) Not(a ID) ID { return t.Select(a, t.Bool(false), t.Bool(true)) }

// And returns whether the Bools a and b are both true.
func (t *Table) And(a, b ID) ID { return t.Select(a, b, t.Bool(false)) }

// Or returns whether one of the Bools a and b is true.
func (t *Table) Or(a, b ID) ID { return t.Select(a, t.Bool(true), b) }
