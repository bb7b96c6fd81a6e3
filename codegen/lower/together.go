package lower

import (
	"maps"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/scalar"
)

// maxTogether is how many elements are added to a state at once: each is in a
// register until then. Of parts, which are states themselves, they are mostParts: one after the other, nine of a column
// took 5 us of 83 of a batch norm in four rounds.
const (
	maxTogether = 32
	mostParts   = 16
)

// An addition is the statements that add one element, or one part, to a state.
type addition struct {
	fold         fold
	dst          []kir.Access
	x            []kir.ValueID // an element, or the values of a part
	from, before kir.BufferID  // of the statements: those that they declare
}

// has reports whether s is one of the statements.
func (x *addition) has(s kir.Statement) bool {
	switch s := s.(type) {
	case kir.Declare:
		return s.Buffer >= x.from && s.Buffer < x.before
	case kir.Assign:
		return s.Dst.Buffer >= x.from && s.Dst.Buffer < x.before || x.writes(s.Dst.Buffer)
	}
	return false
}

// ofParts reports whether parts are added, and not elements. A part of nothing changes nothing.
func (x *addition) ofParts() bool { return len(x.x) == len(x.dst) }

func (x *addition) writes(b kir.BufferID) bool {
	return slices.ContainsFunc(x.dst, func(a kir.Access) bool { return a.Buffer == b })
}

// A group is an addition in loops that are written out, of which some add to one
// element of the state.
type group struct {
	*addition
	block *kir.Block // of the addition
	loops []loop     // outermost first
	cond  scalar.ID  // of all ifs around the addition
	inIf  bool       // one of the loops is in one of the ifs

	element []kir.Access // of an iteration, once it is stored, by value
	count   kir.ValueID  // of elements that each iteration of the kept loops has; NoValue: its own
}

// A loop is written out, from 0 in steps of 1.
type loop struct {
	s      *kir.For
	symbol scalar.ID
	n      int64
	isKept bool // an element of the state has iterations of its own
}

// written returns the loop that s is, if it is one with more than one iteration.
func (a *accumulation) written(s *kir.For) (loop, bool) {
	n, isConst := a.t.ConstInt(s.Stop)
	return loop{s: s, symbol: a.b.Kernel().Symbols[s.Symbol].Expr, n: n},
		isConst && n > 1 && s.Unroll == kir.UnrollFull && s.Start == a.t.Int(0) && s.Step == a.t.Int(1)
}

// together lets the iterations of a loop and of those in it that add elements to
// one element of a state leave theirs in registers, and adds all after it: a sum of
// exponentials is then scaled once and not n times, and a mean divided once.
// What is to be declared before the loop, and to stand after it, is returned.
func (a *accumulation) together(s *kir.For) (before, after kir.Block) {
	outer, ok := a.written(s)
	if !ok {
		return nil, nil
	}
	for _, g := range a.groups(&s.Body, group{loops: []loop{outer}, cond: a.t.Bool(true)}) {
		if !a.choose(s, g) {
			continue
		}
		if a.isHeld(s, g) {
			g.element = nil
			for _, x := range g.x {
				g.element = append(g.element, a.b.Kernel().Values[x].Access)
			}
			*g.block = without(*g.block, g.has)
			s.Body = withoutEmpty(s.Body)
		} else {
			for _, each := range a.collect(g) {
				before = append(before, kir.Declare{Buffer: each})
			}
		}
		after = append(after, a.b.If(a.t.Bool(true), func() { a.addGroup(g) }, nil).Then...)
	}
	return before, after
}

// groups returns the additions in b, which is in the loops and ifs of around.
func (a *accumulation) groups(b *kir.Block, around group) (list []*group) {
	for _, s := range *b {
		switch s := s.(type) {
		case *kir.For:
			if l, ok := a.written(s); ok {
				inner := around
				inner.loops, inner.inIf = append(slices.Clip(around.loops), l), around.inIf || around.cond != a.t.Bool(true)
				list = append(list, a.groups(&s.Body, inner)...)
			}
		case *kir.If:
			inner := around
			inner.cond = a.t.And(around.cond, s.Cond)
			list = append(list, a.groups(&s.Then, inner)...)
		case kir.Declare:
			if x := a.additions[s.Buffer]; x != nil {
				g := around
				g.addition, g.block, g.loops, g.count = x, b, slices.Clone(around.loops), kir.NoValue
				list = append(list, &g)
			}
		}
	}
	return list
}

