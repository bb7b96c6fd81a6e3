package space

import (
	"fmt"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// A resized is the axis that a dimension of an input becomes where it is read: element i is
// at left + i there.
type resized struct {
	axis         core.AxisID
	left, extent int64
}

// resizesOf returns the results of the slices, pads and cats that read input v, and [core.NoVal] if
// something else does, or nothing.
func (w *walker) resizesOf(v core.ValID) (all []core.ValID) {
	isRead := false
	for _, id := range w.order {
		switch e := w.f.Expr(id); {
		case !slices.Contains(w.f.TensorArgs(e), v):
		case e.Op.Class == core.Resize:
			all = append(all, e.Out[0])
		default:
			isRead = true
		}
	}
	if isRead || len(all) == 0 {
		all = append(all, core.NoVal)
	}
	return all
}

// Shifts returns how many inputs are read at other places of dimensions that are not the innermost.
func (p *Space) Shifts() (n int) {
	for k := range p.Tensors {
		if t := &p.Tensors[k]; t.isShifted {
			n++
		}
	}
	return n
}

// howResized tells what e, a resize, does: those of a schedule have other results than those of its segment, if these
// are outputs.
func howResized(e *core.Expr) string { return fmt.Sprint(e.Op.Name, e.Args) }

// ResizeIn returns the result, in a schedule of the segment, of the pad or cat by which t, an input, is read.
func (t *Tensor) ResizeIn(s *schedule.Scheduled) core.ValID {
	f := s.Fusion()
	for _, id := range f.Order() {
		if e := f.Expr(id); e.Op.Class == core.Resize && howResized(e) == t.how && slices.Contains(f.TensorArgs(e), f.Inputs()[t.Place]) {
			return e.Out[0]
		}
	}
	return core.NoVal
}

// SharesResize reports whether one cat reads t and other.
func (t *Tensor) SharesResize(other *Tensor) bool { return t.IsResized() && t.resized == other.resized }

// readAlong returns the axes along which t is read: its own, or where an input is read in several ways, in
// which one axis is several others, those of what reads it, if that is one thing or they are the same.
func (w *walker) readAlong(t *Tensor) []core.AxisID {
	axes := slices.Clone(w.f.Axes(t.Val))
	if t.IsOutput || w.m.MapsThroughInputs() {
		return axes
	}
	isFirst := true
	for _, id := range w.order {
		e := w.f.Expr(id)
		for k, v := range w.f.TensorArgs(e) {
			if v != t.Val || (e.Op.Class == core.Resize) != t.IsResized() || t.IsResized() && e.Out[0] != t.resized {
				continue
			}
			for i, d := range w.axisMap(e, k) {
				if d < 0 {
					continue
				}
				root := w.f.Val(e.Out[0]).Domain.Root[i]
				t.isOpaque = t.isOpaque || !isFirst && w.m.Exact(root) != w.m.Exact(axes[d])
				axes[d] = root
			}
			isFirst = false
		}
	}
	return axes
}

// axisMap returns by root axis of the result of e the dimension of tensor operand k, or -1.
func (w *walker) axisMap(e *core.Expr, k int) []int {
	if e.Op.AxisMap != nil {
		return e.Op.AxisMap(w.f, e, k, 0)
	}
	to := make([]int, len(w.f.Val(e.Out[0]).Domain.Root))
	for i := range to {
		to[i] = i
	}
	return to
}

// resizedAxes returns what the slice, pad or cat that reads t makes of its dimensions. What a
// cat joins several times is opaque.
func (w *walker) resizedAxes(t *Tensor) (map[int]resized, error) {
	if !t.IsResized() {
		return nil, nil
	}
	of := w.f.Expr(w.f.Val(t.resized).Def)
	t.how = howResized(of)
	if of.Op == core.CatOp {
		for k, v := range of.Args[0].Tensors {
			t.isOpaque = t.isOpaque || v == t.Val && slices.Contains(of.Args[0].Tensors[:k], v)
		}
		return w.joined(of, t.Val)
	}
	d := &w.f.Val(of.Out[0]).Domain
	made := map[int]resized{}
	for k, a := range d.Logical {
		if a == d.Root[k] {
			continue
		}
		n, err := w.sizes([]core.AxisID{a})
		if err != nil {
			return nil, err
		}
		left, err := w.g.Shapes.Int(w.f.Transform(w.f.Axis(a).Def).Left)
		if err != nil {
			return nil, err
		}
		made[k] = resized{a, left, n[0]}
	}
	return made, nil
}

// joined is resizedAxes for an operand v of e, a cat.
func (w *walker) joined(e *core.Expr, v core.ValID) (map[int]resized, error) {
	dim := int(e.Args[1].Int)
	whole := w.f.Val(e.Out[0]).Domain.Logical[dim]
	made := resized{axis: whole}
	isBefore := true
	for _, u := range e.Args[0].Tensors {
		n, err := w.sizes(w.f.Axes(u)[dim : dim+1])
		if err != nil {
			return nil, err
		}
		made.extent += n[0]
		if isBefore = isBefore && u != v; isBefore {
			made.left += n[0]
		}
	}
	return map[int]resized{dim: made}, nil
}
