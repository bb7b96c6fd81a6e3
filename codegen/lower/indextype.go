package lower

import (
	"math"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// chooseIndex is a pass. The index type is Int32 if every expression that the
// kernel computes, and every partial sum and product of it in any order, is
// known to fit: by the facts, or for the integers of a launch if the options give
// them. Where no element is does not matter: indices are computed before they
// are tested.
func (l *lowering) chooseIndex() error {
	k := l.b.Kernel()
	if l.options.Index != dtype.Null {
		k.Index = l.options.Index
		return nil
	}
	x := l.indices()
	fits := x.fit(l.options.Value)
	if fits {
		k.Index = dtype.Int32
	}
	if c := l.options.Conditions; c != nil {
		c.indices, c.narrow = x, fits
	}
	return nil
}

// indices are the integers that a kernel computes before it has an index type.
type indices struct {
	t         *scalar.Table // of the kernel
	arguments []kir.Argument
	exprs     []scalar.ID
	loops     [][3]scalar.ID             // start, stop and step
	most      map[kir.SymbolID]scalar.ID // what symbols stay below
}

func (l *lowering) indices() indices {
	k := l.b.Kernel()
	x := indices{t: l.t, most: l.ranges()}
	for _, a := range k.Arguments {
		if a.Kind == kir.IndexScalar {
			x.arguments, x.exprs = append(x.arguments, a), append(x.exprs, k.Symbols[a.Symbol].Expr)
		}
	}
	bodyExprs(k, func(id scalar.ID) { x.exprs = append(x.exprs, id) })
	k.Body.Walk(func(s kir.Statement) {
		if f, ok := s.(*kir.For); ok {
			x.loops = append(x.loops, [3]scalar.ID{f.Start, f.Stop, f.Step})
		}
	})
	return x
}

// fit reports whether all fit in 32 bits in a launch with integers of value, which may be
// nil.
func (x *indices) fit(value func(kir.HostValue) (int64, bool)) bool {
	w := &widths{t: x.t, with: x.launched(value), facts: map[scalar.ID]scalar.Facts{}, fits: map[scalar.ID]bool{}}
	for _, id := range x.exprs {
		if !w.fit(id) {
			return false
		}
	}
	for _, f := range x.loops { // the index is increased once more
		if !w.inside(w.of(f[0]).Lo, w.of(f[1]).Hi-1+w.of(f[2]).Hi) {
			return false
		}
	}
	return true
}

// launched returns the facts of symbols in a launch: arguments are what value
// says, and indices stay below what they count to.
func (x *indices) launched(value func(kir.HostValue) (int64, bool)) func(scalar.ID) scalar.Facts {
	known := map[kir.SymbolID]int64{}
	for i := range x.arguments {
		if value == nil {
			break
		}
		a := &x.arguments[i]
		if n, ok := value(a.Host); ok {
			known[a.Symbol] = n
		}
	}
	memo := map[scalar.ID]scalar.Facts{}
	var with func(scalar.ID) scalar.Facts
	with = func(s scalar.ID) scalar.Facts {
		id := kir.SymbolID(x.t.Tag(s).Val)
		if n, ok := known[id]; ok {
			return scalar.Facts{Lo: n, Hi: n, Divisor: n}
		}
		f := x.t.Facts(s)
		if end, ok := x.most[id]; ok {
			f = scalar.Range(0, min(f.Hi, below(x.t.FactsWhere(end, with, memo)).Hi))
		}
		return f
	}
	return with
}

// ranges returns what the loop, thread and block indices stay below, and the
// integers that elements become.
func (l *lowering) ranges() map[kir.SymbolID]scalar.ID {
	k, most := l.b.Kernel(), map[kir.SymbolID]scalar.ID{}
	for i, s := range k.Symbols {
		id := kir.SymbolID(i)
		switch s.Kind {
		case kir.ThreadIdx:
			most[id] = k.Launch.Block[s.Dim]
		case kir.BlockIdx:
			most[id] = k.Launch.Grid[s.Dim]
		case kir.LetIndex:
			if n, ok := l.below[s.Expr]; ok {
				most[id] = n
			}
		}
	}
	k.Body.Walk(func(s kir.Statement) {
		if f, ok := s.(*kir.For); ok {
			most[f.Symbol] = f.Stop
		}
	})
	return most
}

// widths finds out what fits in 32 bits.
type widths struct {
	t     *scalar.Table
	with  func(scalar.ID) scalar.Facts // of symbols
	facts map[scalar.ID]scalar.Facts
	fits  map[scalar.ID]bool
}

func (w *widths) of(id scalar.ID) scalar.Facts { return w.t.FactsWhere(id, w.with, w.facts) }

func (w *widths) inside(lo, hi int64) bool { return lo > math.MinInt32 && hi < math.MaxInt32 }

// fit reports whether id and all that it is made of fit.
func (w *widths) fit(id scalar.ID) bool {
	ok, known := w.fits[id]
	if known {
		return ok
	}
	f := w.of(id)
	ok = w.t.Type(id) != dtype.Index || w.inside(f.Lo, f.Hi)
	for _, a := range w.t.Args(id) {
		ok = ok && w.fit(a)
	}
	if ok && w.t.Type(id) == dtype.Index {
		ok = w.fitParts(id)
	}
	w.fits[id] = ok
	return ok
}

// fitParts reports whether the sum or product of any of the operands of id, which
// fit, does.
func (w *widths) fitParts(id scalar.ID) bool {
	lo, hi, product := int64(0), int64(0), int64(1)
	for _, a := range w.t.Args(id) {
		f := w.of(a)
		switch w.t.Op(id) {
		case scalar.Add:
			lo, hi = lo+min(f.Lo, 0), hi+max(f.Hi, 0)
		case scalar.Mul:
			product *= max(-f.Lo, f.Hi, 1)
		}
		if !w.inside(lo, hi) || !w.inside(-product, product) {
			return false
		}
	}
	return true
}
