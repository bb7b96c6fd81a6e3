package scalar

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
)

// A world is a table with symbols of every kind that the rules tell apart.
type world struct {
	*Table
	a, b, c ID // 0 to 1000
	s       ID // -1000 to 1000
	low     ID // 0 to 3
	n, m    ID // extents, 1 to 10000
	z       ID // an extent that may be 0
	q       ID // 1 to 10000, a multiple of 4
	u       ID // any
	e, f, g ID // extents without a bound, which may be 0
	p       ID // one that may not
}

func newWorld() *world {
	tab := NewTable()
	next := uint32(0)
	symbol := func(f Facts) ID {
		next++
		return tab.Symbol(dtype.Index, Tag{next, -1}, f)
	}
	small := Range(0, 1000)
	return &world{
		Table: tab,
		a:     symbol(small), b: symbol(small), c: symbol(small), s: symbol(Range(-1000, 1000)), low: symbol(Range(0, 3)),
		n: symbol(Range(1, 10000)), m: symbol(Range(1, 10000)), z: symbol(Range(0, 10000)),
		q: symbol(Facts{1, 10000, 4}), u: symbol(Unknown()),
		e: symbol(Range(0, math.MaxInt64)), f: symbol(Range(0, math.MaxInt64)), g: symbol(Range(0, math.MaxInt64)),
		p: symbol(Range(1, math.MaxInt64)),
	}
}

func (w *world) plus(ids ...ID) ID { return w.Apply(Add, dtype.Index, ids...) }

func (w *world) times(id ID, n int64) ID { return w.Mul(id, w.Int(n)) }

func (w *world) div(a ID, n int64) ID { return w.FloorDiv(a, w.Int(n)) }

func (w *world) mod(a ID, n int64) ID { return w.Mod(a, w.Int(n)) }

// raw is the node of op that no rule made.
func (w *world) raw(op Op, args ...ID) ID {
	dt := dtype.Index
	if op == Lt || op == Le || op == Eq {
		dt = dtype.Bool
	}
	return w.intern(op, dt, args...)
}

