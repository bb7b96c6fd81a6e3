package blockrow

import (
	"slices"

	"nvfuser_go/core"
)

// liveWords returns how many registers an element takes, at most, while one of scans waits for what
// other threads have: for what it computes, and for each tensor that it is computed from and that
// is read again after it.
func liveWords(f *core.Fusion, scans []*core.Expr) int64 {
	most := int64(1)
	for _, e := range scans {
		before := map[core.ValID]bool{} // what e is computed from
		var visit func(e *core.Expr)
		visit = func(e *core.Expr) {
			for _, v := range f.TensorArgs(e) {
				if !before[v] && f.Val(v).Def != core.NoExpr {
					visit(f.Expr(f.Val(v).Def))
				}
				before[v] = true
			}
		}
		visit(e)
		again := map[core.ValID]bool{}
		for _, id := range f.Order() {
			c := f.Expr(id)
			if c == e || before[c.Out[0]] {
				continue
			}
			for _, v := range f.TensorArgs(c) {
				again[v] = again[v] || before[v]
			}
		}
		words := wordsOf(f, e.Out[0])
		for v, isRead := range again {
			if isRead && f.Rank(v) == f.Rank(e.Out[0]) && !slices.ContainsFunc(f.Axes(v), func(a core.AxisID) bool { return f.Axis(a).Kind == core.Broadcast }) {
				words += wordsOf(f, v)
			}
		}
		most = max(most, words)
	}
	return most
}

// wordsOf returns the registers of an element of v.
func wordsOf(f *core.Fusion, v core.ValID) int64 { return max(int64(f.Val(v).DType.Size())/4, 1) }
