package scalar

import (
	"math"
	"slices"
)

// maxRounds bounds the rewritings of one sum.
const maxRounds = 16

// recombine rewrites terms of s that together are less:
//
//	c*(m/d) = c/g * m/(d/g)       g = gcd(c, d), where d divides m by facts
//	c*d*(m/d) + c*(m%d) = c*m
//	c*m - c*d*(m/d) = c*(m%d)
//
// The last two also apply to a coefficient beyond c*d, of which they leave the
// rest.
func (t *Table) recombine(s *sum) {
	for range maxRounds {
		if !t.recombineOnce(s) {
			return
		}
	}
}

func (t *Table) recombineOnce(s *sum) bool {
	for i, x := range s.terms {
		if x.coef == math.MinInt64 { // has no negative
			continue
		}
		for j, f := range t.factors(x.product) {
			switch t.Op(f) {
			case FloorDiv:
				if t.multiplyOut(s, i, j) || t.joinQuotient(s, i, j) {
					return true
				}
			case Mod:
				if t.joinRemainder(s, i, j) {
					return true
				}
			}
		}
	}
	return false
}

// multiplyOut applies the first rule to factor j of term i.
func (t *Table) multiplyOut(s *sum, i, j int) bool {
	x := s.terms[i]
	factors := t.factors(x.product)
	m, d := t.Args(factors[j])[0], t.Args(factors[j])[1]
	c, ok := t.ConstInt(d)
	if !ok || c < 2 || !divides(c, t.facts[m].Divisor) {
		return false
	}
	g := gcd(x.coef, c)
	if g == 1 {
		return false
	}
	rest := t.of(s.dt, x.coef/g, slices.Delete(slices.Clone(factors), j, j+1))
	product := t.Mul(rest.id, t.divide(FloorDiv, s.dt, m, t.integer(s.dt, c/g)))
	return t.exchange(s, term{x.product, x.coef}, part{product, rest.coef})
}

// joinRemainder applies the second rule to the remainder that is factor j of
// term i.
func (t *Table) joinRemainder(s *sum, i, j int) bool {
	if len(s.terms) < 2 {
		return false
	}
	x := s.terms[i]
	factors := t.factors(x.product)
	m, d := t.Args(factors[j])[0], t.Args(factors[j])[1]
	rest := t.of(s.dt, 1, slices.Delete(slices.Clone(factors), j, j+1)).id
	quotient := t.sumOf(t.Mul(rest, t.Mul(d, t.divide(FloorDiv, s.dt, m, d))))
	if len(quotient.terms) != 1 || quotient.constant != 0 {
		return false
	}
	need, ok := mulExact(quotient.terms[0].coef, x.coef)
	if have := s.coefficient(quotient.terms[0].product); !ok || need == math.MinInt64 || !covers(have, need) {
		return false
	}
	return t.exchange(s, x, part{quotient.terms[0].product, -need}, part{t.Mul(rest, m), x.coef})
}

// joinQuotient applies the third rule to the quotient that is factor j of term
// i: alone beside a constant d, or beside d.
func (t *Table) joinQuotient(s *sum, i, j int) bool {
	x := s.terms[i]
	factors := t.factors(x.product)
	m, d := t.Args(factors[j])[0], t.Args(factors[j])[1]
	dc, df := t.monomial(d)
	rest, ok := without(slices.Delete(slices.Clone(factors), j, j+1), df)
	if !ok || len(rest) > 0 || dc == 0 || t.Op(d) == Add {
		return false
	}
	n := -(x.coef / dc) // of m
	if n == 0 {
		return false
	}
	ms := t.sumOf(m)
	if len(ms.terms) == 0 {
		return false
	}
	for _, y := range ms.terms {
		need, ok := mulExact(y.coef, n)
		if !ok || !covers(s.coefficient(y.product), need) {
			return false
		}
	}
	return t.exchange(s, term{x.product, -n * dc}, part{m, -n}, part{t.divide(Mod, s.dt, m, d), n})
}

// covers reports whether have is need or, with the same sign, more.
func covers(have, need int64) bool {
	if need < 0 {
		return have <= need
	}
	return have >= need && have > 0
}

// coefficient returns that of product in s, 0 if it has none.
func (s *sum) coefficient(product ID) int64 {
	i, ok := slices.BinarySearchFunc(s.terms, product, func(x term, p ID) int {
		return int(int64(x.product) - int64(p))
	})
	if !ok {
		return 0
	}
	return s.terms[i].coef
}

// exchange replaces old, which may be less than the term of s, by parts, unless
// the sum becomes too long.
func (t *Table) exchange(s *sum, old term, parts ...part) bool {
	r := sum{dt: s.dt, constant: s.constant}
	r.terms = append(slices.Clone(s.terms), term{old.product, -old.coef})
	for _, p := range parts {
		t.open(&r, p)
	}
	r.merge()
	if len(r.terms) > maxTerms {
		return false
	}
	*s = r
	return true
}