// choose sorts the loops of a group, and reports whether the iterations of s are to
// be added together.
func (a *accumulation) choose(s *kir.For, g *group) bool {
	count, inner := int64(1), int64(1)
	for i := range g.loops {
		l := &g.loops[i]
		for _, d := range g.dst {
			l.isKept = l.isKept || a.reads(d.Index, l.symbol)
		}
		if !l.isKept {
			count *= l.n
		}
		if i > 0 && !l.isKept {
			inner *= l.n
		}
	}
	enough, most := g.fold.state.enough, int64(maxTogether)
	if g.ofParts() {
		enough, most = mostParts, mostParts
	}
	if len(g.loops) > 1 && inner >= enough {
		return false
	}
	return !g.loops[0].isKept && count <= most && a.isAlone(s, g.addition) && (a.counts(g) || !g.inIf && a.mayAlwaysAdd(g))
}

// mayAlwaysAdd reports whether the identity may be added to the state where the condition of a
// group fails: not where that says which thread writes what lies in shared or global memory, or
// that there is room for the state.
func (a *accumulation) mayAlwaysAdd(g *group) bool {
	return g.cond == a.t.Bool(true) || !slices.ContainsFunc(g.dst, func(d kir.Access) bool {
		return a.b.Kernel().Buffers[d.Buffer].Space != kir.Local || !a.isInside(&d)
	})
}

// counts reports whether an identity in the place of an element would count.
func (a *accumulation) counts(g *group) bool { return !g.ofParts() && g.fold.state.counts(&g.fold) }

func (a *accumulation) reads(e, symbol scalar.ID) bool {
	found := false
	a.t.Symbols(e, func(id scalar.ID) { found = found || id == symbol })
	return found
}

// isAlone reports whether x is all that touches its state in the loop s.
func (a *accumulation) isAlone(s *kir.For, x *addition) bool {
	alone, stores := true, 0
	s.Body.Walk(func(s kir.Statement) {
		eachAccess(a.b.Kernel(), s, func(at *kir.Access, write bool) {
			if write && x.writes(at.Buffer) {
				stores++
			}
			alone = alone && (x.has(s) || !x.writes(at.Buffer) && (at.Buffer < x.from || at.Buffer >= x.before))
		})
	})
	return alone && stores == len(x.dst)
}

// isHeld reports whether the elements of a group are in registers that outlast the loop s,
// so that they need not be stored: a compiler converts those of narrow types where they are
// added then, and not before.
func (a *accumulation) isHeld(s *kir.For, g *group) bool {
	return !slices.ContainsFunc(g.x, func(x kir.ValueID) bool { return !a.outlasts(s, g, x) })
}

func (a *accumulation) outlasts(s *kir.For, g *group, x kir.ValueID) bool {
	k := a.b.Kernel()
	v := &k.Values[x]
	if v.Kind != kir.Load || k.Buffers[v.Access.Buffer].Space != kir.Local || g.cond != a.t.Bool(true) && !a.counts(g) {
		return false
	}
	outlasts := true
	s.Body.Walk(func(s kir.Statement) {
		d, isDeclared := s.(kir.Declare)
		outlasts = outlasts && !(isDeclared && d.Buffer == v.Access.Buffer)
		eachAccess(k, s, func(at *kir.Access, write bool) {
			outlasts = outlasts && !(write && at.Buffer == v.Access.Buffer)
		})
	})
	return outlasts
}

// withoutEmpty returns b without loops and ifs that do nothing.
func withoutEmpty(b kir.Block) kir.Block {
	var out kir.Block
	for _, s := range b {
		switch s := s.(type) {
		case *kir.For:
			if s.Body = withoutEmpty(s.Body); len(s.Body) == 0 {
				continue
			}
		case *kir.If:
			if s.Then, s.Else = withoutEmpty(s.Then), withoutEmpty(s.Else); len(s.Then)+len(s.Else) == 0 {
				continue
			}
		}
		out = append(out, s)
	}
	return out
}

