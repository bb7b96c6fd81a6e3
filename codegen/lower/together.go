package lower

import (
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/scalar"
)

// maxTogether is how many elements are added to a state at once: each is in a
// register until then.
const maxTogether = 32

// An addition is the statements that add one element to a state.
type addition struct {
	fold         fold
	dst          []kir.Access
	x            kir.ValueID
	from, before kir.BufferID // of the statements: those that they declare
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

func (x *addition) writes(b kir.BufferID) bool {
	return slices.ContainsFunc(x.dst, func(a kir.Access) bool { return a.Buffer == b })
}

// together lets the n iterations of a loop, each of which adds an element to a
// state, put their elements in registers, and adds all after it: a sum of
// exponentials is then scaled once and not n times. An iteration without an element
// has the identity of the first value, which a state that may be of nothing must
// not take for an element.
func (a *accumulation) together(s *kir.For, n int64) (before, after kir.Block) {
	if n > maxTogether {
		return nil, nil
	}
	k := a.b.Kernel()
	var first kir.Block
	var change func(b kir.Block, conditional bool) kir.Block
	change = func(b kir.Block, conditional bool) kir.Block {
		var out kir.Block
		for _, x := range b {
			switch y := x.(type) {
			case *kir.If:
				y.Then, y.Else = change(y.Then, true), change(y.Else, true)
			case kir.Declare:
				add := a.additions[y.Buffer]
				if add == nil || conditional && add.fold.state.counts(&add.fold) || !a.isAlone(s, add) {
					break
				}
				each := a.b.Buffer(a.name("each"), kir.Local, add.fold.types[0], a.t.Int(n))
				k.Buffers[each].Align, k.Buffers[each].Registers = 16, true
				own := a.b.At(each, k.Symbols[s.Symbol].Expr)
				before = append(before, kir.Declare{Buffer: each})
				if conditional {
					first = append(first, kir.Assign{Dst: own, Value: a.b.Const(add.fold.identity(0))})
				}
				out = append(out, kir.Assign{Dst: own, Value: add.x})
				after = append(after, a.addAll(add, each, n)...)
				b = without(b, add.has)
				return append(out, change(b[len(out)-1:], conditional)...)
			}
			out = append(out, x)
		}
		return out
	}
	s.Body = change(s.Body, false)
	s.Body = append(first, s.Body...)
	return before, after
}

// isAlone reports whether x is all that touches its state in the loop s, the same one
// in each iteration.
func (a *accumulation) isAlone(s *kir.For, x *addition) bool {
	alone, stores := true, 0
	for _, d := range x.dst {
		a.t.Symbols(d.Index, func(id scalar.ID) { alone = alone && id != a.b.Kernel().Symbols[s.Symbol].Expr })
	}
	s.Body.Walk(func(s kir.Statement) {
		if _, nested := s.(*kir.For); nested {
			alone = false
		}
		eachAccess(a.b.Kernel(), s, func(at *kir.Access, write bool) {
			if write && x.writes(at.Buffer) {
				stores++
			}
			alone = alone && (x.has(s) || !x.writes(at.Buffer) && (at.Buffer < x.from || at.Buffer >= x.before))
		})
	})
	return alone && stores == len(x.dst)
}

// addAll returns the statements that add the n elements of a buffer.
func (a *accumulation) addAll(x *addition, each kir.BufferID, n int64) kir.Block {
	return a.b.If(a.t.Bool(true), func() {
		elements, old := make([]kir.ValueID, n), make([]kir.ValueID, len(x.dst))
		for i := range elements {
			elements[i] = a.loadFrom(a.b.At(each, a.t.Int(int64(i))))
		}
		for i, d := range x.dst {
			old[i] = a.loadFrom(d)
		}
		for i, v := range x.fold.state.addAll(a.lowering, x.fold, old, elements) {
			a.b.Add(kir.Assign{Dst: x.dst[i], Value: v})
		}
	}, nil).Then
}
