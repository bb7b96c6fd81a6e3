package lower

import (
	"math"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// chooseIndex is a pass. The index type is Int32 if every expression of the
// kernel, and every partial sum and product of it, is known to fit: by the
// facts, or for the integers of a launch if the options give them.
func (l *lowering) chooseIndex() error {
	k := l.b.Kernel()
	if l.options.Index != dtype.Null {
		k.Index = l.options.Index
		return nil
	}
	t, at := l.t, func(id scalar.ID) scalar.ID { return id }
	if l.options.Value != nil {
		t, at = l.launched()
	}
	fits, seen := true, map[scalar.ID]bool{}
	eachExpr(k, func(id scalar.ID) { fits = fits && fits32(t, at(id), seen) })
	if fits {
		k.Index = dtype.Int32
	}
	return nil
}

// launched returns a table in which the integers of the launch stand for the
// arguments, and the expression of it for one of the kernel.
func (l *lowering) launched() (*scalar.Table, func(scalar.ID) scalar.ID) {
	k, t := l.b.Kernel(), scalar.NewTable()
	value := map[kir.SymbolID]int64{}
	for _, a := range k.Arguments {
		if a.Kind != kir.IndexScalar {
			continue
		}
		if n, ok := l.options.Value(a.Host); ok {
			value[a.Symbol] = n
		}
	}
	most := l.ranges()
	memo := map[scalar.ID]scalar.ID{}
	var at func(id scalar.ID) scalar.ID
	symbol := func(s scalar.ID) scalar.ID {
		id := kir.SymbolID(l.t.Tag(s).Val)
		if n, ok := value[id]; ok {
			return t.Int(n)
		}
		facts := l.t.Facts(s)
		if end, ok := most[id]; ok {
			hi := t.Facts(at(end)).Hi
			facts = scalar.Range(0, max(hi-1, 0))
		}
		return t.Symbol(l.t.Type(s), scalar.Tag{Val: uint32(id), Dim: -1}, facts)
	}
	at = func(id scalar.ID) scalar.ID {
		if x, ok := memo[id]; ok {
			return x
		}
		x := t.Import(l.t, id, symbol)
		memo[id] = x
		return x
	}
	return t, at
}

// ranges returns what the loop, thread and block indices stay below.
func (l *lowering) ranges() map[kir.SymbolID]scalar.ID {
	k, most := l.b.Kernel(), map[kir.SymbolID]scalar.ID{}
	for i, s := range k.Symbols {
		switch s.Kind {
		case kir.ThreadIdx:
			most[kir.SymbolID(i)] = k.Launch.Block[s.Dim]
		case kir.BlockIdx:
			most[kir.SymbolID(i)] = k.Launch.Grid[s.Dim]
		}
	}
	walk(k.Body, func(s kir.Statement) {
		if f, ok := s.(*kir.For); ok {
			most[f.Symbol] = f.Stop
		}
	})
	return most
}

// fits32 reports whether id and what it is made of fit in 32 bits.
func fits32(t *scalar.Table, id scalar.ID, seen map[scalar.ID]bool) bool {
	if seen[id] {
		return true
	}
	seen[id] = true
	inside := func(lo, hi int64) bool { return lo >= math.MinInt32 && hi < math.MaxInt32 }
	f := t.Facts(id)
	if t.Type(id) == dtype.Index && !inside(f.Lo, f.Hi) {
		return false
	}
	lo, hi := int64(0), int64(0)
	for i, a := range t.Args(id) {
		if !fits32(t, a, seen) {
			return false
		}
		g := t.Facts(a)
		switch {
		case i == 0:
			lo, hi = g.Lo, g.Hi
		case t.Op(id) == scalar.Add:
			lo, hi = lo+g.Lo, hi+g.Hi
		case t.Op(id) == scalar.Mul:
			w, x, y, z := lo*g.Lo, lo*g.Hi, hi*g.Lo, hi*g.Hi
			lo, hi = min(w, x, y, z), max(w, x, y, z)
		}
		if (t.Op(id) == scalar.Add || t.Op(id) == scalar.Mul) && !inside(lo, hi) {
			return false
		}
	}
	return true
}
