package scalar

import (
	"math"
	"slices"

	"nvfuser_go/core/dtype"
)

// FloorDiv returns a / b rounded down.
func (t *Table) FloorDiv(a, b ID) ID { return t.division(FloorDiv, a, b) }

// Mod returns a - b*FloorDiv(a, b).
func (t *Table) Mod(a, b ID) ID { return t.division(Mod, a, b) }

// TruncDiv returns a / b rounded to zero.
func (t *Table) TruncDiv(a, b ID) ID { return t.division(TruncDiv, a, b) }

// Rem returns a - b*TruncDiv(a, b).
func (t *Table) Rem(a, b ID) ID { return t.division(Rem, a, b) }

// CeilDiv returns a / b rounded up: (a + b - 1)/b if b is known not to be
// negative.
func (t *Table) CeilDiv(a, b ID) ID {
	a, b, dt := t.unify(FloorDiv, a, b)
	if dt == dtype.Index && t.Divides(b, a) {
		return t.FloorDiv(a, b)
	}
	if dt == dtype.Index && t.facts[b].Lo >= 0 {
		return t.FloorDiv(t.linear(dt, part{a, 1}, part{b, 1}, part{t.Int(1), -1}), b)
	}
	one, zero := t.integer(dt, 1), t.integer(dt, 0)
	return t.Add(t.FloorDiv(a, b), t.Select(t.Eq(t.Mod(a, b), zero), zero, one))
}

func (t *Table) division(op Op, a, b ID) ID {
	a, b, dt := t.unify(op, a, b)
	return t.divide(op, dt, a, b)
}

// maxDepth bounds the nesting of rules that apply rules. Beyond it a division or
// comparison stays as it is. Expressions of real fusions reach less than 10.
const maxDepth = 64

func (t *Table) divide(op Op, dt dtype.Type, x, d ID) ID {
	n, ok := t.ConstInt(x)
	c, constant := t.ConstInt(d)
	if ok && constant {
		if r, err := arithmetic(op, dt, n, c); err == nil {
			return t.integer(dt, r)
		}
	}
	if dt == dtype.UInt64 || dt == dtype.Index && t.facts[x].Lo >= 0 && t.facts[d].Lo >= 0 {
		switch op {
		case TruncDiv:
			op = FloorDiv
		case Rem:
			op = Mod
		}
	}
	if constant && c == 1 {
		if op == FloorDiv || op == TruncDiv {
			return x
		}
		return t.integer(dt, 0)
	}
	if dt != dtype.Index || op == TruncDiv || op == Rem || constant && c == 0 || t.depth >= maxDepth {
		return t.intern(op, dt, x, d)
	}
	key := request{op, x, d}
	if r, ok := t.memo[key]; ok {
		return r
	}
	t.depth++
	var r ID
	if op == FloorDiv {
		r = t.floorDivRules(dt, x, d)
	} else {
		r = t.modRules(dt, x, d)
	}
	t.depth--
	t.remember(key, r)
	return r
}

// floorDivRules returns x / d rounded down. A d that is not constant may be 0,
// where x / d is an error: a rule holds for every other d of the sign that it
// asks for. If the division goes, so does the error.
func (t *Table) floorDivRules(dt dtype.Type, x, d ID) ID {
	if c, ok := t.ConstInt(d); ok && c < 0 && c != math.MinInt64 {
		return t.divide(FloorDiv, dt, t.Neg(x), t.Int(-c))
	}
	if n, ok := divFacts(FloorDiv, t.facts[x], t.facts[d]).constant(); ok && t.facts[d].Lo > 0 {
		return t.Int(n)
	}
	if q, r, ok := t.split(dt, x, d); ok {
		if r.size() > 0 {
			q = append(q, part{t.divide(FloorDiv, dt, t.build(&r), d), 1})
		}
		return t.linear(dt, q...)
	}
	if c, ok := t.cancel(dt, x, d); ok {
		return t.divide(FloorDiv, dt, c.numerator, c.divisor)
	}
	if t.facts[d].Lo < 0 {
		return t.intern(FloorDiv, dt, x, d)
	}
	if t.Op(x) == Mod { // (a % (d*n)) / d = (a / d) % n
		a, m := t.Args(x)[0], t.Args(x)[1]
		if q, r, ok := t.split(dt, m, d); ok && r.size() == 0 && t.facts[m].Lo >= 0 {
			return t.divide(Mod, dt, t.divide(FloorDiv, dt, a, d), t.linear(dt, q...))
		}
	}
	if n, e, ok := t.denest(dt, x, d); ok {
		return t.divide(FloorDiv, dt, n, e)
	}
	if y, _, ok := t.withoutLow(dt, x, d); ok {
		return t.divide(FloorDiv, dt, y, d)
	}
	return t.intern(FloorDiv, dt, x, d)
}

