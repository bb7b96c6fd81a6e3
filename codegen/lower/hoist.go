package lower

import (
	"fmt"
	"maps"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// hoist is a pass. It names expressions that are used several times, or in
// deeper loops than they depend on, at the start of the innermost loop that they
// depend on. Of a sum it also names the part that depends on outer loops alone:
// an access in a loop is then one addition away from it, and a constant is left to
// the access.
func (l *lowering) hoist() error {
	h := &hoister{k: l.b.Kernel(), t: l.t, level: map[kir.SymbolID]*hoistLevel{}, uses: map[scalar.ID]hoistUse{}, levels: map[scalar.ID]*hoistLevel{}, parts: map[scalar.ID][]scalar.ID{}}
	top := &hoistLevel{block: &h.k.Body}
	for i, s := range h.k.Symbols {
		if s.Kind == kir.Parameter || s.Kind == kir.ThreadIdx || s.Kind == kir.BlockIdx {
			h.level[kir.SymbolID(i)] = top
		}
	}
	h.top = top
	h.collect(h.k.Body, top)
	h.choose()
	h.insert(top)
	return nil
}

// A hoistLevel is the kernel or a loop, which binds symbols.
type hoistLevel struct {
	block *kir.Block
	depth int
	inner []*hoistLevel
	names []scalar.ID // hoisted here
}

// A hoistUse is how often an expression is used, and how deep at most.
type hoistUse struct{ count, depth int }

type hoister struct {
	k      *kir.Kernel
	t      *scalar.Table
	top    *hoistLevel
	level  map[kir.SymbolID]*hoistLevel // of what can be hoisted
	uses   map[scalar.ID]hoistUse
	levels map[scalar.ID]*hoistLevel
	parts  map[scalar.ID][]scalar.ID // what an expression is made of: see operands
	number int                       // of names
}

// collect notes the uses in a block.
func (h *hoister) collect(b kir.Block, at *hoistLevel) {
	use := func(id scalar.ID) { h.use(id, 1, at.depth) }
	for _, s := range b {
		statementExprs(h.k, s, use)
		switch s := s.(type) {
		case *kir.For:
			inner := &hoistLevel{block: &s.Body, depth: at.depth + 1}
			at.inner = append(at.inner, inner)
			h.level[s.Symbol] = inner
			h.collect(s.Body, inner)
		case *kir.If:
			h.collect(s.Then, at)
			h.collect(s.Else, at)
		}
	}
}

func (h *hoister) use(id scalar.ID, count, depth int) {
	u := h.uses[id]
	h.uses[id] = hoistUse{u.count + count, max(u.depth, depth)}
}

// choose goes from expressions to their operands: an operand of a hoisted one is
// used once more, where that is hoisted to.
func (h *hoister) choose() {
	for _, id := range slices.Backward(h.operandsFirst()) {
		u := h.uses[id]
		at := h.levelOf(id)
		if at != nil && h.isWorth(id) && (u.count > 1 || u.depth > at.depth) {
			at.names = append(at.names, id)
			u = hoistUse{1, at.depth}
		}
		for _, a := range h.operands(id) {
			h.use(a, u.count, u.depth)
		}
	}
}

// operandsFirst returns the expressions that are used and what they are made of,
// each after its operands.
func (h *hoister) operandsFirst() []scalar.ID {
	var order []scalar.ID
	seen := map[scalar.ID]bool{}
	var visit func(id scalar.ID)
	visit = func(id scalar.ID) {
		if seen[id] || len(h.t.Args(id)) == 0 {
			return
		}
		seen[id] = true
		for _, a := range h.operands(id) {
			visit(a)
		}
		order = append(order, id)
	}
	for _, id := range slices.Sorted(maps.Keys(h.uses)) {
		visit(id)
	}
	return order
}

// operands returns the operands of id; of a sum, those of its terms that depend
// on outer loops alone are one, a sum, if they are several.
func (h *hoister) operands(id scalar.ID) []scalar.ID {
	if list, ok := h.parts[id]; ok {
		return list
	}
	list := h.t.Args(id)
	if h.t.Op(id) == scalar.Add && h.t.Type(id) == dtype.Index {
		list = h.divided(id)
	}
	h.parts[id] = list
	return list
}

func (h *hoister) divided(id scalar.ID) []scalar.ID {
	at := h.levelOf(id)
	var outer, rest []scalar.ID
	for _, a := range h.t.Args(id) {
		_, isConst := h.t.ConstInt(a)
		if of := h.levelOf(a); !isConst && of != nil && (at == nil || of.depth < at.depth) {
			outer = append(outer, a)
		} else {
			rest = append(rest, a)
		}
	}
	if len(outer) < 2 {
		return h.t.Args(id)
	}
	sum := outer[0]
	for _, a := range outer[1:] {
		sum = h.t.Add(sum, a)
	}
	if h.t.Op(sum) != scalar.Add || len(h.t.Args(sum)) != len(outer) {
		return h.t.Args(id)
	}
	return append(rest, sum)
}

// levelOf returns the innermost level that id depends on, nil if it depends on
// what is bound in the middle of one.
func (h *hoister) levelOf(id scalar.ID) *hoistLevel {
	if at, ok := h.levels[id]; ok {
		return at
	}
	at := h.top
	h.t.Symbols(id, func(s scalar.ID) {
		of := h.level[kir.SymbolID(h.t.Tag(s).Val)]
		if of == nil || at == nil {
			at = nil
		} else if of.depth > at.depth {
			at = of
		}
	})
	h.levels[id] = at
	return at
}

// isWorth reports whether id is computed by more than a sum of two, and by
// nothing that may fail where it is not needed.
func (h *hoister) isWorth(id scalar.ID) bool {
	if h.t.Type(id) != dtype.Index && !h.t.Type(id).IsBool() {
		return false
	}
	list, inner := h.operands(id), 0
	for _, a := range list {
		if len(h.t.Args(a)) > 0 && !h.isPart(id, a) {
			inner++
		}
	}
	simple := h.t.Op(id) == scalar.Add || h.t.Op(id) == scalar.Mul
	return !(simple && inner == 0 && len(list) <= 2) && isTotal(h.t, id, map[scalar.ID]bool{})
}

// isPart reports whether a is the part of sum id that is named where the outer
// loops are.
func (h *hoister) isPart(id, a scalar.ID) bool {
	return h.t.Op(id) == scalar.Add && !slices.Contains(h.t.Args(id), a) && h.isWorth(a)
}

// isTotal reports whether no divisor in id can be 0.
func isTotal(t *scalar.Table, id scalar.ID, seen map[scalar.ID]bool) bool {
	if seen[id] {
		return true
	}
	seen[id] = true
	switch t.Op(id) {
	case scalar.FloorDiv, scalar.Mod, scalar.TruncDiv, scalar.Rem:
		if f := t.Facts(t.Args(id)[1]); f.Lo < 1 && f.Hi > -1 {
			return false
		}
	}
	return !slices.ContainsFunc(t.Args(id), func(a scalar.ID) bool { return !isTotal(t, a, seen) })
}

// insert puts the names at the start of their blocks.
func (h *hoister) insert(at *hoistLevel) {
	slices.Sort(at.names)
	var names kir.Block
	for _, id := range at.names {
		h.number++
		h.k.Symbols = append(h.k.Symbols, kir.Symbol{Name: fmt.Sprintf("h%d", h.number-1), Kind: kir.HoistedIndex, Expr: id})
		names = append(names, kir.Hoist{Symbol: kir.SymbolID(len(h.k.Symbols) - 1), Expr: id})
	}
	*at.block = append(names, *at.block...)
	for _, inner := range at.inner {
		h.insert(inner)
	}
}
