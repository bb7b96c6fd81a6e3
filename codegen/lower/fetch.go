package lower

import (
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// fetchFirst is a pass. What is done to a vector after it is loaded, where not all of its
// elements exist, waits for the load; and what has conditions there ends a run of
// instructions within which a compiler would put later loads first. So all loads of loops that
// do nothing else are in loops of their own before them.
func (l *lowering) fetchFirst() error {
	k := l.b.Kernel()
	k.Body = l.fetched(k.Body)
	return nil
}

func (l *lowering) fetched(b kir.Block) kir.Block {
	var out, after kir.Block // after: loops whose loads are in out
	for _, s := range b {
		switch s := s.(type) {
		case kir.Declare:
			out = append(out, s)
			continue
		case *kir.For:
			if isFetching(s) {
				out = append(out, l.fetching(s, map[scalar.ID]scalar.ID{}))
				after = append(after, s)
				continue
			}
			s.Body = l.fetched(s.Body)
		case *kir.If:
			s.Then, s.Else = l.fetched(s.Then), l.fetched(s.Else)
		}
		out = append(append(out, after...), s)
		after = nil
	}
	return append(out, after...)
}

// isFetching reports whether f loads vectors whose elements need not all exist, sets right
// what was loaded, and does nothing else.
func isFetching(f *kir.For) bool {
	loads := false
	for _, s := range f.Body {
		switch s := s.(type) {
		case kir.Move:
			if !isFetch(s) {
				return false
			}
			loads = true
		case *kir.For:
			isRest := loads && slices.ContainsFunc(s.Body, func(x kir.Statement) bool { _, ok := x.(*kir.If); return ok }) && len(s.Body) == 1
			if !isRest && !isFetching(s) {
				return false
			}
			loads = true
		default:
			return false
		}
	}
	return loads && f.Unroll == kir.UnrollFull
}

func isFetch(s kir.Statement) bool {
	m, ok := s.(kir.Move)
	return ok && m.Guarded && m.Src.Span == kir.InMemory
}

// fetching takes the loads from f to a loop of their own; with has the symbols of that in the
// place of those of the loops around f.
func (l *lowering) fetching(f *kir.For, with map[scalar.ID]scalar.ID) *kir.For {
	symbol := l.b.Kernel().Symbols[f.Symbol].Expr
	own := l.b.Symbol(l.loopName(), kir.LoopIndex, 0, dtype.Index, l.t.Facts(symbol))
	with[symbol] = own
	instead := func(x scalar.ID) scalar.ID {
		if x == scalar.None {
			return x
		}
		return l.t.Substitute(x, func(s scalar.ID) (scalar.ID, bool) { y, ok := with[s]; return y, ok })
	}
	access := func(a *kir.Access) {
		a.Coords = slices.Clone(a.Coords)
		for i, x := range a.Coords {
			a.Coords[i] = instead(x)
		}
		a.Index = instead(a.Index)
	}
	loop := *f
	loop.Symbol, loop.Body = kir.SymbolID(l.t.Tag(own).Val), nil
	for _, s := range f.Body {
		switch s := s.(type) {
		case kir.Move:
			access(&s.Dst)
			access(&s.Src)
			s.Guard, s.Last = instead(s.Guard), instead(s.Last)
			loop.Body = append(loop.Body, s)
		case *kir.For:
			if isFetching(s) {
				loop.Body = append(loop.Body, l.fetching(s, with))
			}
		}
	}
	f.Body = slices.DeleteFunc(f.Body, isFetch)
	return &loop
}