// withoutLow returns x less a part of it, not negative, that does not change x / d, and is
// part of x % d: d > 0 and the rest of x are multiples of a number above it.
func (t *Table) withoutLow(dt dtype.Type, x, d ID) (rest, low ID, ok bool) {
	if t.facts[d].Lo < 1 {
		return x, None, false
	}
	s := t.sumOf(x)
	for _, c := range t.commonConstants(&s, t.facts[d].Divisor) {
		if _, low := t.cut(dt, &s, c); low.size() > 0 && low.size() < s.size() && within(t.sumFacts(&low), c) {
			y := t.build(&low)
			return t.Sub(x, y), y, true
		}
	}
	return x, None, false
}

// modRules returns x - d*(x / d).
func (t *Table) modRules(dt dtype.Type, x, d ID) ID {
	fx := t.facts[x]
	if within(fx, t.facts[d].Lo) {
		return x
	}
	if c, ok := t.ConstInt(d); ok && c < 0 && c != math.MinInt64 {
		return t.Neg(t.divide(Mod, dt, t.Neg(x), t.Int(-c)))
	} else if ok && c > 0 && finite(fx.Lo) && finite(fx.Hi) {
		if q := floorDiv(fx.Lo, c); q == floorDiv(fx.Hi, c) {
			return t.linear(dt, part{x, 1}, part{d, -q})
		}
	}
	if _, r, ok := t.split(dt, x, d); ok {
		if r.size() == 0 {
			return t.Int(0)
		}
		return t.divide(Mod, dt, t.build(&r), d)
	}
	if t.Op(x) == Mod && t.Divides(d, t.Args(x)[1]) { // (a % (d*n)) % d = a % d
		return t.divide(Mod, dt, t.Args(x)[0], d)
	}
	if c, ok := t.cancel(dt, x, d); ok {
		rest := t.build(&c.low)
		return t.linear(dt, part{t.Mul(c.factor, t.divide(Mod, dt, c.numerator, c.divisor)), 1}, part{rest, 1})
	}
	if y, low, ok := t.withoutLow(dt, x, d); ok {
		return t.linear(dt, part{t.divide(Mod, dt, y, d), 1}, part{low, 1})
	}
	return t.intern(Mod, dt, x, d)
}

// monomial returns id as a constant times factors; a sum is a factor.
func (t *Table) monomial(id ID) (int64, []ID) {
	if c, ok := t.ConstInt(id); ok {
		return c, nil
	}
	if t.scaled(id) {
		c, _ := t.ConstInt(t.Args(id)[1])
		return c, t.factors(t.Args(id)[0])
	}
	return 1, t.factors(id)
}

// without returns factors less those of divisor, both in ascending order, if
// they are all there.
func without(factors, divisor []ID) ([]ID, bool) {
	if len(divisor) > len(factors) {
		return nil, false
	}
	rest := make([]ID, 0, len(factors)-len(divisor))
	for _, f := range factors {
		if len(divisor) > 0 && f == divisor[0] {
			divisor = divisor[1:]
		} else {
			rest = append(rest, f)
		}
	}
	return rest, len(divisor) == 0
}

// of returns coef times the product of factors as a part.
func (t *Table) of(dt dtype.Type, coef int64, factors []ID) part {
	if len(factors) == 0 {
		return part{t.integer(dt, 1), coef}
	}
	return t.product(dt, coef, factors, nil)
}

