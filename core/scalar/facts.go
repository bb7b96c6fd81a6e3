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

// bounded reports whether the interval is less than all of int64. A sum or
// product whose interval is bounded does not wrap.
func (f Facts) bounded() bool { return f.Lo > math.MinInt64 || f.Hi < math.MaxInt64 }

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
	if f.Lo == f.Hi && divides(f.Divisor, f.Lo) {
		return exactly(f.Lo)
	}
	if f.Divisor > 1 {
		lo, ok := addExact(f.Lo, floorMod(-floorMod(f.Lo, f.Divisor), f.Divisor))
		hi, ok2 := subExact(f.Hi, floorMod(f.Hi, f.Divisor))
		if !ok || !ok2 || lo > hi {
			return Unknown()
		}
		f.Lo, f.Hi = lo, hi
		if lo == hi {
			return exactly(lo)
		}
	}
	return f
}

// reasoned reports whether facts are kept for dt.
func reasoned(dt dtype.Type) bool { return dt == dtype.Int || dt == dtype.Index }

// derive computes the facts of op applied to args.
func (t *Table) derive(op Op, dt dtype.Type, args []ID) Facts {
	if dt.IsBool() {
		return Facts{0, 1, 1}
	}
	if !reasoned(dt) || op >= FirstOpaque {
		return Unknown()
	}
	f := t.facts[args[0]]
	switch op {
	case Add:
		for _, a := range args[1:] {
			f = addFacts(f, t.facts[a])
		}
	case Mul:
		for _, a := range args[1:] {
			f = mulFacts(f, t.facts[a])
		}
	case Min, Max:
		for _, a := range args[1:] {
			g := t.facts[a]
			d := gcd(f.Divisor, g.Divisor)
			if op == Min {
				f = Facts{min(f.Lo, g.Lo), min(f.Hi, g.Hi), d}
			} else {
				f = Facts{max(f.Lo, g.Lo), max(f.Hi, g.Hi), d}
			}
		}
	case FloorDiv, TruncDiv:
		f = divFacts(op, f, t.facts[args[1]])
	case Mod:
		f = modFacts(f, t.facts[args[1]])
	case Rem:
		f = remFacts(f, t.facts[args[1]])
	case Select:
		f, g := t.facts[args[1]], t.facts[args[2]]
		return Facts{min(f.Lo, g.Lo), max(f.Hi, g.Hi), gcd(f.Divisor, g.Divisor)}.normal()
	}
	return f.normal()
}

func addFacts(f, g Facts) Facts {
	lo, ok := addExact(f.Lo, g.Lo)
	hi, ok2 := addExact(f.Hi, g.Hi)
	if !ok || !ok2 {
		return Unknown()
	}
	return Facts{lo, hi, gcd(f.Divisor, g.Divisor)}
}

func mulFacts(f, g Facts) Facts {
	r := Facts{math.MaxInt64, math.MinInt64, 1}
	for _, a := range [2]int64{f.Lo, f.Hi} {
		for _, b := range [2]int64{g.Lo, g.Hi} {
			p, ok := mulExact(a, b)
			if !ok {
				return Unknown()
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

// divFacts bounds x/d. A d of 0 has no quotient, so it is left out.
func divFacts(op Op, x, d Facts) Facts {
	r := Facts{math.MaxInt64, math.MinInt64, 1}
	include := func(d int64) {
		for _, a := range [2]int64{x.Lo, x.Hi} {
			q := a / d
			if op == FloorDiv {
				q = floorDiv(a, d)
			}
			r.Lo, r.Hi = min(r.Lo, q), max(r.Hi, q)
		}
	}
	if d.Lo < 0 {
		if x.Lo == math.MinInt64 { // MinInt64 / -1 wraps
			return Unknown()
		}
		include(d.Lo)
		include(min(d.Hi, -1))
	}
	if d.Hi > 0 {
		include(max(d.Lo, 1))
		include(d.Hi)
	}
	if r.Lo > r.Hi {
		return Unknown()
	}
	if d.Lo == d.Hi && x.Divisor%d.Lo == 0 {
		r.Divisor = x.Divisor / d.Lo
	}
	return r
}

// modFacts bounds x mod d, which is between 0 and d, d excluded.
func modFacts(x, d Facts) Facts {
	if d.Lo == 0 && d.Hi == 0 {
		return Unknown()
	}
	r := Facts{0, 0, gcd(x.Divisor, d.Divisor)}
	if d.Hi > 0 {
		r.Hi = d.Hi - 1
		if x.Lo >= 0 {
			r.Hi = min(r.Hi, x.Hi)
		}
	}
	if d.Lo < 0 {
		r.Lo = d.Lo + 1
		if x.Hi <= 0 {
			r.Lo = max(r.Lo, x.Lo)
		}
	}
	if d.Lo < 0 && d.Hi > 0 && (x.Lo < 0 || x.Hi > 0) {
		return Facts{min(r.Lo, d.Lo+1), max(r.Hi, d.Hi-1), r.Divisor}
	}
	return r
}

// remFacts bounds the remainder of x/d, which has the sign of x.
func remFacts(x, d Facts) Facts {
	most := int64(math.MaxInt64) // |x rem d| < |d|
	if d.Lo > math.MinInt64 {
		most = max(d.Hi-1, -d.Lo-1, 0)
	}
	return Facts{max(min(x.Lo, 0), -most), min(max(x.Hi, 0), most), gcd(x.Divisor, d.Divisor)}
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