// TestRules has for each rule a case where it fires, and near misses: cases
// that lack one condition and must stay as they are, or change less.
func TestRules(t *testing.T) {
	for _, test := range []struct {
		name      string
		got, want func(w *world) ID
	}{
		// Rings.
		{"cancel", func(w *world) ID { return w.Sub(w.plus(w.a, w.b), w.plus(w.b, w.a)) }, func(w *world) ID { return w.Int(0) }},
		{"distribute", func(w *world) ID { return w.Mul(w.plus(w.a, w.Int(1)), w.plus(w.a, w.Int(-1))) },
			func(w *world) ID { return w.plus(w.Mul(w.a, w.a), w.Int(-1)) }},
		{"values without a bound cancel too", func(w *world) ID { return w.Sub(w.plus(w.u, w.u), w.u) }, func(w *world) ID { return w.u }},

		// (4*a + b)/d = 4*a/d and (4*a + b)%d = 4*a%d + b if d > 0 is a multiple of 4 and 0 <= b < 4.
		{"low part over a multiple", func(w *world) ID { return w.FloorDiv(w.plus(w.times(w.s, 4), w.Int(3)), w.q) },
			func(w *world) ID { return w.raw(FloorDiv, w.times(w.s, 4), w.q) }},
		{"low part modulo a multiple", func(w *world) ID { return w.Mod(w.plus(w.times(w.s, 4), w.Int(7)), w.q) },
			func(w *world) ID { return w.plus(w.raw(Mod, w.plus(w.times(w.s, 4), w.Int(4)), w.q), w.Int(3)) }},
		{"low part over no multiple", func(w *world) ID { return w.FloorDiv(w.plus(w.times(w.s, 4), w.Int(3)), w.n) },
			func(w *world) ID { return w.raw(FloorDiv, w.plus(w.times(w.s, 4), w.Int(3)), w.n) }},
		{"low part beside another", func(w *world) ID { return w.Mod(w.plus(w.times(w.s, 2), w.Int(3)), w.q) },
			func(w *world) ID { return w.plus(w.raw(Mod, w.plus(w.times(w.s, 2), w.Int(2)), w.q), w.Int(1)) }},
		{"low index over a multiple", func(w *world) ID { return w.FloorDiv(w.plus(w.times(w.s, 8), w.low), w.q) },
			func(w *world) ID { return w.raw(FloorDiv, w.times(w.s, 8), w.q) }},
		{"low index modulo a multiple", func(w *world) ID { return w.Mod(w.plus(w.times(w.s, 8), w.low), w.q) },
			func(w *world) ID { return w.plus(w.raw(Mod, w.times(w.s, 8), w.q), w.low) }},
		{"low index beside another", func(w *world) ID { return w.Mod(w.plus(w.times(w.s, 2), w.low), w.q) },
			func(w *world) ID { return w.raw(Mod, w.plus(w.times(w.s, 2), w.low), w.q) }},

		// (a*d + b)/d = a + b/d, (a*d + b)%d = b%d.
		{"multiple over d", func(w *world) ID { return w.div(w.plus(w.times(w.a, 8), w.b), 8) },
			func(w *world) ID { return w.plus(w.a, w.raw(FloorDiv, w.b, w.Int(8))) }},
		{"multiple over d, symbolic", func(w *world) ID { return w.FloorDiv(w.plus(w.Mul(w.a, w.n), w.b), w.n) },
			func(w *world) ID { return w.plus(w.a, w.raw(FloorDiv, w.b, w.n)) }},
		{"multiple over d, negative terms", func(w *world) ID { return w.div(w.plus(w.times(w.s, 8), w.times(w.b, -1)), 8) },
			func(w *world) ID { return w.plus(w.s, w.raw(FloorDiv, w.Neg(w.b), w.Int(8))) }},
		{"multiple over d, may be 0", func(w *world) ID { return w.FloorDiv(w.Mul(w.a, w.z), w.z) }, func(w *world) ID { return w.a }},
		{"multiple over d, rest over 0", func(w *world) ID { return w.FloorDiv(w.plus(w.Mul(w.a, w.z), w.b), w.z) },
			func(w *world) ID { return w.plus(w.a, w.raw(FloorDiv, w.b, w.z)) }},
		{"multiple over d, any sign", func(w *world) ID { return w.FloorDiv(w.plus(w.Mul(w.a, w.s), w.b), w.s) },
			func(w *world) ID { return w.plus(w.a, w.raw(FloorDiv, w.b, w.s)) }},
		{"multiple over d, miss: 0 over 0", func(w *world) ID { return w.FloorDiv(w.Int(0), w.z) },
			func(w *world) ID { return w.raw(FloorDiv, w.Int(0), w.z) }},
		{"multiple over d, no bound", func(w *world) ID { return w.div(w.plus(w.times(w.u, 8), w.b), 8) },
			func(w *world) ID { return w.plus(w.u, w.raw(FloorDiv, w.b, w.Int(8))) }},
		{"multiple over d, symbolic, no bound", func(w *world) ID { return w.FloorDiv(w.plus(w.Mul(w.e, w.p), w.Mod(w.f, w.p)), w.p) },
			func(w *world) ID { return w.e }},
		{"size over d", func(w *world) ID { return w.FloorDiv(w.Mul(w.e, w.f), w.f) }, func(w *world) ID { return w.e }},
		{"three sizes over two", func(w *world) ID { return w.FloorDiv(w.Mul(w.Mul(w.e, w.f), w.g), w.Mul(w.g, w.e)) },
			func(w *world) ID { return w.f }},
		{"three sizes over one and one", func(w *world) ID { return w.FloorDiv(w.FloorDiv(w.Mul(w.Mul(w.e, w.f), w.g), w.f), w.e) },
			func(w *world) ID { return w.g }},
		{"three sizes over two others", func(w *world) ID {
			return w.FloorDiv(w.Mul(w.Mul(w.e, w.f), w.times(w.g, 8)), w.times(w.Mul(w.g, w.p), 4))
		},
			func(w *world) ID { return w.raw(FloorDiv, w.times(w.Mul(w.e, w.f), 2), w.p) }},
		{"three sizes mod two", func(w *world) ID { return w.Mod(w.Mul(w.Mul(w.e, w.f), w.g), w.Mul(w.g, w.e)) },
			func(w *world) ID { return w.Int(0) }},
		{"sizes, positions", func(w *world) ID { // of an element of [e, f, 8] in [e*f, 8]
			at := w.plus(w.times(w.plus(w.Mul(w.u, w.f), w.s), 8), w.mod(w.b, 8))
			return w.div(at, 8)
		}, func(w *world) ID { return w.plus(w.Mul(w.u, w.f), w.s) }},
		{"multiple mod d", func(w *world) ID { return w.mod(w.plus(w.times(w.a, 8), w.b), 8) },
			func(w *world) ID { return w.raw(Mod, w.b, w.Int(8)) }},
		{"multiple mod d, no bound", func(w *world) ID { return w.mod(w.plus(w.times(w.u, 6), w.b), 6) },
			func(w *world) ID { return w.raw(Mod, w.b, w.Int(6)) }},
		{"constant over d", func(w *world) ID { return w.div(w.plus(w.a, w.Int(9)), 4) },
			func(w *world) ID { return w.plus(w.raw(FloorDiv, w.plus(w.a, w.Int(1)), w.Int(4)), w.Int(2)) }},
		{"sum over itself", func(w *world) ID { return w.FloorDiv(w.Mul(w.a, w.plus(w.n, w.Int(1))), w.plus(w.n, w.Int(1))) },
			func(w *world) ID { return w.a }},
		{"sum over itself, may be 0", func(w *world) ID { return w.FloorDiv(w.Mul(w.a, w.plus(w.n, w.Int(-1))), w.plus(w.n, w.Int(-1))) },
			func(w *world) ID { return w.a }},
		{"negative divisor", func(w *world) ID { return w.div(w.times(w.a, 4), -4) }, func(w *world) ID { return w.Neg(w.a) }},

		// x/d = 0, x%d = x.
		{"less over d", func(w *world) ID { return w.div(w.low, 4) }, func(w *world) ID { return w.Int(0) }},
		{"less over d, miss: equal", func(w *world) ID { return w.div(w.low, 3) }, func(w *world) ID { return w.raw(FloorDiv, w.low, w.Int(3)) }},
		{"less over d, miss: negative", func(w *world) ID { return w.div(w.s, 2000) }, func(w *world) ID { return w.raw(FloorDiv, w.s, w.Int(2000)) }},
		{"less mod d", func(w *world) ID { return w.mod(w.low, 4) }, func(w *world) ID { return w.low }},
		{"less mod d, miss: equal", func(w *world) ID { return w.mod(w.low, 3) }, func(w *world) ID { return w.raw(Mod, w.low, w.Int(3)) }},
		{"one block mod d", func(w *world) ID { return w.mod(w.plus(w.low, w.Int(-4)), 4) }, func(w *world) ID { return w.low }},

		// (a*k*d + b)/d = a*k.
		{"multiple and less over d", func(w *world) ID { return w.div(w.plus(w.times(w.a, 12), w.low), 4) }, func(w *world) ID { return w.times(w.a, 3) }},
		{"multiple and less mod d", func(w *world) ID { return w.mod(w.plus(w.times(w.a, 12), w.low), 4) }, func(w *world) ID { return w.low }},

		// (a*c + b)/(c*k) = a/k, (a*c + b)%(c*k) = (a%k)*c + b.
		{"common factor over", func(w *world) ID { return w.div(w.plus(w.times(w.a, 4), w.low), 32) },
			func(w *world) ID { return w.raw(FloorDiv, w.a, w.Int(8)) }},
		{"common factor over, miss: rest too large", func(w *world) ID { return w.div(w.plus(w.times(w.a, 3), w.low), 24) },
			func(w *world) ID { return w.raw(FloorDiv, w.plus(w.times(w.a, 3), w.low), w.Int(24)) }},
		{"common factor over, miss: rest negative", func(w *world) ID { return w.div(w.Sub(w.times(w.a, 4), w.low), 32) },
			func(w *world) ID { return w.raw(FloorDiv, w.Sub(w.times(w.a, 4), w.low), w.Int(32)) }},
		{"common factor mod", func(w *world) ID { return w.mod(w.plus(w.times(w.a, 4), w.low), 32) },
			func(w *world) ID { return w.plus(w.times(w.raw(Mod, w.a, w.Int(8)), 4), w.low) }},
		{"common factor over, miss: divisor may be negative", func(w *world) ID { return w.FloorDiv(w.plus(w.times(w.a, 4), w.low), w.times(w.s, 4)) },
			func(w *world) ID { return w.raw(FloorDiv, w.plus(w.times(w.a, 4), w.low), w.times(w.s, 4)) }},
		{"common factor over, any sign", func(w *world) ID { return w.FloorDiv(w.times(w.a, 4), w.times(w.s, 4)) },
			func(w *world) ID { return w.raw(FloorDiv, w.a, w.s) }},
		{"common factor over, no bound", func(w *world) ID { return w.div(w.plus(w.times(w.u, 4), w.low), 32) },
			func(w *world) ID { return w.raw(FloorDiv, w.u, w.Int(8)) }},
		{"common factor mod, may be 0", func(w *world) ID { return w.Mod(w.Mul(w.e, w.f), w.Mul(w.g, w.f)) },
			func(w *world) ID { return w.Mul(w.raw(Mod, w.e, w.g), w.f) }},
		{"common factor mod, miss: rest too large", func(w *world) ID { return w.mod(w.plus(w.times(w.a, 3), w.low), 24) },
			func(w *world) ID { return w.raw(Mod, w.plus(w.times(w.a, 3), w.low), w.Int(24)) }},
		{"common factor over, symbolic", func(w *world) ID { return w.FloorDiv(w.Mul(w.a, w.n), w.Mul(w.m, w.n)) },
			func(w *world) ID { return w.raw(FloorDiv, w.a, w.m) }},
		{"common factor mod, symbolic", func(w *world) ID { return w.Mod(w.Mul(w.a, w.n), w.Mul(w.m, w.n)) },
			func(w *world) ID { return w.Mul(w.raw(Mod, w.a, w.m), w.n) }},
		{"common factor over, symbolic, miss: rest", func(w *world) ID { return w.FloorDiv(w.plus(w.Mul(w.a, w.n), w.low), w.Mul(w.m, w.n)) },
			func(w *world) ID { return w.raw(FloorDiv, w.plus(w.Mul(w.a, w.n), w.low), w.Mul(w.m, w.n)) }},

		// (m/d)*d + m%d = m.
		{"recombine", func(w *world) ID { return w.plus(w.times(w.div(w.s, 8), 8), w.mod(w.s, 8)) }, func(w *world) ID { return w.s }},
		{"recombine, common factor", func(w *world) ID {
			return w.plus(w.Mul(w.times(w.div(w.a, 8), 24), w.n), w.Mul(w.times(w.mod(w.a, 8), 3), w.n))
		}, func(w *world) ID { return w.times(w.Mul(w.a, w.n), 3) }},
		{"recombine, symbolic", func(w *world) ID { return w.plus(w.Mul(w.FloorDiv(w.a, w.n), w.n), w.Mod(w.a, w.n)) }, func(w *world) ID { return w.a }},
		{"recombine, sum", func(w *world) ID {
			m := w.plus(w.times(w.a, 8), w.b)
			return w.plus(w.times(w.div(m, 8), 8), w.mod(m, 8))
		}, func(w *world) ID { return w.plus(w.times(w.a, 8), w.b) }},
		{"recombine, rewritten quotient", func(w *world) ID {
			m := w.raw(FloorDiv, w.a, w.Int(5))
			return w.plus(w.times(w.div(m, 3), 3), w.mod(m, 3))
		}, func(w *world) ID { return w.div(w.a, 5) }},
		{"recombine, may be 0", func(w *world) ID { return w.plus(w.Mul(w.FloorDiv(w.a, w.z), w.z), w.Mod(w.a, w.z)) }, func(w *world) ID { return w.a }},
		{"recombine, miss: coefficient too small", func(w *world) ID { return w.plus(w.times(w.div(w.a, 8), 7), w.mod(w.a, 8)) },
			func(w *world) ID {
				return w.raw(Add, w.raw(Mul, w.raw(FloorDiv, w.a, w.Int(8)), w.Int(7)), w.raw(Mod, w.a, w.Int(8)))
			}},
		{"recombine, miss: other operand", func(w *world) ID { return w.plus(w.times(w.div(w.a, 8), 8), w.mod(w.b, 8)) },
			func(w *world) ID {
				return w.raw(Add, w.raw(Mul, w.raw(FloorDiv, w.a, w.Int(8)), w.Int(8)), w.raw(Mod, w.b, w.Int(8)))
			}},
		{"remainder by hand", func(w *world) ID { return w.Sub(w.a, w.times(w.div(w.a, 8), 8)) }, func(w *world) ID { return w.raw(Mod, w.a, w.Int(8)) }},
		{"remainder by hand, symbolic", func(w *world) ID { return w.Sub(w.a, w.Mul(w.FloorDiv(w.a, w.n), w.n)) },
			func(w *world) ID { return w.raw(Mod, w.a, w.n) }},

		// (a/b)/c = a/(b*c), (a%(b*c))/c = (a/c)%b, (a%(b*c))%c = a%c.
		{"nested quotient", func(w *world) ID { return w.div(w.div(w.s, 4), 8) }, func(w *world) ID { return w.raw(FloorDiv, w.s, w.Int(32)) }},
		{"nested quotient, symbolic", func(w *world) ID { return w.FloorDiv(w.FloorDiv(w.s, w.n), w.m) },
			func(w *world) ID { return w.raw(FloorDiv, w.s, w.Mul(w.n, w.m)) }},
		{"nested quotient, any sign", func(w *world) ID { return w.FloorDiv(w.FloorDiv(w.a, w.s), w.m) },
			func(w *world) ID { return w.raw(FloorDiv, w.a, w.Mul(w.s, w.m)) }},
		{"nested quotient, miss: c may be negative", func(w *world) ID { return w.FloorDiv(w.FloorDiv(w.a, w.n), w.s) },
			func(w *world) ID { return w.raw(FloorDiv, w.raw(FloorDiv, w.a, w.n), w.s) }},
		{"nested quotient, may be 0", func(w *world) ID { return w.FloorDiv(w.FloorDiv(w.u, w.e), w.f) },
			func(w *world) ID { return w.raw(FloorDiv, w.u, w.Mul(w.e, w.f)) }},
		{"nested quotient, miss: b*c is beyond 64 bits", func(w *world) ID { return w.div(w.div(w.u, 1<<40), 1<<23) },
			func(w *world) ID { return w.raw(FloorDiv, w.raw(FloorDiv, w.u, w.Int(1<<40)), w.Int(1<<23)) }},
		{"nested quotient, large", func(w *world) ID { return w.div(w.div(w.u, 1<<40), 1<<22) },
			func(w *world) ID { return w.div(w.u, 1<<62) }},
		{"nested quotient of a sum", func(w *world) ID { return w.CeilDiv(w.CeilDiv(w.n, w.Int(4)), w.Int(8)) },
			func(w *world) ID { return w.CeilDiv(w.n, w.Int(32)) }},
		{"remainder over divisor", func(w *world) ID { return w.div(w.mod(w.s, 32), 4) },
			func(w *world) ID { return w.raw(Mod, w.raw(FloorDiv, w.s, w.Int(4)), w.Int(8)) }},
		{"remainder over divisor, symbolic", func(w *world) ID { return w.FloorDiv(w.Mod(w.a, w.Mul(w.n, w.m)), w.n) },
			func(w *world) ID { return w.raw(Mod, w.raw(FloorDiv, w.a, w.n), w.m) }},
		{"remainder over divisor, may be 0", func(w *world) ID { return w.FloorDiv(w.Mod(w.u, w.Mul(w.e, w.f)), w.e) },
			func(w *world) ID { return w.raw(Mod, w.raw(FloorDiv, w.u, w.e), w.f) }},
		{"remainder over divisor, miss: the other may be negative", func(w *world) ID { return w.FloorDiv(w.Mod(w.a, w.Mul(w.s, w.m)), w.m) },
			func(w *world) ID { return w.raw(FloorDiv, w.raw(Mod, w.a, w.Mul(w.s, w.m)), w.m) }},
		{"remainder over divisor, miss: may be negative", func(w *world) ID { return w.FloorDiv(w.Mod(w.a, w.Mul(w.s, w.m)), w.s) },
			func(w *world) ID { return w.raw(FloorDiv, w.raw(Mod, w.a, w.Mul(w.s, w.m)), w.s) }},
		{"remainder over divisor, miss: not a multiple", func(w *world) ID { return w.div(w.mod(w.s, 30), 4) },
			func(w *world) ID { return w.raw(FloorDiv, w.raw(Mod, w.s, w.Int(30)), w.Int(4)) }},
		{"nested remainder", func(w *world) ID { return w.mod(w.mod(w.s, 32), 4) }, func(w *world) ID { return w.raw(Mod, w.s, w.Int(4)) }},
		{"nested remainder, symbolic", func(w *world) ID { return w.Mod(w.Mod(w.s, w.Mul(w.n, w.m)), w.n) }, func(w *world) ID { return w.raw(Mod, w.s, w.n) }},
		{"nested remainder, miss: not a multiple", func(w *world) ID { return w.mod(w.mod(w.s, 30), 4) },
			func(w *world) ID { return w.raw(Mod, w.raw(Mod, w.s, w.Int(30)), w.Int(4)) }},

		// a*c < n*c, a*c + b < n*c.
		{"less, common factor", func(w *world) ID { return w.Lt(w.times(w.a, 4), w.times(w.n, 4)) }, func(w *world) ID { return w.raw(Lt, w.a, w.n) }},
		{"less, common factor and rest", func(w *world) ID { return w.Lt(w.plus(w.times(w.a, 4), w.low), w.times(w.n, 4)) },
			func(w *world) ID { return w.raw(Lt, w.a, w.n) }},
		{"less, common symbol", func(w *world) ID { return w.Lt(w.Mul(w.a, w.m), w.Mul(w.n, w.m)) }, func(w *world) ID { return w.raw(Lt, w.a, w.n) }},
		{"less, common symbol, miss: may be 0", func(w *world) ID { return w.Lt(w.Mul(w.a, w.z), w.Mul(w.n, w.z)) },
			func(w *world) ID { return w.raw(Lt, w.Mul(w.a, w.z), w.Mul(w.n, w.z)) }},
		{"less, miss: rest too large", func(w *world) ID { return w.Lt(w.plus(w.times(w.a, 3), w.low), w.times(w.n, 3)) },
			func(w *world) ID { return w.raw(Lt, w.plus(w.times(w.a, 3), w.low), w.times(w.n, 3)) }},
		{"less, no bound", func(w *world) ID { return w.Lt(w.plus(w.times(w.u, 4), w.low), w.times(w.e, 4)) }, func(w *world) ID { return w.raw(Lt, w.u, w.e) }},
		{"less, common size", func(w *world) ID { return w.Lt(w.plus(w.Mul(w.u, w.p), w.mod(w.b, 1)), w.Mul(w.e, w.p)) },
			func(w *world) ID { return w.raw(Lt, w.u, w.e) }},
		{"less, constants move", func(w *world) ID { return w.Lt(w.plus(w.a, w.Int(3)), w.plus(w.n, w.Int(5))) },
			func(w *world) ID { return w.raw(Lt, w.a, w.plus(w.n, w.Int(2))) }},
		{"at most", func(w *world) ID { return w.Le(w.a, w.n) }, func(w *world) ID { return w.raw(Lt, w.a, w.plus(w.n, w.Int(1))) }},
		{"not less", func(w *world) ID { return w.Not(w.Lt(w.a, w.n)) }, func(w *world) ID { return w.Le(w.n, w.a) }},

		// a/d < n.
		{"quotient less", func(w *world) ID { return w.Lt(w.div(w.a, 4), w.n) }, func(w *world) ID { return w.raw(Lt, w.a, w.times(w.n, 4)) }},
		{"quotient less, symbolic", func(w *world) ID { return w.Lt(w.FloorDiv(w.s, w.m), w.n) }, func(w *world) ID { return w.raw(Lt, w.s, w.Mul(w.n, w.m)) }},
		{"quotient more", func(w *world) ID { return w.Lt(w.n, w.div(w.a, 4)) },
			func(w *world) ID { return w.raw(Lt, w.plus(w.times(w.n, 4), w.Int(3)), w.a) }},
		{"quotient less, no bound", func(w *world) ID { return w.Lt(w.div(w.u, 4), w.e) }, func(w *world) ID { return w.raw(Lt, w.u, w.times(w.e, 4)) }},
		{"quotient more, no bound", func(w *world) ID { return w.Lt(w.u, w.div(w.e, 4)) },
			func(w *world) ID { return w.raw(Lt, w.plus(w.times(w.u, 4), w.Int(3)), w.e) }},
		{"quotient less, miss: may be 0", func(w *world) ID { return w.Lt(w.FloorDiv(w.a, w.z), w.n) },
			func(w *world) ID { return w.raw(Lt, w.raw(FloorDiv, w.a, w.z), w.n) }},

		// a < n by interval.
		{"always less", func(w *world) ID { return w.Lt(w.low, w.Int(4)) }, func(w *world) ID { return w.Bool(true) }},
		{"never less", func(w *world) ID { return w.Lt(w.n, w.Int(1)) }, func(w *world) ID { return w.Bool(false) }},
		{"always less by difference", func(w *world) ID { return w.Lt(w.a, w.plus(w.a, w.Int(1))) }, func(w *world) ID { return w.Bool(true) }},
		{"always less, miss: equal", func(w *world) ID { return w.Lt(w.low, w.Int(3)) }, func(w *world) ID { return w.raw(Lt, w.low, w.Int(3)) }},
		{"always less by difference, no bound", func(w *world) ID { return w.Lt(w.u, w.plus(w.u, w.Int(1))) }, func(w *world) ID { return w.Bool(true) }},
		{"always at most by product", func(w *world) ID { return w.Le(w.e, w.Mul(w.e, w.p)) },
			func(w *world) ID { return w.raw(Lt, w.e, w.plus(w.Mul(w.e, w.p), w.Int(1))) }},
		{"at most the largest, miss: a product may be more", func(w *world) ID { return w.Le(w.Mul(w.e, w.f), w.Int(math.MaxInt64)) },
			func(w *world) ID { return w.raw(Le, w.Mul(w.e, w.f), w.Int(math.MaxInt64)) }},
		{"equal, moved", func(w *world) ID { return w.Eq(w.plus(w.a, w.Int(3)), w.plus(w.n, w.Int(1))) },
			func(w *world) ID { return w.Eq(w.n, w.plus(w.a, w.Int(2))) }},
		{"never equal by divisor", func(w *world) ID { return w.Eq(w.times(w.a, 4), w.plus(w.times(w.b, 2), w.Int(1))) },
			func(w *world) ID { return w.Bool(false) }},
		{"never equal by divisor, miss: even", func(w *world) ID { return w.Eq(w.times(w.a, 4), w.plus(w.times(w.b, 2), w.Int(2))) },
			func(w *world) ID { return w.raw(Eq, w.times(w.a, 2), w.plus(w.b, w.Int(1))) }},

		// cdiv(N, f)*f.
		{"ceilDiv times", func(w *world) ID { return w.times(w.CeilDiv(w.q, w.Int(4)), 4) }, func(w *world) ID { return w.q }},
		{"ceilDiv times, part", func(w *world) ID { return w.times(w.CeilDiv(w.q, w.Int(4)), 2) }, func(w *world) ID { return w.div(w.q, 2) }},
		{"ceilDiv times, product", func(w *world) ID { return w.times(w.CeilDiv(w.Mul(w.q, w.a), w.Int(4)), 4) }, func(w *world) ID { return w.Mul(w.q, w.a) }},
		{"ceilDiv of a multiple", func(w *world) ID { return w.CeilDiv(w.Mul(w.e, w.f), w.f) }, func(w *world) ID { return w.e }},
		{"ceilDiv of a multiple, any sign", func(w *world) ID { return w.CeilDiv(w.Mul(w.e, w.s), w.s) }, func(w *world) ID { return w.e }},
		{"ceilDiv of a size", func(w *world) ID { return w.CeilDiv(w.e, w.f) },
			func(w *world) ID {
				return w.plus(w.raw(FloorDiv, w.plus(w.e, w.Int(-1)), w.f), w.Int(1))
			}},
		{"ceilDiv of a ceilDiv, no bound", func(w *world) ID { return w.CeilDiv(w.CeilDiv(w.Mul(w.e, w.f), w.Int(4)), w.Int(32)) },
			func(w *world) ID { return w.CeilDiv(w.Mul(w.e, w.f), w.Int(128)) }},
		{"ceilDiv times, sizes", func(w *world) ID { return w.times(w.CeilDiv(w.Mul(w.times(w.e, 8), w.f), w.Int(8)), 8) },
			func(w *world) ID { return w.Mul(w.times(w.e, 8), w.f) }},
		{"ceilDiv times, miss: no divisor", func(w *world) ID { return w.times(w.CeilDiv(w.n, w.Int(4)), 4) },
			func(w *world) ID { return w.raw(Mul, w.raw(FloorDiv, w.plus(w.n, w.Int(3)), w.Int(4)), w.Int(4)) }},
		{"ceilDiv times, miss: half a divisor", func(w *world) ID { return w.times(w.CeilDiv(w.q, w.Int(8)), 8) },
			func(w *world) ID { return w.raw(Mul, w.raw(FloorDiv, w.plus(w.q, w.Int(4)), w.Int(8)), w.Int(8)) }},

		// Min, Max, Select, C division.
		{"min", func(w *world) ID { return w.Min(w.a, w.plus(w.a, w.low)) }, func(w *world) ID { return w.a }},
		{"min, miss", func(w *world) ID { return w.Min(w.a, w.plus(w.a, w.s)) }, func(w *world) ID { return w.raw(Min, w.a, w.plus(w.a, w.s)) }},
		{"max of three", func(w *world) ID { return w.Max(w.Max(w.a, w.Int(0)), w.Max(w.n, w.a)) }, func(w *world) ID { return w.raw(Max, w.a, w.n) }},
		{"select, same", func(w *world) ID { return w.Select(w.Lt(w.a, w.b), w.c, w.c) }, func(w *world) ID { return w.c }},
		{"select, known", func(w *world) ID { return w.Select(w.Lt(w.low, w.n), w.a, w.b) },
			func(w *world) ID { return w.raw(Select, w.raw(Lt, w.low, w.n), w.a, w.b) }},
		{"truncDiv", func(w *world) ID { return w.TruncDiv(w.times(w.a, 4), w.Int(4)) }, func(w *world) ID { return w.a }},
		{"truncDiv, miss: negative", func(w *world) ID { return w.TruncDiv(w.plus(w.s, w.Int(8)), w.Int(4)) },
			func(w *world) ID { return w.raw(TruncDiv, w.plus(w.s, w.Int(8)), w.Int(4)) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld()
			got := test.got(w)
			want := test.want(w)
			require.Equal(t, w.String(want), w.String(got))
			require.Equal(t, want, got)
		})
	}
}