// collect lets the addition of a group store what it adds in buffers, one a value, which it
// returns. An iteration without an element has the identity of the first value, unless that
// would count, and one without a part that of all.
func (a *accumulation) collect(g *group) (buffers []kir.BufferID) {
	k := a.b.Kernel()
	shape := make([]index, len(g.loops))
	symbols := make([]scalar.ID, len(g.loops))
	for i, l := range g.loops {
		shape[i], symbols[i] = a.t.Int(l.n), l.symbol
	}
	var stores, nothing kir.Block
	for i, x := range g.x {
		each := a.b.Buffer(a.name("each"), kir.Local, g.fold.types[i], shape...)
		k.Buffers[each].Align, k.Buffers[each].Registers = 16, true
		own := a.b.At(each, symbols...)
		buffers, g.element = append(buffers, each), append(g.element, own)
		stores = append(stores, kir.Assign{Dst: own, Value: x})
		nothing = append(nothing, kir.Assign{Dst: own, Value: a.b.Const(g.fold.identity(i))})
	}
	var out kir.Block
	stored := false
	for _, s := range *g.block {
		if !g.has(s) {
			out = append(out, s)
		} else if !stored {
			out, stored = append(out, stores...), true
		}
	}
	*g.block = out
	if g.cond != a.t.Bool(true) && !a.counts(g) {
		inner := g.loops[len(g.loops)-1].s
		inner.Body = append(nothing, inner.Body...)
		g.cond = a.t.Bool(true)
	}
	return buffers
}

// addGroup emits the loops of a group that are kept, and in them what adds the elements: all
// at once where the condition holds for all, else those of which it is the same.
func (a *accumulation) addGroup(g *group) {
	var kept, varying []loop
	ofKept := false
	for _, l := range g.loops {
		isRead := a.reads(g.cond, l.symbol)
		if l.isKept {
			kept, ofKept = append(kept, l), ofKept || isRead
		} else if isRead {
			varying = append(varying, l)
		}
	}
	all := func(with values) { a.addElements(g, with) }
	if !ofKept {
		at := g.fold.state.number
		alike := at > 0 && !g.ofParts() && len(kept) > 0 && a.countsAlike(g, g.dst[at].Buffer)
		common := func(with values) {
			if alike {
				a.shareCount(g, g.dst[at], kept, with)
			}
			a.nest(kept, with, all)
			g.count = kir.NoValue
		}
		a.divide(g, varying, values{}, func() { common(values{}) }, func() { a.addSome(g, varying, values{}, common) })
		return
	}
	a.nest(kept, values{}, func(with values) {
		a.divide(g, varying, with, func() { all(with) }, func() { a.addSome(g, varying, with, all) })
	})
}

// divide emits all where the condition of a group holds in all iterations of varying loops,
// else some.
func (a *accumulation) divide(g *group, varying []loop, with values, all, some func()) {
	cond := a.always(a.at(g.cond, with), varying)
	if len(varying) == 0 {
		a.whenever(cond, all)
		return
	}
	a.b.If(cond, all, some)
}

// shareCount puts the number of elements that all iterations of the kept loops have so far
// in the place of that of each: it is converted once then, and divided by.
func (a *accumulation) shareCount(g *group, number kir.Access, kept []loop, with values) {
	first := maps.Clone(with)
	for _, l := range kept {
		first[l.symbol] = a.t.Int(0)
	}
	g.count = a.temporary("count", a.loadFrom(a.accessAt(number, first)))
}

// countsAlike reports whether nothing but the group, and constants in any case, are written
// to numbers of elements.
func (a *accumulation) countsAlike(g *group, numbers kir.BufferID) bool {
	alike := true
	for _, x := range a.additions { // a copy of the nest has another group
		alike = alike && (x == g.addition || !x.writes(numbers))
	}
	var walk func(b kir.Block, inIf bool)
	walk = func(b kir.Block, inIf bool) {
		for _, s := range b {
			switch s := s.(type) {
			case *kir.For:
				walk(s.Body, inIf)
				continue
			case *kir.If:
				always := s.Cond == a.t.Bool(true)
				walk(s.Then, inIf || !always)
				walk(s.Else, true)
				continue
			}
			eachAccess(a.b.Kernel(), s, func(x *kir.Access, write bool) {
				set, isSet := s.(kir.Assign)
				isConst := isSet && a.b.Kernel().Values[set.Value].Kind == kir.Constant
				alike = alike && (!write || x.Buffer != numbers || isConst && !inIf)
			})
		}
	}
	walk(a.b.Kernel().Body, false)
	return alike
}

// accessAt returns an access with these values of symbols.
func (a *accumulation) accessAt(x kir.Access, with values) kir.Access {
	coords := make([]scalar.ID, len(x.Coords))
	for k, c := range x.Coords {
		coords[k] = a.at(c, with)
	}
	x.Coords, x.Index = coords, a.at(x.Index, with)
	return x
}

// Values are those of the symbols of loops.
type values map[scalar.ID]scalar.ID

// nest emits loops around body.
func (a *accumulation) nest(loops []loop, with values, body func(values)) {
	if len(loops) == 0 {
		body(with)
		return
	}
	a.repeat(loops[0], with, func() { a.nest(loops[1:], with, body) })
}

