package scalar

import (
	"cmp"
	"slices"

	"nvfuser_go/core/dtype"
)

// Sums and products of an integer type are in one normal form, whatever the
// order they are built in: a sum of terms, each a product of factors times a
// constant coefficient.
//
//	sum     Add(term, ..., constant)   terms by ascending product; no constant 0
//	term    product, or Mul(product, coefficient)
//	product factor, or Mul(factor, ...), by ascending ID
//
// The integers are a ring, and so are those modulo a power of two, so the form
// needs no facts and holds for values that wrap.
//
// A coefficient or constant of an Index that does not fit in 64 bits is the sum
// or product of two constants that do: a node that no rule opens.
//
// The form is given up beyond these limits, where it would cost more than it
// tells: an operand that would exceed them stays whole, as one term of the sum
// or one factor of the product. So a sum of n terms made one by one costs
// O(n*maxTerms).
const (
	maxTerms   = 64 // of a sum
	maxFactors = 16 // of a product
	maxExpand  = 16 // terms that the product of two sums may be expanded to
)

// A term is coef times a product, which is not a constant and has no constant
// factor.
type term struct {
	product ID
	coef    int64
}

// A sum is the sum of terms and a constant.
type sum struct {
	dt       dtype.Type
	terms    []term
	constant int64
}

// A part is an expression times a constant.
type part struct {
	id   ID
	coef int64
}

// Add returns a + b.
func (t *Table) Add(a, b ID) ID {
	a, b, dt := t.unify(Add, a, b)
	return t.linear(dt, part{a, 1}, part{b, 1})
}

// Sub returns a - b.
func (t *Table) Sub(a, b ID) ID {
	a, b, dt := t.unify(Add, a, b)
	return t.linear(dt, part{a, 1}, part{b, -1})
}

// Neg returns -a.
func (t *Table) Neg(a ID) ID {
	a, _, dt := t.unify(Mul, a, a)
	return t.linear(dt, part{a, -1})
}

// Mul returns a * b.
func (t *Table) Mul(a, b ID) ID {
	a, b, dt := t.unify(Mul, a, b)
	if n, ok := t.ConstInt(a); ok {
		return t.linear(dt, part{b, n})
	}
	if n, ok := t.ConstInt(b); ok {
		return t.linear(dt, part{a, n})
	}
	x, y := t.sumOf(a), t.sumOf(b)
	if x.size() > 1 && y.size() > 1 && x.size()*y.size() > maxExpand ||
		x.size()*y.size() > maxTerms {
		x, y = t.whole(a), t.whole(b)
	}
	parts := make([]part, 0, x.size()*y.size())
	for _, p := range x.parts(t) {
		for _, q := range y.parts(t) {
			x := part{q.id, 1}
			if t.Op(q.id) == Const {
				x = part{p.id, 1}
			} else if t.Op(p.id) != Const {
				x = t.product(dt, 1, t.factors(p.id), t.factors(q.id))
			}
			parts = append(parts, t.multiplied(dt, x.id, p.coef, q.coef))
		}
	}
	return t.linear(dt, parts...)
}

// whole returns a sum as one term, so that a product keeps it as a factor.
func (t *Table) whole(id ID) sum {
	s := t.sumOf(id)
	if s.size() > 1 {
		return sum{dt: s.dt, terms: []term{{id, 1}}}
	}
	return s
}

// size returns the number of terms, the constant being one.
func (s *sum) size() int {
	if s.constant != 0 {
		return len(s.terms) + 1
	}
	return len(s.terms)
}

func (s *sum) parts(t *Table) []part {
	parts := make([]part, 0, s.size())
	for _, x := range s.terms {
		parts = append(parts, part{x.product, x.coef})
	}
	if s.constant != 0 {
		parts = append(parts, part{t.integer(s.dt, 1), s.constant})
	}
	return parts
}

// factors returns the factors of a product; the slice may be that of the table.
func (t *Table) factors(product ID) []ID {
	if t.Op(product) == Mul && !t.scaled(product) && !t.beyond(product) {
		return t.Args(product)
	}
	return append(t.ids.take(1), product)
}

// scaled reports whether id is a product times a coefficient.
func (t *Table) scaled(id ID) bool {
	if t.Op(id) != Mul {
		return false
	}
	args := t.Args(id)
	return len(args) == 2 && t.Op(args[1]) == Const && t.Op(args[0]) != Const
}

// beyond reports whether id is a constant that does not fit in 64 bits.
func (t *Table) beyond(id ID) bool {
	if op := t.Op(id); op != Add && op != Mul {
		return false
	}
	args := t.Args(id)
	return len(args) == 2 && t.Op(args[0]) == Const && t.Op(args[1]) == Const
}

// outsize returns the sum or product of a and b, which does not fit in 64 bits.
func (t *Table) outsize(op Op, a, b int64) ID {
	return t.intern(op, dtype.Index, t.Int(min(a, b)), t.Int(max(a, b)))
}

// multiplied returns id*a*b.
func (t *Table) multiplied(dt dtype.Type, id ID, a, b int64) part {
	c, ok := mulExact(a, b)
	if ok || dt != dtype.Index {
		return part{id, wrap(dt, c)}
	}
	if n, ok := t.ConstInt(id); ok {
		return part{t.outsize(Mul, a, b), n}
	}
	return t.product(dt, 1, t.factors(id), []ID{t.outsize(Mul, a, b)})
}