func TestDivides(t *testing.T) {
	w := newWorld()
	require.True(t, w.Divides(w.Int(4), w.q))
	require.True(t, w.Divides(w.Int(8), w.Mul(w.q, w.times(w.a, 2))))
	require.True(t, w.Divides(w.n, w.plus(w.Mul(w.a, w.n), w.times(w.n, 3))))
	require.True(t, w.Divides(w.times(w.n, 4), w.Mul(w.q, w.n)))
	require.True(t, w.Divides(w.plus(w.n, w.Int(1)), w.plus(w.times(w.n, 2), w.Int(2))))
	require.True(t, w.Divides(w.z, w.Mul(w.z, w.a)))
	require.False(t, w.Divides(w.Int(8), w.q))
	require.False(t, w.Divides(w.n, w.plus(w.Mul(w.a, w.n), w.Int(1))))
	require.True(t, w.Divides(w.Int(3), w.times(w.u, 3)))
	require.True(t, w.Divides(w.n, w.Mul(w.u, w.n)))
	require.True(t, w.Divides(w.Mul(w.e, w.f), w.Mul(w.f, w.Mul(w.g, w.e))))
	require.False(t, w.Divides(w.Int(0), w.a))
	rest := w.Mod(w.plus(w.s, w.times(w.a, 3)), w.Int(8))
	require.True(t, w.Divides(w.Int(8), w.Sub(w.plus(w.s, w.times(w.a, 11)), rest)))
	require.True(t, w.Divides(w.Int(4), w.Sub(w.plus(w.s, w.times(w.a, 7)), rest)))
	require.False(t, w.Divides(w.Int(8), w.Sub(w.plus(w.s, w.times(w.a, 7)), rest)))
	require.False(t, w.Divides(w.Int(16), w.Sub(w.plus(w.s, w.times(w.a, 3)), rest)))
	even := w.Mod(w.Mul(w.q, w.a), w.Int(16)) // 4*((q/4)*a % 4)
	require.True(t, w.Divides(w.Int(16), w.Sub(w.Mul(w.q, w.a), even)))
	require.True(t, w.Divides(w.Int(8), w.Sub(w.Mul(w.q, w.times(w.a, 3)), w.times(even, 3))))
	require.False(t, w.Divides(w.Int(16), w.Sub(w.Mul(w.q, w.times(w.a, 2)), even)))
	require.False(t, w.Divides(w.Int(32), w.Sub(w.Mul(w.q, w.a), even)))
	n := w.Len()
	w.Divides(w.Int(16), w.Sub(w.Mul(w.q, w.a), even))
	w.Divides(w.times(w.n, 4), w.Mul(w.q, w.n))
	require.Equal(t, n, w.Len(), "Divides only reads")
}