// repeat emits a loop again.
func (a *accumulation) repeat(l loop, with values, body func()) {
	a.b.Repeat(a.loopName(), l.n, kir.UnrollFull, func(i index) {
		with[l.symbol] = i
		body()
		delete(with, l.symbol)
	})
}

// at returns an expression with these values of symbols.
func (a *accumulation) at(e scalar.ID, with values) scalar.ID {
	return a.t.Substitute(e, func(symbol scalar.ID) (scalar.ID, bool) {
		v, ok := with[symbol]
		return v, ok
	})
}

// always returns the condition that cond holds in all iterations of loops: of a test that an index
// is below a bound the iteration in which it is nearest to that.
func (a *accumulation) always(cond scalar.ID, loops []loop) scalar.ID {
	if len(loops) == 0 {
		return cond
	}
	args := a.t.Args(cond)
	if a.t.Op(cond) == scalar.Select && args[2] == a.t.Bool(false) { // both hold
		return a.t.And(a.always(args[0], loops), a.always(args[1], loops))
	}
	first, n := int64(0), loops[0].n
	switch grows, shrinks := a.goesOn(cond, loops[0]); {
	case grows:
		first = n - 1
	case shrinks:
		n = 1
	}
	all := a.t.Bool(true)
	for i := first; i < n; i++ {
		one := a.at(cond, values{loops[0].symbol: a.t.Int(i)})
		all = a.t.And(all, a.always(one, loops[1:]))
	}
	return all
}

// goesOn reports whether cond is that one integer is less than another, and their difference goes
// up, or down, by a constant in each iteration of l.
func (a *accumulation) goesOn(cond scalar.ID, l loop) (grows, shrinks bool) {
	if op := a.t.Op(cond); op != scalar.Lt && op != scalar.Le {
		return false, false
	}
	difference := a.t.Sub(a.t.Args(cond)[0], a.t.Args(cond)[1])
	in := func(i int64) scalar.ID { return a.at(difference, values{l.symbol: a.t.Int(i)}) }
	grows, shrinks = true, true
	for i := range l.n - 1 {
		step, isConst := a.t.ConstInt(a.t.Sub(in(i+1), in(i)))
		grows, shrinks = grows && isConst && step >= 0, shrinks && isConst && step <= 0
	}
	return grows, shrinks
}

// addSome adds those elements of a group for which its condition holds: together, by add,
// those for which it is the same.
func (a *accumulation) addSome(g *group, varying []loop, with values, add func(values)) {
	a.nest(varying, with, func(with values) {
		a.whenever(a.at(g.cond, with), func() { add(with) })
	})
}

// addElements adds the elements of all iterations of the loops of a group that have no
// value.
func (a *accumulation) addElements(g *group, with values) {
	elements := make([][]kir.ValueID, len(g.element)) // by value, then iteration
	at := maps.Clone(with)
	var visit func(rest []loop)
	visit = func(rest []loop) {
		if len(rest) == 0 {
			for i, x := range g.element {
				elements[i] = append(elements[i], a.loadFrom(a.accessAt(x, at)))
			}
			return
		}
		l := rest[0]
		if _, ok := with[l.symbol]; ok {
			visit(rest[1:])
			return
		}
		for i := range l.n {
			at[l.symbol] = a.t.Int(i)
			visit(rest[1:])
		}
	}
	visit(g.loops)
	dst, old := make([]kir.Access, len(g.dst)), make([]kir.ValueID, len(g.dst))
	for i, d := range g.dst {
		dst[i] = a.accessAt(d, with)
		old[i] = a.loadFrom(dst[i])
	}
	if g.count != kir.NoValue {
		old[g.fold.state.number] = g.count
	}
	for i, v := range a.sum(g, old, elements) {
		a.b.Add(kir.Assign{Dst: dst[i], Value: v})
	}
}

// sum returns what a group has with old: the values of its elements, or parts, by value.
func (a *accumulation) sum(g *group, old []kir.ValueID, values [][]kir.ValueID) []kir.ValueID {
	if !g.ofParts() {
		return g.fold.state.addAll(a.lowering, g.fold, old, values[0])
	}
	parts := [][]kir.ValueID{old}
	for i := range values[0] {
		part := make([]kir.ValueID, len(values))
		for k := range values {
			part[k] = values[k][i]
		}
		parts = append(parts, part)
	}
	return g.fold.state.mergeAll(a.lowering, g.fold, parts, oneLane)
}
