package space

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
)

// tables returns the expressions that look v up, if nothing else reads it.
func (w *walker) tables(v core.ValID) []*core.Expr {
	var all []*core.Expr
	for _, id := range w.order {
		e := w.f.Expr(id)
		args := w.f.TensorArgs(e)
		if !slices.Contains(args, v) {
			continue
		}
		k, ok := e.IndexedRead()
		if !ok || args[k.Table] != v || slices.Contains(args[:k.Table], v) || slices.Contains(args[k.Table+1:], v) {
			return nil
		}
		all = append(all, e)
	}
	return all
}

// addTable appends t, as e looks it up. It has as many elements as the result, and those along
// the dimensions of it that are none of the table lie at any distance that is a multiple of
// the stride that the position is multiplied by.
func (w *walker) addTable(p *Space, t Tensor, e *core.Expr, at scheduler.Placement) error {
	k, _ := e.IndexedRead()
	root := w.f.Val(e.Out[0]).Domain.Root
	sizes, err := w.sizes(root)
	if err != nil {
		return err
	}
	t.Bytes = int64(w.f.Val(t.Val).DType.Size())
	t.lie(at.Aligned)
	dense := w.dense(t.Val)
	of, varies := w.mapped(e, k.Table), w.mapped(e, k.Index)
	known := map[core.AxisID][]piece{}
	elements := int64(1)
	for i, a := range root {
		if w.f.Axis(a).Kind == core.Broadcast {
			continue
		}
		x := piece{extent: sizes[i]}
		switch d := of[i]; {
		case x.extent == 1:
		case d >= 0:
			x.stride, x.isDense = at.Strides[d], dense[d] && varies[i] < 0
		case e.Op == core.GatherOp: // which reads a part of some dimensions
			x.stride = at.Strides[i]
		case varies[i] >= 0:
			x.stride = at.Strides[k.Dim]
		}
		c := w.m.Exact(a)
		_, isTwice := known[c]
		t.isOpaque = t.isOpaque || isTwice
		if x.stride != 0 {
			elements *= x.extent
		}
		known[c] = []piece{x}
	}
	if k.Index < 0 {
		t.shift = at.Strides[k.Dim]
	}
	w.put(p, t, known, elements)
	return nil
}

// mapped returns by root axis of the result of e the dimension of tensor operand k, which may be
// -1, that is no broadcast and runs along it, or -1.
func (w *walker) mapped(e *core.Expr, k int) []int {
	to := make([]int, len(w.f.Val(e.Out[0]).Domain.Root))
	for i := range to {
		to[i] = -1
	}
	if k < 0 {
		return to
	}
	axes := w.f.Axes(w.f.TensorArgs(e)[k])
	for i, d := range e.Op.AxisMap(w.f, e, k, 0) {
		if d >= 0 && w.f.Axis(axes[d]).Kind != core.Broadcast {
			to[i] = d
		}
	}
	return to
}

// tableWidths returns the elements of an access by the inputs of f that are looked up: of
// several widths the least.
func (p *Space) tableWidths(f *core.Fusion, h Pitch) map[core.ValID]int64 {
	widths := map[core.ValID]int64{}
	for k := range p.Tensors {
		t := &p.Tensors[k]
		if !t.isTable {
			continue
		}
		v := f.Inputs()[t.Place]
		w := h.Widths[k]
		if t.IsConstant(h.from, len(p.Order)) { // it has no such loop
			w = 1
		}
		if least, ok := widths[v]; !ok || w < least {
			widths[v] = w
		}
	}
	return widths
}

// widenReads lets those of own that are looked up be read in accesses of the widths.
func widenReads(s *schedule.Scheduled, h Pitch, own []core.ValID, widths map[core.ValID]int64) error {
	f := s.Fusion()
	for _, v := range own {
		if f.Val(v).Def == core.NoExpr || s.Memory(v) != schedule.Local {
			continue
		}
		e := f.Expr(f.Val(v).Def)
		k, ok := e.IndexedRead()
		if !ok {
			continue
		}
		if w := widths[f.TensorArgs(e)[k.Table]]; w > 1 {
			if err := Widen(s, v, h.Elements, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// Scatters reports whether a table is read at single elements, each of which has a position of
// its own: wherever it lies, it is waited for after its position.
func (p *Space) Scatters(h Pitch) bool {
	return slices.ContainsFunc(p.Tensors, func(t Tensor) bool {
		r := p.reach(&t, h.from)
		return t.isTable && !t.isOpaque && r.run == 1 && r.constant == 1 && t.Elements() > 1
	})
}
