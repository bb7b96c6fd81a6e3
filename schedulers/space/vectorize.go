package space

import (
	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
)

// A reading is an input as a resize reads it, or as all else does.
type reading struct {
	input core.ValID
	how   string
}

// A width is how many elements an access has, and how many the step that it is of.
type width struct{ elements, step int64 }

// width returns that of tensor k.
func (h *Pitch) width(k int) width {
	if h.steps == nil {
		return width{h.Widths[k], h.Elements}
	}
	return width{h.Widths[k], h.steps[k]}
}

// Vectorize splits the innermost loop of each copy, resize or join of inputs, of what is looked
// up in one, and of each copy to an output, in a schedule of the segment, into accesses as wide
// as the pitch h of its loops allows the tensors, where that loop has the elements of a step.
//
// Errors: those of [schedule.Scheduled.Split] and Parallelize.
func (p *Space) Vectorize(s *schedule.Scheduled, h Pitch) error {
	if h.Elements <= 1 {
		return nil
	}
	f := s.Fusion()
	inputs, outputs := map[reading]width{}, map[core.ValID]width{}
	for k := range p.Tensors {
		t := &p.Tensors[k]
		switch {
		case t.isTable || t.IsConstant(h.from, len(p.Order)): // has no copy, or no such loop
		case t.IsOutput:
			outputs[f.Outputs()[t.Place].Val] = h.width(k)
		default:
			inputs[reading{f.Inputs()[t.Place], t.how}] = h.width(k)
		}
	}
	own := p.own(s)
	for _, v := range own {
		if f.Val(v).Def == core.NoExpr {
			continue
		}
		if e := f.Expr(f.Val(v).Def); e.Op.Class == core.Resize {
			if w, ok := p.resizedWidth(f, e, inputs, h); ok {
				if err := Widen(s, v, h.Elements, w); err != nil {
					return err
				}
			}
			continue
		} else if e.Op != core.SetOp && e.Op != core.StrideOrderOp {
			continue
		}
		from := f.TensorArgs(f.Expr(f.Val(v).Def))[0]
		if s.Memory(from) == schedule.Shared && f.Expr(f.Val(from).Def).Op == core.SetOp {
			from = f.TensorArgs(f.Expr(f.Val(from).Def))[0] // the thread reads what it has copied
		}
		w, isCopy := inputs[reading{from, ""}]
		if s.Memory(v) == schedule.Global && s.Memory(from) == schedule.Local {
			w, isCopy = outputs[v]
		}
		if isCopy {
			if err := Widen(s, v, w.step, w.elements); err != nil {
				return err
			}
		}
	}
	return widenReads(s, h, own, p.tableWidths(f, h))
}

// resizedWidth returns the width of accesses to all operands of e, a resize, if all are inputs.
// Of a pad or join it is that of the step where elements follow each other in all of them, as
// lowering finds out how to move each.
func (p *Space) resizedWidth(f *core.Fusion, e *core.Expr, inputs map[reading]width, h Pitch) (int64, bool) {
	w, follows, how := h.Elements, e.Op != core.SliceOp, howResized(e)
	for _, v := range f.TensorArgs(e) {
		own, isInput := inputs[reading{v, how}]
		if !isInput {
			return 0, false
		}
		w = min(w, own.elements)
		for k := range p.Tensors {
			if t := &p.Tensors[k]; t.how == how && f.Inputs()[t.Place] == v {
				follows = follows && p.reach(t, h.from).run%h.Elements == 0
			}
		}
	}
	if follows {
		w = h.Elements
	}
	return w, true
}

// Widen lets accesses of w elements make up the innermost loop of v, if that is a
// step, beside axes that its readers squeeze. Several accesses stay together, so that loads are
// under way at once.
func Widen(s *schedule.Scheduled, v core.ValID, elements, w int64) error {
	loop, f := s.Loop(v), s.Fusion()
	at := len(loop) - 1
	for w > 1 && at > 0 && f.Axis(loop[at]).Kind == core.Broadcast {
		at--
	}
	if at < 0 {
		return nil
	}
	if n, ok := f.Scalars().ConstInt(f.Axis(loop[at]).Extent); !ok || n != elements {
		return nil
	}
	n := scheduler.Nest{Schedule: s, Tensor: v}
	if at < len(loop)-1 {
		n.Reorder(map[int]int{at: len(loop) - 1})
	}
	switch w {
	case 1:
		n.Parallelize(-1, schedule.Unroll)
		return n.Err
	case elements:
	default:
		n.Split(-1, w, schedule.Serial)
		n.Parallelize(-2, schedule.Unroll)
	}
	n.Parallelize(-1, schedule.Vectorize)
	return n.Err
}