// atom reports whether id is neither a constant nor a sum nor a product.
func (t *Table) atom(id ID) bool {
	op := t.Op(id)
	return op != Const && op != Add && op != Mul || t.beyond(id)
}

// split returns q, not empty, and r with x = q*d + r. The remainder of a
// coefficient has its sign, that of the constant is non-negative:
// (5*a - b + 7)/4 = a + 1 + (a - b + 3)/4.
func (t *Table) split(dt dtype.Type, x, d ID) ([]part, sum, bool) {
	s := t.sumOf(x)
	if t.Op(d) == Add {
		if q, r, ok := t.splitBySum(s, d); ok {
			return q, r, true
		}
	}
	dc, df := t.monomial(d)
	var q []part
	r := sum{dt: dt}
	for _, p := range s.terms {
		rest, ok := without(t.factors(p.product), df)
		if !ok || p.coef == math.MinInt64 && dc == -1 {
			r.terms = append(r.terms, p)
			continue
		}
		if n := p.coef / dc; n != 0 {
			q = append(q, t.of(dt, n, rest))
		}
		n := p.coef % dc
		if n == 0 {
			continue
		}
		if e, ok := t.divideByFacts(dt, term{p.product, n}, dc); ok && len(df) == 0 && !t.atom(x) {
			q = append(q, e)
		} else {
			r.terms = append(r.terms, term{p.product, n})
		}
	}
	r.constant = s.constant
	if len(df) == 0 && dc > 0 {
		if n := floorDiv(s.constant, dc); n != 0 {
			q = append(q, part{t.integer(dt, 1), n})
		}
		r.constant = floorMod(s.constant, dc)
	}
	return q, r, len(q) > 0
}

// splitBySum is split for a divisor that is a sum: division of polynomials by
// the first of the terms of d with the most factors, kept if it leaves fewer
// terms. Coefficients are small, so none overflows.
func (t *Table) splitBySum(s sum, d ID) ([]part, sum, bool) {
	ds := t.sumOf(d)
	if !s.plain() || !ds.plain() {
		return nil, s, false
	}
	lead := ds.terms[0]
	for _, x := range ds.terms[1:] {
		if len(t.factors(x.product)) > len(t.factors(lead.product)) {
			lead = x
		}
	}
	var q []part
	r := s
	for range maxExpand {
		i := slices.IndexFunc(r.terms, func(x term) bool {
			_, ok := without(t.factors(x.product), t.factors(lead.product))
			return ok && x.coef%lead.coef == 0
		})
		if i < 0 || !r.plain() {
			break
		}
		rest, _ := without(t.factors(r.terms[i].product), t.factors(lead.product))
		n := r.terms[i].coef / lead.coef
		q = append(q, t.of(s.dt, n, rest))
		parts := r.parts(t)
		for _, x := range ds.terms {
			parts = append(parts, t.of(s.dt, -n*x.coef, slices.Sorted(slices.Values(slices.Concat(rest, t.factors(x.product))))))
		}
		if ds.constant != 0 {
			parts = append(parts, t.of(s.dt, -n*ds.constant, rest))
		}
		r = t.gather(s.dt, parts...)
	}
	return q, r, len(q) > 0 && r.size() < s.size() && r.plain()
}

// plain reports whether the coefficients of s are so small that none of a few products of two overflows. They are
// strides where sizes are constants: those of matrices that are tiled are above 2^20.
func (s *sum) plain() bool {
	const limit = 1 << 30
	small := func(n int64) bool { return -limit < n && n < limit }
	return small(s.constant) && !slices.ContainsFunc(s.terms, func(x term) bool { return !small(x.coef) })
}

