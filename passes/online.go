package passes

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// sumOfExponentials makes one reduction of the largest element of a row and the
// sum of exp(x - largest), which softmax and the logarithm of a sum of exponentials
// begin with: no reduction then waits for another one. Who needs exponentials
// computes them from the largest element as before, so that a softmax keeps its
// operand alone between its reduction and its result; what divides one by their sum
// becomes one operation.
func sumOfExponentials(f *core.Fusion) (*core.Fusion, int, error) {
	sums, largest := map[core.ValID]core.ValID{}, map[core.ValID]core.Arg{} // by the results of sum() and max()
	for _, id := range f.Order() {
		e := f.Expr(id)
		if x, m, ok := exponentials(f, e); ok {
			sums[e.Out[0]], largest[m] = m, core.TensorOf(x)
		}
	}
	if len(sums) == 0 {
		return f, 0, nil
	}
	made := map[core.ValID]core.ValID{} // sums of exponentials in the new fusion, by the largest element in f
	return changed(f, core.Rewrite{Rule: func(r *core.Rewriting, e *core.Expr, args []core.Arg) ([]core.ValID, error) {
		if _, ok := largest[e.Out[0]]; ok {
			w := writer{r: r}
			t := r.To.Val(args[0].Tensor).DType
			x := w.cast(args[0].Tensor, wideType(t))
			if w.err != nil {
				return nil, w.err
			}
			out, err := r.To.Append(core.MaxExpSumOp, []core.Arg{core.TensorOf(x), args[1]})
			if err != nil {
				return nil, err
			}
			made[e.Out[0]] = out[1]
			return []core.ValID{w.cast(out[0], t)}, w.err
		}
		if m, ok := sums[e.Out[0]]; ok {
			return []core.ValID{made[m]}, nil
		}
		if isShare(f, e, sums) {
			exp := r.To.Expr(r.To.Val(args[0].Tensor).Def)
			return r.To.Append(core.ExpShareOp, []core.Arg{exp.Args[0], args[1]})
		}
		return nil, nil
	}})
}

// wideType is the type that sums of exponentials of elements of type t have.
func wideType(t dtype.Type) dtype.Type {
	if t == dtype.Double {
		return t
	}
	return dtype.Float
}

// exponentials reports whether e is the sum of exp(x - m) where m is the maximum of x
// along the same dimensions, and returns x and m.
func exponentials(f *core.Fusion, e *core.Expr) (x, m core.ValID, ok bool) {
	if e.Op != core.SumOp {
		return
	}
	x, m, dims := exponential(f, e.Args[0])
	return x, m, dims != nil && slices.Equal(dims, e.Args[1].Ints)
}

// isShare reports whether e divides exp(x - m) by the sum of such, of which sums has
// the maxima.
func isShare(f *core.Fusion, e *core.Expr, sums map[core.ValID]core.ValID) bool {
	if e.Op != core.TrueDivOp && e.Op != core.DivOp {
		return false
	}
	_, m, dims := exponential(f, e.Args[0])
	by := f.DefinedBy(e.Args[1], core.BroadcastOp)
	if dims == nil || by == nil || !broadcasts(by, dims) {
		return false
	}
	of, ok := sums[by.Args[0].Tensor]
	return ok && of == m
}

// exponential reports whether a is exp(x - m) where m is the maximum of x along
// dims, which are nil if not. Casts of both to the type that is computed in lose
// nothing, and may stand anywhere between.
func exponential(f *core.Fusion, a core.Arg) (x, m core.ValID, dims []int64) {
	exp := f.DefinedBy(a, core.ExpOp)
	if exp == nil {
		return
	}
	sub := f.DefinedBy(exp.Args[0], core.SubOp)
	if sub == nil || sub.Args[0].Kind != core.TensorArg || sub.Args[1].Kind != core.TensorArg {
		return
	}
	t := f.Val(sub.Out[0]).DType
	if t != dtype.Float && t != dtype.Double {
		return
	}
	broadcast := f.DefinedBy(core.TensorOf(uncast(f, sub.Args[1].Tensor, t)), core.BroadcastOp)
	if broadcast == nil {
		return
	}
	m = uncast(f, broadcast.Args[0].Tensor, t)
	largest := f.DefinedBy(core.TensorOf(m), core.MaxOp)
	if largest == nil || !broadcasts(broadcast, largest.Args[1].Ints) {
		return
	}
	x = largest.Args[0].Tensor
	if uncast(f, sub.Args[0].Tensor, t) == uncast(f, x, t) {
		dims = largest.Args[1].Ints
	}
	return
}

// broadcasts reports whether the dimensions that e adds are dims.
func broadcasts(e *core.Expr, dims []int64) bool {
	for d, isNew := range e.Args[1].Ints {
		if (isNew != 0) != slices.Contains(dims, int64(d)) {
			return false
		}
	}
	return true
}

// uncast returns what v, of type t, is cast from, if that is of 16 bits: its maximum
// is that of v.
func uncast(f *core.Fusion, v core.ValID, t dtype.Type) core.ValID {
	e := f.DefinedBy(core.TensorOf(v), core.CastOp)
	if e == nil || t != dtype.Float || f.Val(v).DType != t {
		return v
	}
	if from := f.Val(e.Args[0].Tensor).DType; from != dtype.Half && from != dtype.BFloat16 {
		return v
	}
	return e.Args[0].Tensor
}
