package space

import "nvfuser_go/core"

// A resized is the axis that a dimension of an input becomes where it is read: element i is
// at left + i there.
type resized struct {
	axis         core.AxisID
	left, extent int64
}

// resizedAxes returns what a slice, pad or cat makes of dimensions of an input. If others read
// it too it is opaque.
func (w *walker) resizedAxes(t *Tensor) (map[int]resized, error) {
	if t.IsOutput {
		return nil, nil
	}
	var of *core.Expr
	others := 0
	for _, id := range w.f.Order() {
		e := w.f.Expr(id)
		for _, v := range w.f.TensorArgs(e) {
			if v != t.Val {
				continue
			}
			if others++; e.Op.Class == core.Resize {
				of = e
			}
		}
	}
	if of == nil {
		return nil, nil
	}
	t.isOpaque = others > 1
	if of.Op == core.CatOp {
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