// divideByFacts returns p/c if the facts show that c > 0 divides p.
func (t *Table) divideByFacts(dt dtype.Type, p term, c int64) (part, bool) {
	if c < 1 {
		return part{}, false
	}
	g := gcd(p.coef, c)
	coef := p.coef / g
	c /= g
	if !divides(c, t.facts[p.product].Divisor) {
		return part{}, false
	}
	if c == 1 {
		return part{p.product, coef}, true
	}
	result := t.integer(dt, 1)
	for _, f := range t.factors(p.product) {
		if g := gcd(t.facts[f].Divisor, c); g > 1 {
			f = t.divide(FloorDiv, dt, f, t.integer(dt, g))
			c /= g
		}
		result = t.Mul(result, f)
	}
	return part{result, coef}, true
}

// A reduced division: x = numerator*factor + low and d = divisor*factor, with
// low = 0, or d >= 0 and 0 <= low < factor.
type reduced struct {
	numerator, divisor, factor ID
	low                        sum
}

// cancel finds a common factor of d and of x, or of a part of x if the rest is
// less than it, and so shows that it is positive.
func (t *Table) cancel(dt dtype.Type, x, d ID) (reduced, bool) {
	dc, df := t.monomial(d)
	if t.atom(x) {
		return reduced{}, false
	}
	s := t.sumOf(x)
	negligible := func(low *sum, limit int64) bool {
		return low.size() == 0 || t.facts[d].Lo >= 0 && within(t.sumFacts(low), limit)
	}
	for _, c := range t.commonConstants(&s, dc) {
		high, low := t.cut(dt, &s, c)
		if len(high) > 0 && negligible(&low, c) {
			e := t.linear(dt, t.of(dt, dc/c, df))
			return reduced{t.linear(dt, high...), e, t.integer(dt, c), low}, true
		}
	}
	for _, f := range df {
		var high []part
		low := sum{dt: dt, constant: s.constant}
		for _, p := range s.terms {
			if rest, ok := without(t.factors(p.product), []ID{f}); ok {
				high = append(high, t.of(dt, p.coef, rest))
			} else {
				low.terms = append(low.terms, p)
			}
		}
		if len(high) > 0 && negligible(&low, t.facts[f].Lo) {
			rest, _ := without(df, []ID{f})
			return reduced{t.linear(dt, high...), t.linear(dt, t.of(dt, dc, rest)), f, low}, true
		}
	}
	return reduced{}, false
}

// within reports whether f shows that 0 <= n < limit.
func within(f Facts, limit int64) bool { return f.Lo >= 0 && f.Hi < limit }

// commonConstants returns the constants over 1 that divide c and a term of s,
// the largest of each term, in descending order.
func (t *Table) commonConstants(s *sum, c int64) []int64 {
	if c < 2 {
		return nil
	}
	var common []int64
	for _, p := range s.terms {
		g := gcd(p.coef, c)
		if g *= gcd(t.facts[p.product].Divisor, c/g); g > 1 {
			common = append(common, g)
		}
	}
	slices.Sort(common)
	slices.Reverse(common)
	return slices.Compact(common)
}

// cut returns the terms of s that c divides, divided by it, and the rest.
func (t *Table) cut(dt dtype.Type, s *sum, c int64) (high []part, low sum) {
	low = sum{dt: dt, constant: floorMod(s.constant, c)}
	for _, p := range s.terms {
		if e, ok := t.divideByFacts(dt, p, c); ok {
			high = append(high, e)
		} else {
			low.terms = append(low.terms, p)
		}
	}
	if n := floorDiv(s.constant, c); n != 0 {
		high = append(high, part{t.integer(dt, 1), n})
	}
	return high, low
}

// denest returns n and e with n/e = (a/b + c)/d, where x = a/b + c has one
// division and d >= 0: n = a + b*c and e = b*d.
func (t *Table) denest(dt dtype.Type, x, d ID) (ID, ID, bool) {
	s := t.sumOf(x)
	at := -1
	for i, p := range s.terms {
		if t.Op(p.product) != FloorDiv {
			continue
		}
		if at >= 0 || p.coef != 1 {
			return None, None, false
		}
		at = i
	}
	if at < 0 {
		return None, None, false
	}
	a, b := t.Args(s.terms[at].product)[0], t.Args(s.terms[at].product)[1]
	s.terms = slices.Delete(s.terms, at, at+1)
	c, ok := t.ConstInt(b)
	n, ok2 := t.ConstInt(d)
	if _, fits := mulExact(c, n); !fits || s.size() > 0 && !(ok && ok2) {
		return None, None, false
	}
	if s.size() == 0 {
		return a, t.Mul(b, d), true
	}
	return t.linear(dt, part{a, 1}, part{t.build(&s), c}), t.Mul(b, d), true
}

