package passes

import (
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// productWithoutSum makes a product of matrices that sums over one element an
// elementwise one. A product with a bias stays: it is rounded after the bias.
func productWithoutSum(r *core.Rewriting, e *core.Expr, args []core.Arg) ([]core.ValID, error) {
	if e.Op != core.MatmulOp && e.Op != core.LinearOp {
		return nil, nil
	}
	a, b := args[0].Tensor, args[1].Tensor
	rows, columns := r.To.Axes(a), r.To.Axes(b)
	if len(rows) < 2 || len(columns) < 2 || e.Op == core.LinearOp && args[2].Kind != core.NoArg {
		return nil, nil
	}
	t := r.To.Val(a).DType
	exact, ok := productType(t)
	summed := columns[len(columns)-2]
	if e.Op == core.LinearOp {
		summed = columns[1]
	}
	if !ok || !isNew(r.To, rows[len(rows)-1]) || !isNew(r.To, summed) {
		return nil, nil
	}
	w := writer{r: r}
	if e.Op == core.LinearOp {
		b = w.apply(core.PermuteOp, core.TensorOf(b), core.IntsOf(1, 0))
	}
	out := w.apply(core.MulOp, core.TensorOf(w.cast(a, exact)), core.TensorOf(w.cast(b, exact)))
	if t.IsFloat() { // a sum begins with 0, and 0 + -0 is 0
		out = w.apply(core.AddOp, core.TensorOf(out), core.ScalarOf(r.To.Scalars().Value(scalar.Value{Type: dtype.Double})))
	}
	out = w.cast(out, t)
	return []core.ValID{out}, w.err
}

// productType is the type in which the product of two elements of type t is as
// exact as the accumulator of a sum: what underflows keeps its sign when 0 is
// added before it is rounded, and loses it after.
func productType(t dtype.Type) (dtype.Type, bool) {
	switch t {
	case dtype.Half: // 22 bits, and far from the ends of the exponent
		return dtype.Float, true
	case dtype.BFloat16, dtype.Float: // the exponent needs one bit more than that of Float
		return dtype.Double, true
	case dtype.Double, dtype.Int, dtype.Int32:
		return t, true
	}
	return t, false
}

// isNew reports whether a is a broadcast of one element that is not expanded.
func isNew(f *core.Fusion, a core.AxisID) bool {
	x := f.Axis(a)
	return x.Kind == core.Broadcast && x.Expanded == scalar.None
}

// A writer adds operations until one of them fails.
type writer struct {
	r   *core.Rewriting
	err error
}

func (w *writer) apply(op *core.OpInfo, args ...core.Arg) core.ValID {
	if w.err != nil {
		return core.NoVal
	}
	var v core.ValID
	v, w.err = w.r.Apply(op, args...)
	return v
}

// append adds an expression as it is.
func (w *writer) append(op *core.OpInfo, args ...core.Arg) core.ValID {
	if w.err != nil {
		return core.NoVal
	}
	out, err := w.r.To.Append(op, args)
	if w.err = err; err != nil {
		return core.NoVal
	}
	return out[0]
}

func (w *writer) cast(v core.ValID, t dtype.Type) core.ValID {
	if w.err != nil || w.r.To.Val(v).DType == t {
		return v
	}
	return w.apply(core.CastOp, core.TensorOf(v), core.DTypeOf(t))
}
