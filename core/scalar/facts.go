package scalar

import (
	"math"
	"math/bits"

	"nvfuser_go/core/dtype"
)

// Unknown returns the facts that hold for every integer.
func Unknown() Facts { return Facts{math.MinInt64, math.MaxInt64, 1} }

// Range returns the facts of an integer between lo and hi, both included.
func Range(lo, hi int64) Facts { return Facts{lo, hi, 1} }

func exactly(n int64) Facts {
	return Facts{n, n, magnitude(n)}
}

// Hold reports whether the integer n agrees with f.
func (f Facts) Hold(n int64) bool {
	return f.Lo <= n && n <= f.Hi && divides(f.Divisor, n)
}

// finite reports whether n, an end of an interval, is a bound whichever end it
// is.
func finite(n int64) bool { return math.MinInt64 < n && n < math.MaxInt64 }

// constant returns n if f shows that it is the value.
func (f Facts) constant() (n int64, ok bool) { return f.Lo, f.Lo == f.Hi && finite(f.Lo) }

// atMost reports whether no value of f is more than one of g.
func (f Facts) atMost(g Facts) bool { return f.Hi < g.Lo || f.Hi == g.Lo && finite(f.Hi) }

// normal returns f with the ends of its interval moved inwards to multiples of
// its divisor. Facts that nothing satisfies become Unknown, which keeps every
// later interval in order; so does a divisor of 0 beside an interval of more
// than 0, which is more likely to be a field left out.
func (f Facts) normal() Facts {
	f.Divisor = magnitude(f.Divisor)
	if f.Divisor == 0 && (f.Lo != 0 || f.Hi != 0) {
		f.Divisor = 1
	}
	if f.Lo > f.Hi {
		return Unknown()
	}
	if f.Divisor > 1 {
		if lo, ok := addExact(f.Lo, floorMod(-floorMod(f.Lo, f.Divisor), f.Divisor)); ok && f.Lo > math.MinInt64 {
			f.Lo = lo
		}
		if hi, ok := subExact(f.Hi, floorMod(f.Hi, f.Divisor)); ok && f.Hi < math.MaxInt64 {
			f.Hi = hi
		}
		if f.Lo > f.Hi {
			return Unknown()
		}
	}
	if n, ok := f.constant(); ok && divides(f.Divisor, n) {
		return exactly(n)
	}
	return f
}

// interchangeable reports whether dt is Int or Index, which may stand beside
// each other: the Int is then seen as an Index.
func interchangeable(dt dtype.Type) bool { return dt == dtype.Int || dt == dtype.Index }

// FactsWhere returns the facts of id where its symbols have those that with gives,
// as it is written: nothing is simplified. They hold together with those that id
// has anyway. memo keeps what was found, for further calls.
func (t *Table) FactsWhere(id ID, with func(symbol ID) Facts, memo map[ID]Facts) Facts {
	t.postorder(id, func(id ID) bool { _, ok := memo[id]; return ok }, func(id ID) {
		f := t.facts[id]
		switch {
		case t.Op(id) == Symbol:
			f = with(id)
		case len(t.Args(id)) > 0:
			f = f.and(t.derive(t.Op(id), t.Type(id), t.Args(id), func(a ID) Facts { return memo[a] }))
		}
		memo[id] = f
	})
	return memo[id]
}

// and returns facts of a number that has both f and g. If there is none, as in
// code that is never reached, it is one of them.
func (f Facts) and(g Facts) Facts {
	lo, hi := max(f.Lo, g.Lo), min(f.Hi, g.Hi)
	if lo > hi {
		return g
	}
	d := max(f.Divisor, g.Divisor)
	if f.Divisor == 0 || g.Divisor == 0 {
		d = 0
	}
	return Facts{lo, hi, d}.normal()
}

// derive computes the facts of op applied to args, which have those of facts.
func (t *Table) derive(op Op, dt dtype.Type, args []ID, facts func(ID) Facts) Facts {
	if dt.IsBool() {
		return Facts{0, 1, 1}
	}
	if dt != dtype.Index || op >= FirstOpaque {
		return Unknown()
	}
	f := facts(args[0])
	switch op {
	case Add:
		for _, a := range args[1:] {
			f = addFacts(f, facts(a))
		}
	case Mul:
		for _, a := range args[1:] {
			f = mulFacts(f, facts(a))
		}
	case Min, Max:
		for _, a := range args[1:] {
			g := facts(a)
			d := gcd(f.Divisor, g.Divisor)
			if op == Min {
				f = Facts{min(f.Lo, g.Lo), min(f.Hi, g.Hi), d}
			} else {
				f = Facts{max(f.Lo, g.Lo), max(f.Hi, g.Hi), d}
			}
		}
	case FloorDiv, TruncDiv:
		f = divFacts(op, f, facts(args[1]))
	case Mod:
		f = modFacts(f, facts(args[1]))
	case Rem:
		f = remFacts(f, facts(args[1]))
	case Xor:
		for _, a := range args[1:] {
			f = xorFacts(f, facts(a))
		}
	case Select:
		f, g := facts(args[1]), facts(args[2])
		return Facts{min(f.Lo, g.Lo), max(f.Hi, g.Hi), gcd(f.Divisor, g.Divisor)}.normal()
	}
	return f.normal()
}

// An end is one of an interval, which may be none.
type end struct {
	n        int64
	infinite bool
}

func (f Facts) ends() [2]end {
	return [2]end{{f.Lo, f.Lo == math.MinInt64}, {f.Hi, f.Hi == math.MaxInt64}}
}

// saturated is the bound of a number beyond int64.
func saturated(negative bool) int64 {
	if negative {
		return math.MinInt64
	}
	return math.MaxInt64
}

