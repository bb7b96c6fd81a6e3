package lower

import (
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/scalar"
)

// Elements that a thread adds up one after the other make a chain, each step of
// which waits for the last one.
const (
	maxTree      = 16 // iterations of which each has a value of its own
	accumulators = 4  // of more iterations: an addition takes four cycles, in each of which one may start
)

// accumulate is a pass. Where all iterations of a loop that is written out add to
// one element, each has a value of its own, and these are folded as a tree after
// the loop; iterations of longer loops take turns with a few values. So are
// the elements of a vector, then the vectors whose loads are under way together.
// The order depends on the kernel alone: every launch gives the same bits.
func (l *lowering) accumulate() error {
	a, k := accumulation{lowering: l, touches: map[*kir.For]map[kir.BufferID]int{}}, l.b.Kernel()
	a.count(k.Body, nil)
	k.Body = a.block(k.Body)
	return nil
}

// An accumulation is the pass under way.
type accumulation struct {
	*lowering
	touches map[*kir.For]map[kir.BufferID]int // statements in a loop that read or write one of the results
}

// count counts the statements in each loop that touch a buffer of
// a.results.
func (a *accumulation) count(b kir.Block, around []*kir.For) {
	for _, s := range b {
		var seen []kir.BufferID
		eachAccess(a.b.Kernel(), s, func(x *kir.Access, _ bool) {
			if _, ok := a.results[x.Buffer]; !ok || slices.Contains(seen, x.Buffer) {
				return
			}
			seen = append(seen, x.Buffer)
			for _, loop := range around {
				a.touches[loop][x.Buffer]++
			}
		})
		switch s := s.(type) {
		case *kir.For:
			a.touches[s] = map[kir.BufferID]int{}
			a.count(s.Body, append(slices.Clip(around), s))
		case *kir.If:
			a.count(s.Then, around)
			a.count(s.Else, around)
		}
	}
}

// block returns b with its loops changed, inner ones first: what follows them is
// added in the loop around.
func (a *accumulation) block(b kir.Block) kir.Block {
	var out kir.Block
	for _, s := range b {
		var after kir.Block
		switch s := s.(type) {
		case *kir.For:
			declared, added := a.together(s)
			out, after = append(out, declared...), append(after, added...)
			if len(s.Body) == 0 { // all of it stands after it
				out = append(out, after...)
				continue
			}
			s.Body = a.block(s.Body)
			if n, isConst := a.t.ConstInt(s.Stop); isConst && n > 1 && s.Unroll == kir.UnrollFull && s.Start == a.t.Int(0) && s.Step == a.t.Int(1) {
				declared, added := a.loop(s, n)
				out, after = append(out, declared...), append(after, added...)
			}
		case *kir.If:
			s.Then, s.Else = a.block(s.Then), a.block(s.Else)
		}
		out = append(append(out, s), after...)
	}
	return out
}

// loop gives values of their own to the n iterations of a loop, which are declared
// before it and added after it.
func (a *accumulation) loop(s *kir.For, n int64) (before, after kir.Block) {
	var first kir.Block // of an iteration
	var change func(b kir.Block, conditional bool)
	change = func(b kir.Block, conditional bool) {
		for i, x := range b {
			switch x := x.(type) {
			case *kir.If:
				change(x.Then, true)
				change(x.Else, true)
			case kir.Assign:
				added, ok := a.added(s, x)
				if !ok || conditional && !a.isInside(&x.Dst) { // the total is stored without the condition
					continue
				}
				e := a.values(s, a.results[x.Dst.Buffer], n)
				before = append(append(before, kir.Declare{Buffer: e.buffer}), e.initial...)
				if len(e.initial) > 0 {
					added = a.combine(e.fold, []kir.ValueID{a.loadFrom(e.own)}, []kir.ValueID{added})[0]
				} else if conditional {
					first = append(first, kir.Assign{Dst: e.own, Value: e.identity})
				}
				b[i] = kir.Assign{Dst: e.own, Value: added}
				total := a.combine(e.fold, []kir.ValueID{a.loadFrom(x.Dst)}, []kir.ValueID{e.total})[0]
				after = append(after, kir.Assign{Dst: x.Dst, Value: total})
			}
		}
	}
	change(s.Body, false)
	s.Body = append(first, s.Body...)
	return before, after
}

// An each is the values of the iterations of a loop.
type each struct {
	fold            fold
	buffer          kir.BufferID
	own             kir.Access // of the iteration
	initial         kir.Block  // none if each iteration has a value of its own
	identity, total kir.ValueID
}

func (a *accumulation) values(s *kir.For, f fold, n int64) each {
	size := n
	if n > maxTree {
		size = accumulators
	}
	k := a.b.Kernel()
	e := each{fold: f, buffer: a.b.Buffer(a.name("each"), kir.Local, f.types[0], a.t.Int(size)), identity: a.b.Const(f.identity(0))}
	k.Buffers[e.buffer].Align, k.Buffers[e.buffer].Registers = 16, true
	e.own = a.b.At(e.buffer, a.t.Mod(k.Symbols[s.Symbol].Expr, a.t.Int(size)))
	var each [][]kir.ValueID
	for i := range size {
		at := a.b.At(e.buffer, a.t.Int(i))
		if each = append(each, []kir.ValueID{a.loadFrom(at)}); size < n {
			e.initial = append(e.initial, kir.Assign{Dst: at, Value: e.identity})
		}
	}
	e.total = a.combineAll(f, each)[0]
	return e
}

// added returns what x adds to an element in each iteration of s, if that is the
// one statement there that touches it.
func (a *accumulation) added(s *kir.For, x kir.Assign) (kir.ValueID, bool) {
	f, ok := a.results[x.Dst.Buffer]
	k := a.b.Kernel()
	varies := false
	a.t.Symbols(x.Dst.Index, func(id scalar.ID) { varies = varies || id == k.Symbols[s.Symbol].Expr })
	if !ok || varies || a.touches[s][x.Dst.Buffer] != 1 {
		return 0, false
	}
	v := &k.Values[x.Value]
	if v.Kind != kir.Operation || v.Op != f.op.Combine().Info() || len(v.Args) != 2 {
		return 0, false
	}
	old := &k.Values[v.Args[0]]
	return v.Args[1], old.Kind == kir.Load && old.Access.Buffer == x.Dst.Buffer && old.Access.Index == x.Dst.Index
}