func TestFacts(t *testing.T) {
	w := newWorld()
	require.Equal(t, Facts{4, 10000, 4}, w.Facts(w.q), "the ends are multiples")
	require.Equal(t, Facts{3, 3003, 3}, w.Facts(w.plus(w.times(w.a, 3), w.Int(3))))
	require.Equal(t, Facts{-1000 * 1000, 1000 * 1000, 1}, w.Facts(w.Mul(w.a, w.s)))
	require.Equal(t, Unknown(), w.Facts(w.plus(w.u, w.Int(1))))
	require.Equal(t, Facts{0, math.MaxInt64, math.MaxInt64 / 2}, w.Facts(w.times(w.a, math.MaxInt64/2)), "no upper bound")
	require.Equal(t, Facts{0, math.MaxInt64, 8}, w.Facts(w.times(w.Mul(w.e, w.f), 8)))
	require.Equal(t, Facts{math.MinInt64, 0, 1}, w.Facts(w.Neg(w.Mul(w.e, w.f))))
	require.Equal(t, Facts{-1000, math.MaxInt64, 1}, w.Facts(w.plus(w.Mul(w.e, w.f), w.s)))
	require.Equal(t, Unknown(), w.Facts(w.Sub(w.Mul(w.e, w.f), w.g)))
	require.Equal(t, Facts{0, math.MaxInt64, 1}, w.Facts(w.div(w.Mul(w.e, w.f), 1<<40)), "nor of the quotient")
	require.Equal(t, Facts{-1, 0, 1}, w.Facts(w.FloorDiv(w.plus(w.a, w.Int(-500)), w.plus(w.p, w.Int(1000)))))
	require.Equal(t, Facts{0, math.MaxInt64, 1}, w.Facts(w.Mod(w.u, w.p)))
	require.Equal(t, Facts{0, 1000, 1}, w.Facts(w.Mod(w.a, w.p)))
	require.Equal(t, Unknown(), w.Facts(w.Rem(w.u, w.e)))
	require.Equal(t, Facts{0, 1000, 1}, w.Facts(w.Min(w.a, w.Mul(w.e, w.f))))
	require.Equal(t, Facts{math.MaxInt64, math.MaxInt64, 1}, w.Facts(w.plus(w.Int(math.MaxInt64), w.Int(2))), "at least the largest")
	require.Equal(t, Facts{0, 28, 4}, w.Facts(w.Mod(w.q, w.Int(32))))
	require.Equal(t, Unknown(), Facts{5, 4, 1}.normal(), "nothing satisfies them")
	require.Equal(t, Unknown(), Facts{5, 7, 4}.normal(), "nothing satisfies them")
	require.Equal(t, Facts{0, 9, 1}, Facts{0, 9, 0}.normal(), "a divisor left out")
}
