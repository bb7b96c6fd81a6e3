package cuda

import (
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
)

// keepBytes has those Local buffers of Bools hold bytes, as memory does, of which each element is a copy and is only copied: to
// make a bool of C++ of a byte, and a byte of that, takes two instructions each way, 5 of the 17 for each element of a transpose
// of odd sizes.
func (p *printer) keepBytes() {
	isComputed, seen := make([]bool, len(p.k.Buffers)), make([]bool, len(p.k.Values))
	var use func(id kir.ValueID)
	use = func(id kir.ValueID) {
		if seen[id] {
			return
		}
		v := &p.k.Values[id]
		seen[id] = true
		if v.Kind == kir.Load {
			isComputed[v.Access.Buffer] = true
		}
		for _, a := range v.Args {
			use(a)
		}
		if v.Kind == kir.Random && v.Stream < 0 {
			use(v.Seed)
			use(v.Offset)
		}
	}
	type copied struct{ to, from kir.BufferID }
	var copies []copied
	p.k.Body.Walk(func(s kir.Statement) {
		switch s := s.(type) {
		case kir.Assign:
			if v := p.copiedBool(s.Value); v != nil {
				copies = append(copies, copied{s.Dst.Buffer, v.Access.Buffer})
			} else {
				isComputed[s.Dst.Buffer] = true
				use(s.Value)
			}
		case kir.Send:
			use(s.Value)
		case kir.AtomicAdd:
			use(s.Value)
		case kir.Let:
			use(s.Value)
		case kir.Opaque:
			isComputed[s.Buffer] = true
		}
	})
	for isDone := false; !isDone; {
		isDone = true
		for _, c := range copies {
			if p.asBool[c.to] && p.asBool[c.from] && isComputed[c.to] != isComputed[c.from] {
				isComputed[c.to], isComputed[c.from], isDone = true, true, false
			}
		}
	}
	for b, is := range isComputed {
		p.asBool[b] = p.asBool[b] && is
	}
}

// copiedBool returns the load of the Bool that id is a copy of; nil: it is something else.
func (p *printer) copiedBool(id kir.ValueID) *kir.Value {
	v := &p.k.Values[id]
	for v.Kind == kir.Operation && (v.Op == core.SetOp || v.Op == core.SegmentSetOp) {
		v = &p.k.Values[v.Args[0]]
	}
	if v.Kind != kir.Load || !v.DType.IsBool() {
		return nil
	}
	return v
}