func addFacts(f, g Facts) Facts {
	r := Facts{addEnds(f.Lo, g.Lo), addEnds(f.Hi, g.Hi), gcd(f.Divisor, g.Divisor)}
	if f.Lo == math.MinInt64 || g.Lo == math.MinInt64 {
		r.Lo = math.MinInt64
	}
	if f.Hi == math.MaxInt64 || g.Hi == math.MaxInt64 {
		r.Hi = math.MaxInt64
	}
	return r
}

func addEnds(a, b int64) int64 {
	if s, ok := addExact(a, b); ok {
		return s
	}
	return saturated(a < 0)
}

func mulFacts(f, g Facts) Facts {
	r := Facts{math.MaxInt64, math.MinInt64, 1}
	for _, a := range f.ends() {
		for _, b := range g.ends() {
			p, ok := mulExact(a.n, b.n)
			if !ok || (a.infinite || b.infinite) && p != 0 {
				p = saturated((a.n < 0) != (b.n < 0))
			}
			r.Lo, r.Hi = min(r.Lo, p), max(r.Hi, p)
		}
	}
	d, ok := mulExact(f.Divisor, g.Divisor)
	if !ok {
		d = max(f.Divisor, g.Divisor)
	}
	r.Divisor = d
	return r
}

// divFacts bounds x/d. A d of 0 has no quotient, so it is left out. On either
// side of it the quotient is monotonic in x and in d.
func divFacts(op Op, x, d Facts) Facts {
	r := Facts{math.MaxInt64, math.MinInt64, 1}
	include := func(d end) {
		for _, a := range x.ends() {
			q := divideEnds(op, a, d)
			r.Lo, r.Hi = min(r.Lo, q), max(r.Hi, q)
		}
	}
	if d.Lo < 0 {
		include(d.ends()[0])
		include(end{min(d.Hi, -1), false})
	}
	if d.Hi > 0 {
		include(end{max(d.Lo, 1), false})
		include(d.ends()[1])
	}
	if r.Lo > r.Hi {
		return Unknown()
	}
	if n, ok := d.constant(); ok && x.Divisor%n == 0 {
		r.Divisor = x.Divisor / n
	}
	return r
}

func divideEnds(op Op, a, d end) int64 {
	opposite := (a.n < 0) != (d.n < 0) && a.n != 0
	switch {
	case d.infinite:
		return -truth(opposite && op == FloorDiv) // the limit of the quotients of finite ends
	case a.infinite, a.n == math.MinInt64 && d.n == -1:
		return saturated(opposite)
	case op == FloorDiv:
		return floorDiv(a.n, d.n)
	}
	return a.n / d.n
}

// modFacts bounds x mod d, which is between 0 and d, d excluded.
func modFacts(x, d Facts) Facts {
	if d.Lo == 0 && d.Hi == 0 {
		return Unknown()
	}
	r := Facts{0, 0, gcd(x.Divisor, d.Divisor)}
	most, least := d.Hi, d.Lo // of the remainders by a positive and by a negative d
	if finite(most) {
		most--
	}
	if finite(least) {
		least++
	}
	if d.Hi > 0 {
		r.Hi = most
		if x.Lo >= 0 {
			r.Hi = min(r.Hi, x.Hi)
		}
	}
	if d.Lo < 0 {
		r.Lo = least
		if x.Hi <= 0 {
			r.Lo = max(r.Lo, x.Lo)
		}
	}
	if d.Lo < 0 && d.Hi > 0 && (x.Lo < 0 || x.Hi > 0) {
		return Facts{min(r.Lo, least), max(r.Hi, most), r.Divisor}
	}
	return r
}

// remFacts bounds the remainder of x/d, which has the sign of x.
func remFacts(x, d Facts) Facts {
	r := Facts{min(x.Lo, 0), max(x.Hi, 0), gcd(x.Divisor, d.Divisor)}
	if d.Lo > math.MinInt64 && d.Hi < math.MaxInt64 { // |x rem d| < |d|
		most := max(d.Hi-1, -d.Lo-1, 0)
		r.Lo, r.Hi = max(r.Lo, -most), min(r.Hi, most)
	}
	return r
}

// xorFacts bounds f ^ g, which has no bit that neither has.
func xorFacts(f, g Facts) Facts {
	r := Unknown()
	if d := gcd(f.Divisor, g.Divisor); d != 0 {
		r.Divisor = d & -d
	}
	if f.Lo >= 0 && g.Lo >= 0 {
		r.Lo, r.Hi = 0, int64(1)<<bits.Len64(uint64(max(f.Hi, g.Hi)))-1
	}
	return r
}

func divides(d, n int64) bool {
	if d == 0 {
		return n == 0
	}
	return n%d == 0
}

// gcd returns the greatest common divisor of a and b, 0 if both are 0.
func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return magnitude(a)
}

// magnitude returns |a|, or of the least integer, whose magnitude is not an
// int64, the largest power of two: divisors may be too small.
func magnitude(a int64) int64 {
	switch {
	case a == math.MinInt64:
		return 1 << 62
	case a < 0:
		return -a
	}
	return a
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 { return a - b*floorDiv(a, b) }

func addExact(a, b int64) (int64, bool) {
	s := a + b
	return s, (a < 0) != (b < 0) || (s < 0) == (a < 0)
}

func subExact(a, b int64) (int64, bool) {
	s := a - b
	return s, (a < 0) == (b < 0) || (s < 0) == (a < 0)
}

func mulExact(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if a < 0 { // from the unsigned to the signed product
		hi -= uint64(b)
	}
	if b < 0 {
		hi -= uint64(a)
	}
	return int64(lo), int64(hi) == int64(lo)>>63
}