// product returns coef times all factors of a and b as a part.
func (t *Table) product(dt dtype.Type, coef int64, a, b []ID) part {
	if len(a)+len(b) > maxFactors {
		if len(a) < len(b) {
			a, b = b, a
		}
		a = []ID{t.intern(Mul, dt, a...)}
		if len(b) >= maxFactors {
			b = []ID{t.intern(Mul, dt, b...)}
		}
	}
	factors := slices.Concat(a, b)
	slices.Sort(factors)
	if len(factors) == 1 {
		return part{factors[0], coef}
	}
	return part{t.intern(Mul, dt, factors...), coef}
}

// sumOf returns id as a sum. Only the outermost sum is opened: a term that is
// itself a sum was kept whole.
func (t *Table) sumOf(id ID) sum {
	s := sum{dt: t.Type(id)}
	t.open(&s, part{id, 1})
	return s
}

// fewTerms are those of most sums.
const fewTerms = 2

// open adds p to s, without merging equal products.
func (t *Table) open(s *sum, p part) {
	if s.terms == nil {
		s.terms = t.terms.take(fewTerms)
	}
	if t.Op(p.id) == Add {
		s.terms = slices.Grow(s.terms, len(t.Args(p.id)))
		for _, a := range t.Args(p.id) {
			t.addTerm(s, part{a, p.coef})
		}
		return
	}
	t.addTerm(s, p)
}

func (t *Table) addTerm(s *sum, p part) {
	if n, ok := t.ConstInt(p.id); ok {
		x, ok := mulExact(n, p.coef)
		if !ok && s.dt == dtype.Index {
			s.terms = append(s.terms, term{t.outsize(Mul, n, p.coef), 1})
			return
		}
		c, ok := addExact(s.constant, x)
		if !ok && s.dt == dtype.Index {
			s.terms = append(s.terms, term{t.outsize(Add, s.constant, x), 1})
			c = 0
		}
		s.constant = wrap(s.dt, c)
		return
	}
	if t.scaled(p.id) {
		n, _ := t.ConstInt(t.Args(p.id)[1])
		p = t.multiplied(s.dt, t.Args(p.id)[0], n, p.coef)
	}
	s.terms = append(s.terms, term{p.id, p.coef})
}

// merge sorts the terms of s and adds those of equal products, but for
// coefficients of an Index whose sum does not fit.
func (s *sum) merge() {
	slices.SortFunc(s.terms, func(a, b term) int {
		return cmp.Or(cmp.Compare(a.product, b.product), cmp.Compare(a.coef, b.coef))
	})
	merged := s.terms[:0]
	for _, x := range s.terms {
		if n := len(merged); n > 0 && merged[n-1].product == x.product {
			if c, ok := addExact(merged[n-1].coef, x.coef); ok || s.dt != dtype.Index {
				merged[n-1].coef = wrap(s.dt, c)
				continue
			}
		}
		merged = append(merged, x)
	}
	s.terms = slices.DeleteFunc(merged, func(x term) bool { return x.coef == 0 })
}

// gather returns the sum of parts, opened as far as maxTerms allows.
func (t *Table) gather(dt dtype.Type, parts ...part) sum {
	s := sum{dt: dt}
	for _, p := range parts {
		t.open(&s, p)
	}
	s.merge()
	if len(s.terms) <= maxTerms {
		return s
	}
	// Keep the longest operands whole.
	length := func(p part) int {
		if t.Op(p.id) == Add {
			return len(t.Args(p.id))
		}
		return 1
	}
	parts = slices.Clone(parts)
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(length(a), length(b)) })
	s = sum{dt: dt}
	for i, p := range parts {
		if t.Op(p.id) == Add && len(s.terms)+length(p)+len(parts)-i-1 > maxTerms {
			s.terms = append(s.terms, term{p.id, p.coef})
		} else {
			t.open(&s, p)
		}
	}
	s.merge()
	return s
}

// linear returns the sum of parts.
func (t *Table) linear(dt dtype.Type, parts ...part) ID {
	s := t.gather(dt, parts...)
	if dt == dtype.Index {
		t.recombine(&s)
	}
	return t.build(&s)
}

// build interns a merged sum.
func (t *Table) build(s *sum) ID {
	if len(s.terms) == 0 {
		return t.integer(s.dt, s.constant)
	}
	if len(s.terms) == 1 && s.constant == 0 {
		return t.scale(s.dt, s.terms[0])
	}
	args := make([]ID, 0, len(s.terms)+1)
	for _, x := range s.terms {
		args = append(args, t.scale(s.dt, x))
	}
	if s.constant != 0 {
		args = append(args, t.integer(s.dt, s.constant))
	}
	return t.intern(Add, s.dt, args...)
}

func (t *Table) scale(dt dtype.Type, x term) ID {
	if x.coef == 1 {
		return x.product
	}
	return t.intern(Mul, dt, x.product, t.integer(dt, x.coef))
}

// sumFacts returns the facts of s.
func (t *Table) sumFacts(s *sum) Facts {
	f := exactly(s.constant)
	for _, x := range s.terms {
		f = addFacts(f, mulFacts(t.facts[x.product], exactly(x.coef)))
	}
	return f.normal()
}
