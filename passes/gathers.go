package passes

import (
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// gathersBeforeArithmetic lets the few elements be computed that a gather reads,
// from those elements of the inputs: the logarithm of one probability is that of one
// logit less two numbers of its row. Before, the whole tensor would be stored for the
// gather, whose reads no loop follows.
//
// It is done where an index is one position for each line, and all that leads from
// inputs to what is read is elementwise, or the same along the line. An index that is
// no position reads 0, whatever is computed from zeros.
func gathersBeforeArithmetic(f *core.Fusion) (*core.Fusion, int, error) {
	c := sizeClasses(f)
	chosen := map[core.ValID]bool{} // results of gathers
	for _, id := range f.Order() {
		if e := f.Expr(id); e.Op == core.GatherOp || e.Op == core.TakeAlongAxisOp || e.Op == core.IndexSelectOp {
			g := gathered{f: f, classes: c, index: e.Args[1].Tensor, dim: int(e.Args[2].Int), left: maxGathered}
			chosen[e.Out[0]] = !f.Val(e.Args[0].Tensor).Input && g.onePosition() && g.computable(e.Args[0].Tensor) && g.inputs > 0
		}
	}
	return changed(f, core.Rewrite{Rule: func(r *core.Rewriting, e *core.Expr, args []core.Arg) ([]core.ValID, error) {
		if !chosen[e.Out[0]] {
			return nil, nil
		}
		w := writer{r: r}
		dim := args[2].Int
		size := r.To.Shape(args[0].Tensor)[dim]
		out, zero := w.gather(args[0].Tensor, args[1:])
		if !zero {
			out = w.whereIn(w.squeeze(args[1].Tensor, dim), size, out)
		}
		flags := make([]bool, len(r.To.Axes(args[0].Tensor)))
		flags[dim] = true
		return []core.ValID{w.apply(core.BroadcastOp, core.TensorOf(out), core.BoolsOf(flags...))}, w.err
	}})
}

// maxGathered is the number of operations that are repeated for what is gathered.
const maxGathered = 16

// gathered looks at what leads to an operand that is gathered.
type gathered struct {
	f       *core.Fusion
	classes *classes
	index   core.ValID
	dim     int
	left    int // operations that may still be met
	inputs  int // that are read along dim
}

// onePosition reports whether the index has one element along dim.
func (g *gathered) onePosition() bool {
	n, ok := g.f.Scalars().ConstInt(g.f.Shape(g.index)[g.dim])
	return ok && n == 1
}

// computable reports whether elements of v can be computed from elements of inputs
// at the same places.
func (g *gathered) computable(v core.ValID) bool {
	if !g.covered(v) {
		return false
	}
	if alongLine(g.f, v, g.dim) {
		return true
	}
	if g.f.Val(v).Input {
		g.inputs++
		return true
	}
	e := g.f.Expr(g.f.Val(v).Def)
	if g.left--; e.Op.Class != core.Elementwise || len(e.Out) != 1 || g.left < 0 {
		return false
	}
	for _, a := range e.Args {
		if a.Kind == core.TensorArg && !g.computable(a.Tensor) {
			return false
		}
	}
	return true
}

// covered reports whether v has one element, or as many as the index, in dimensions
// other than dim: a gather reads the first ones of more.
func (g *gathered) covered(v core.ValID) bool {
	sizes, of := g.f.Shape(v), g.f.Shape(g.index)
	for d, s := range sizes {
		one := isNew(g.f, g.f.Axes(v)[d]) || isNew(g.f, g.f.Axes(g.index)[d])
		if d != g.dim && !one && g.classes.find(s) != g.classes.find(of[d]) {
			return false
		}
	}
	return true
}

// alongLine reports whether v has one element along dim, which stands for all.
func alongLine(f *core.Fusion, v core.ValID, dim int) bool { return isNew(f, f.Axes(v)[dim]) }

// gather returns the elements of v, a tensor of the new fusion, at the index, without
// the dimension that they are gathered along, and whether they are zeros where the index
// is no position. In loops without that dimension nothing is taken for a part of a line.
func (w *writer) gather(v core.ValID, at []core.Arg) (core.ValID, bool) {
	f := w.r.To
	if w.err != nil || alongLine(f, v, int(at[1].Int)) {
		return w.squeeze(v, at[1].Int), false
	}
	e := w.r.Def(v)
	if e == nil {
		return w.squeeze(w.apply(core.TakeAlongAxisOp, core.TensorOf(v), at[0], at[1]), at[1].Int), true
	}
	args, zero := make([]core.Arg, len(e.Args)), e.Op == core.CastOp
	for i, a := range e.Args {
		if args[i] = a; a.Kind == core.TensorArg {
			u, z := w.gather(a.Tensor, at)
			args[i], zero = core.TensorOf(u), zero && z
		}
	}
	if w.err != nil {
		return core.NoVal, false
	}
	out, err := f.Append(e.Op, args)
	if w.err = err; err != nil {
		return core.NoVal, false
	}
	return out[0], zero
}

func (w *writer) squeeze(v core.ValID, dim int64) core.ValID {
	return w.apply(core.SqueezeOp, core.TensorOf(v), core.IntsOf(dim))
}

// whereIn returns v where the index is a position of a dimension of a size, and else 0.
func (w *writer) whereIn(index core.ValID, size scalar.ID, v core.ValID) core.ValID {
	if w.err != nil {
		return v
	}
	s, t := w.r.To.Scalars(), w.r.To.Val(v).DType
	zero := core.ScalarOf(s.Value(core.ConvertScalar(t, scalar.Value{Type: dtype.Int})))
	from := w.apply(core.GeOp, core.TensorOf(index), core.ScalarOf(s.Int(0)))
	below := w.apply(core.LtOp, core.TensorOf(index), core.ScalarOf(size))
	inside := w.apply(core.LogicalAndOp, core.TensorOf(from), core.TensorOf(below))
	return w.apply(core.WhereOp, core.TensorOf(inside), core.TensorOf(v), zero)
}