// Divides reports whether d provably divides n. It makes no expression.
func (t *Table) Divides(d, n ID) bool {
	if d == n {
		return true
	}
	if t.Type(d) != dtype.Index || t.Type(n) != dtype.Index {
		return false
	}
	dc, df := t.monomial(d)
	if len(df) == 0 && divides(dc, t.facts[n].Divisor) && (dc != 0 || t.facts[n].Divisor == 0) {
		return true
	}
	if dc == 0 {
		return false
	}
	s := t.sumOf(n)
	if t.Op(d) == Add && t.multiple(&s, d) {
		return true
	}
	return t.dividesTerms(dc, df, &s) || len(df) == 0 && t.withoutRemainders(&s, dc) && t.dividesTerms(dc, df, &s)
}

// withoutRemainders puts c*a in place of each c*(a % m) of s where d divides c*m, which changes
// s by a multiple of d, and reports whether there was one.
func (t *Table) withoutRemainders(s *sum, d int64) bool {
	open, found := sum{dt: s.dt, constant: s.constant}, false
	for _, x := range s.terms {
		if t.Op(x.product) == Mod {
			if m, isConst := t.ConstInt(t.Args(x.product)[1]); isConst && m > 0 && divides(d/gcd(x.coef, d), m) && s.plain() {
				t.open(&open, part{t.Args(x.product)[0], x.coef})
				found = true
				continue
			}
		}
		open.terms = append(open.terms, x)
	}
	for i, x := range open.terms {
		open.terms[i] = t.undivided(x, s.terms)
	}
	open.merge()
	*s = open
	return found
}

// undivided returns a term that equals x: where x is c*n times a product with a/n, and n divides
// a, c times that with a, if some term of like has that product.
func (t *Table) undivided(x term, like []term) term {
	factors, coef := slices.Clone(t.factors(x.product)), x.coef
	for i, f := range factors {
		if t.Op(f) != FloorDiv {
			continue
		}
		n, isConst := t.ConstInt(t.Args(f)[1])
		if a := t.Args(f)[0]; isConst && n > 1 && divides(n, t.facts[a].Divisor) && coef%n == 0 {
			factors[i], coef = a, coef/n
		}
	}
	if coef == x.coef {
		return x
	}
	slices.Sort(factors)
	for _, y := range like {
		if slices.Equal(t.factors(y.product), factors) {
			return term{y.product, coef}
		}
	}
	return x
}

// dividesTerms reports whether dc times the factors df divides each term of s.
func (t *Table) dividesTerms(dc int64, df []ID, s *sum) bool {
	if s.constant != 0 && (len(df) > 0 || s.constant%dc != 0) {
		return false
	}
	return !slices.ContainsFunc(s.terms, func(p term) bool {
		rest, ok := without(t.factors(p.product), df)
		if !ok {
			return true
		}
		divisor := int64(1)
		for _, f := range rest {
			divisor *= gcd(t.facts[f].Divisor, dc/gcd(divisor, dc))
		}
		return !divides(dc/gcd(p.coef, dc), divisor)
	})
}

// multiple reports whether s is a constant times the sum d.
func (t *Table) multiple(s *sum, d ID) bool {
	ds := t.sumOf(d)
	if len(s.terms) != len(ds.terms) || !s.plain() || !ds.plain() {
		return false
	}
	n := s.terms[0].coef / ds.terms[0].coef
	for i, x := range s.terms {
		if y := ds.terms[i]; x.product != y.product || x.coef != n*y.coef {
			return false
		}
	}
	return s.constant == n*ds.constant
}
