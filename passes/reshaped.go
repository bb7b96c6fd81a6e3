package passes

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// arithmeticBeforeReshapes lets what is computed of a reshape of something normalised be
// computed in the shape that it was normalised in, and reshaped then: a group norm by
// reshapes has its weights in the shape of the rows. No loops serve rows that are reduced
// and a shape in which they are joined with others, so the normalised elements would be
// stored for another kernel. The last reshape needs none, as the output lies as its operand. What is computed of a stack of
// a few elements is computed in its shape as well: steps have all that are stacked, each read in vectors with its neighbours.
func arithmeticBeforeReshapes(f *core.Fusion) (*core.Fusion, int, error) {
	isReshaped := reshapesOfNormalised(f)
	if len(isReshaped) == 0 {
		return f, 0, nil
	}
	return changed(f, core.Rewrite{Rule: func(r *core.Rewriting, e *core.Expr, args []core.Arg) ([]core.ValID, error) {
		if e.Op.Class != core.Elementwise || !isReshaped[e.Out[0]] {
			return nil, nil
		}
		var shape []scalar.ID
		for _, s := range r.From.Shape(e.Out[0]) {
			shape = append(shape, r.Scalar(s))
		}
		from := core.NoVal // what is reshaped
		for i, a := range args {
			if a.Kind == core.TensorArg && from == core.NoVal && isReshaped[e.Args[i].Tensor] && slices.Equal(r.To.Shape(a.Tensor), shape) {
				if before := r.Def(a.Tensor); before != nil && before.Op == core.ReshapeOp {
					from = before.Args[0].Tensor
				}
			}
		}
		if from == core.NoVal {
			return nil, nil
		}
		w := writer{r: r}
		own := slices.Clone(args)
		for i, a := range args {
			if a.Kind != core.TensorArg {
				continue
			}
			v := w.shapedLike(a.Tensor, shape, from)
			if v == core.NoVal || w.err != nil {
				return nil, w.err
			}
			own[i] = core.TensorOf(v)
		}
		out, err := r.To.Append(e.Op, own)
		if err != nil {
			return nil, err
		}
		return r.To.Append(core.ReshapeOp, []core.Arg{core.TensorOf(out[0]), core.ScalarsOf(shape...)})
	}})
}

// shapedLike returns v, an operand of something of a shape, with the sizes of u, or NoVal if
// it may be that v has one element where the shape has more, and maybe not.
func (w *writer) shapedLike(v core.ValID, shape []scalar.ID, u core.ValID) core.ValID {
	f := w.r.To
	like := f.Shape(u)
	if before := w.r.Def(v); before != nil && before.Op == core.ReshapeOp && slices.Equal(f.Shape(before.Args[0].Tensor), like) {
		return before.Args[0].Tensor
	}
	sizes := f.Shape(v)
	for d, a := range f.Axes(v) {
		if sizes[d] != shape[d] && !isNew(f, a) {
			return core.NoVal
		}
	}
	if !slices.Equal(sizes, shape) {
		v = w.append(core.ExpandOp, core.TensorOf(v), core.ScalarsOf(shape...))
	}
	return w.append(core.ReshapeOp, core.TensorOf(v), core.ScalarsOf(like...))
}

// mostStacked is how many elements are stacked at most for what is computed of them to be computed as they are: a step has all of them
// then.
const mostStacked = 4

// isStack reports whether e chooses among tensors of which each has one element for all along the last dimension, of which there are few.
func isStack(f *core.Fusion, e *core.Expr) bool {
	last := f.Rank(e.Out[0]) - 1
	if e.Op != core.WhereOp || last < 0 {
		return false
	}
	n, isConst := f.Scalars().ConstInt(f.Shape(e.Out[0])[last])
	isOne := func(v core.ValID) bool { return isNew(f, f.Axes(v)[last]) }
	args := f.TensorArgs(e)
	return isConst && n > 1 && n <= mostStacked && len(args) == 3 && !isOne(args[0]) && isOne(args[1]) && isOne(args[2])
}

// reshapesOfNormalised returns the tensors that are reshapes of what combines results of
// reductions with the elements that were reduced, or of what is stacked, and what is computed of those.
func reshapesOfNormalised(f *core.Fusion) map[core.ValID]bool {
	isReduced, isNormalised, isReshaped := map[core.ValID]bool{}, map[core.ValID]bool{}, map[core.ValID]bool{}
	for _, id := range f.Order() {
		e := f.Expr(id)
		v, args := e.Out[0], f.TensorArgs(e)
		some := func(of map[core.ValID]bool) bool {
			return slices.ContainsFunc(args, func(u core.ValID) bool { return of[u] })
		}
		mark := func(of map[core.ValID]bool) {
			for _, w := range e.Out {
				of[w] = true
			}
		}
		switch {
		case e.Op.Class == core.Reduction:
			mark(isReduced)
		case isStack(f, e):
			isNormalised[v] = true
		case e.Op == core.ReshapeOp && isNormalised[args[0]]:
			isReshaped[v] = true
		case e.Op.Class == core.View:
			if some(isReduced) {
				mark(isReduced)
			}
		case e.Op.Class != core.Elementwise || len(e.Out) > 1 || e.Op == core.SegmentSetOp:
		case some(isReshaped) && !some(isReduced): // else it is normalised in its new shape
			isReshaped[v] = true
		case some(isNormalised), some(isReduced) && slices.ContainsFunc(args, func(u core.ValID) bool { return !isReduced[u] }):
			isNormalised[v] = true
		case some(isReduced):
			isReduced[v] = true
		}
	}
	return isReshaped
}
