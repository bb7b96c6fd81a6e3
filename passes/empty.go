package passes

import (
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// removeEmpty makes tensors known to have no element, and folds of nothing, from
// constants, and leaves operands without elements out of cat. Random operations
// stay, as they count, and so do segment_set and stride_order.
func removeEmpty(r *core.Rewriting, e *core.Expr, args []core.Arg) ([]core.ValID, error) {
	switch {
	case e.Op.Class == core.Random || e.Op.Class == core.Factory || e.Op == core.SegmentSetOp || e.Op == core.StrideOrderOp:
		return nil, nil
	case allEmpty(r, e):
		return fillAll(r, e, func(t dtype.Type) core.Arg { return zero(r.To, t) })
	case e.Op.Class == core.Reduction && e.Op.Identity != nil && sumsNothing(r.To, args[0].Tensor, args[1].Ints):
		return fillAll(r, e, func(t dtype.Type) core.Arg { return core.ScalarOf(r.To.Scalars().Value(e.Op.Identity(t))) })
	case e.Op == core.MatmulOp || e.Op == core.LinearOp && args[2].Kind == core.NoArg:
		if x := args[0].Tensor; sumsNothing(r.To, x, []int64{int64(r.To.Rank(x)) - 1}) {
			return fillAll(r, e, func(t dtype.Type) core.Arg { return zero(r.To, t) })
		}
	case e.Op == core.PadOp && isEmpty(r.To, args[0].Tensor):
		return fillAll(r, e, func(dtype.Type) core.Arg { return args[2] })
	case e.Op == core.CatOp:
		return catWithoutEmpty(r, args)
	}
	return nil, nil
}

func isZero(f *core.Fusion, s scalar.ID) bool {
	n, ok := f.Scalars().ConstInt(s)
	return ok && n == 0
}

// isEmpty reports whether v is known to have no elements.
func isEmpty(f *core.Fusion, v core.ValID) bool {
	for _, a := range f.Axes(v) {
		if isZero(f, f.Size(a)) {
			return true
		}
	}
	return false
}

// sumsNothing reports whether a dimension among dims of v is known to have size 0.
func sumsNothing(f *core.Fusion, v core.ValID, dims []int64) bool {
	axes := f.Axes(v)
	for _, d := range dims {
		if isZero(f, f.Size(axes[d])) {
			return true
		}
	}
	return false
}

// allEmpty reports whether no result of e has elements.
func allEmpty(r *core.Rewriting, e *core.Expr) bool {
	for _, v := range e.Out {
		empty := false
		for _, a := range r.From.Axes(v) {
			empty = empty || isZero(r.To, r.Scalar(r.From.Size(a)))
		}
		if !empty {
			return false
		}
	}
	return true
}

// fillAll makes the results of e of one number each.
func fillAll(r *core.Rewriting, e *core.Expr, number func(dtype.Type) core.Arg) ([]core.ValID, error) {
	out := make([]core.ValID, len(e.Out))
	for k, v := range e.Out {
		t := r.From.Val(v).DType
		if !t.Computes() {
			return nil, nil
		}
		var shape []scalar.ID
		for _, a := range r.From.Axes(v) {
			shape = append(shape, r.Scalar(r.From.Size(a)))
		}
		full, err := r.To.Append(core.FullOp, []core.Arg{core.ScalarsOf(shape...), number(t), core.DTypeOf(t)})
		if err != nil {
			return nil, err
		}
		out[k] = full[0]
	}
	return out, nil
}

// zero is the number 0 for elements of type t.
func zero(f *core.Fusion, t dtype.Type) core.Arg {
	literal := dtype.Double
	switch {
	case t.IsComplex():
		literal = dtype.ComplexDouble
	case !t.IsFloat():
		literal = t
	}
	return core.ScalarOf(f.Scalars().Value(scalar.Value{Type: literal}))
}

func catWithoutEmpty(r *core.Rewriting, args []core.Arg) ([]core.ValID, error) {
	var rest []core.ValID
	for _, v := range args[0].Tensors {
		if !isZero(r.To, r.To.Shape(v)[args[1].Int]) {
			rest = append(rest, v)
		}
	}
	switch len(rest) {
	case len(args[0].Tensors), 0:
		return nil, nil
	case 1:
		return rest, nil
	}
	return r.To.Append(core.CatOp, []core.Arg{core.TensorsOf(rest...), args[1], args[2]})
}
