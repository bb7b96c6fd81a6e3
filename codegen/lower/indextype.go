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
	w := &widths{t: l.t, with: l.launched(), facts: map[scalar.ID]scalar.Facts{}, fits: map[scalar.ID]bool{}}
	fits := true
	for _, a := range k.Arguments {
		if a.Kind == kir.IndexScalar {
			fits = fits && w.fit(k.Symbols[a.Symbol].Expr)
		}
	}
	bodyExprs(k, func(id scalar.ID) { fits = fits && w.fit(id) })
	k.Body.Walk(func(s kir.Statement) {
		if f, ok := s.(*kir.For); ok { // the index is increased once more
			fits = fits && w.inside(w.of(f.Start).Lo, w.of(f.Stop).Hi-1+w.of(f.Step).Hi)
		}
	})
	if fits {
		k.Index = dtype.Int32
	}
	return nil
}

// launched returns the facts of symbols in a launch: arguments are what the
// options say, and indices stay below what they count to.
func (l *lowering) launched() func(scalar.ID) scalar.Facts {
	k := l.b.Kernel()
	value := map[kir.SymbolID]int64{}
	for _, a := range k.Arguments {
		if a.Kind != kir.IndexScalar || l.options.Value == nil {
			continue
		}
		if n, ok := l.options.Value(a.Host); ok {
			value[a.Symbol] = n
		}
	}
	most, memo := l.ranges(), map[scalar.ID]scalar.Facts{}
	var with func(scalar.ID) scalar.Facts
	with = func(s scalar.ID) scalar.Facts {
		id := kir.SymbolID(l.t.Tag(s).Val)
		if n, ok := value[id]; ok {
			return scalar.Facts{Lo: n, Hi: n, Divisor: n}
		}
		f := l.t.Facts(s)
		if end, ok := most[id]; ok {
			f = scalar.Range(0, min(f.Hi, below(l.t.FactsWhere(end, with, memo)).Hi))
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
