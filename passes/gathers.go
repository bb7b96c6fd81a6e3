package passes

import (
	"slices"

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
// memory to what is read is elementwise, or the same along the line. Of several positions a line,
// such as the rows of a table that an embedding lists, it is done if what is
// computed need not be stored: the rows of a table that is scaled, or cast, or has a scale for each row. An
// index that is no position reads 0, whatever is computed from zeros.
func gathersBeforeArithmetic(f *core.Fusion) (*core.Fusion, int, error) {
	c := sizeClasses(f)
	if !has(f, []*core.OpInfo{core.GatherOp, core.TakeAlongAxisOp, core.IndexSelectOp}) {
		return f, 0, nil
	}
	inAnyCase := stored(f)
	chosen := map[core.ValID]bool{} // results of gathers
	for _, id := range f.Order() {
		if e := f.Expr(id); e.Op == core.GatherOp || e.Op == core.TakeAlongAxisOp || e.Op == core.IndexSelectOp {
			v := e.Args[0].Tensor
			g := gathered{f: f, classes: c, index: e.Args[1].Tensor, dim: int(e.Args[2].Int), left: maxGathered}
			g.many = !g.onePosition()
			chosen[e.Out[0]] = !inMemory(f, v) && (!g.many || e.Op != core.GatherOp && !inAnyCase[unbroadcast(f, v)]) && g.computable(v, g.dim) && g.inputs > 0
		}
	}
	return changed(f, core.Rewrite{Rule: func(r *core.Rewriting, e *core.Expr, args []core.Arg) ([]core.ValID, error) {
		if !chosen[e.Out[0]] {
			return nil, nil
		}
		w := writer{r: r}
		dim := args[2].Int
		size := r.To.Shape(args[0].Tensor)[dim]
		if n, ok := r.To.Scalars().ConstInt(r.To.Shape(args[1].Tensor)[dim]); !ok || n != 1 {
			l := looking{&w, e.Op, args[1:]}
			out, zero := l.up(args[0].Tensor, int(dim), func(v core.ValID) core.ValID { return v })
			if !zero {
				out = w.whereIn(args[1].Tensor, size, out)
			}
			return []core.ValID{out}, w.err
		}
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
	many    bool // positions a line
	left    int  // operations that may still be met
	inputs  int  // that are read along dim
}

// onePosition reports whether the index has one element along dim.
func (g *gathered) onePosition() bool {
	n, ok := g.f.Scalars().ConstInt(g.f.Shape(g.index)[g.dim])
	return ok && n == 1
}

// computable reports whether elements of v, with dim as its dimension that is read along, can be
// computed from elements of what is in memory, at the same places.
func (g *gathered) computable(v core.ValID, dim int) bool {
	switch {
	case !g.many && !g.covered(v):
		return false
	case alongLine(g.f, v, dim):
		return true
	case inMemory(g.f, v):
		g.inputs++
		return !g.many || keepsRows(g.f, v)
	case g.f.Val(v).Input:
		return false
	}
	e := g.f.Expr(g.f.Val(v).Def)
	if g.many && e.Op == core.BroadcastOp {
		return g.computable(e.Args[0].Tensor, dimBefore(e, dim))
	}
	if g.left--; e.Op.Class != core.Elementwise || len(e.Out) != 1 || g.left < 0 {
		return false
	}
	for _, a := range e.Args {
		if a.Kind == core.TensorArg && !g.computable(a.Tensor, dim) {
			return false
		}
	}
	return true
}

// dimBefore returns the dimension of the operand of e, a broadcast, that dimension dim of its result is.
func dimBefore(e *core.Expr, dim int) int {
	before := dim
	for _, flag := range e.Args[1].Ints[:dim] {
		before -= int(flag)
	}
	return before
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

// inMemory reports whether v is an input, or a part of one or the same in another order, which
// kernels read where it is.
func inMemory(f *core.Fusion, v core.ValID) bool {
	for !f.Val(v).Input {
		e := f.Expr(f.Val(v).Def)
		if e.Op != core.SliceOp && e.Op != core.PermuteOp && e.Op != core.SqueezeOp && e.Op != core.BroadcastOp {
			return false
		}
		v = e.Args[0].Tensor
	}
	return f.Val(v).Tensor
}

// keepsRows reports whether v, which is in memory, has its innermost dimension from there: single
// elements of another order are better put in order all at once.
func keepsRows(f *core.Fusion, v core.ValID) bool {
	for ; !f.Val(v).Input; v = f.Expr(f.Val(v).Def).Args[0].Tensor {
		e := f.Expr(f.Val(v).Def)
		if e.Op == core.PermuteOp && e.Args[1].Ints[len(e.Args[1].Ints)-1] != int64(len(e.Args[1].Ints)-1) {
			return false
		}
	}
	return true
}

// stored returns the tensors, by value, that are in memory in any case: outputs, and what torch reads, as they are or with
// dimensions added.
func stored(f *core.Fusion) []bool {
	all := make([]bool, f.NumVals())
	for _, o := range f.Outputs() {
		all[o.Val] = true
	}
	for _, id := range slices.Backward(f.Order()) {
		e := f.Expr(id)
		for _, v := range f.TensorArgs(e) {
			all[v] = all[v] || isStored(e.Op) || e.Op == core.BroadcastOp && all[e.Out[0]]
		}
	}
	return all
}

// unbroadcast returns what v is made from by broadcasts.
func unbroadcast(f *core.Fusion, v core.ValID) core.ValID {
	for d := f.Val(v).Def; d != core.NoExpr && f.Expr(d).Op == core.BroadcastOp; d = f.Val(v).Def {
		v = f.Expr(d).Args[0].Tensor
	}
	return v
}

// A looking writes what is read at several positions a line.
type looking struct {
	*writer
	op *core.OpInfo
	at []core.Arg // index and dimension
}

// up returns the elements of wrap(v) at the index, where wrap is broadcasts that make the dimension dim of v that of the operation,
// and whether they are zeros where the index is no position.
func (l looking) up(v core.ValID, dim int, wrap func(core.ValID) core.ValID) (core.ValID, bool) {
	f := l.r.To
	switch {
	case l.err != nil:
		return core.NoVal, false
	case alongLine(f, v, dim):
		return wrap(v), false
	case inMemory(f, v):
		return l.apply(l.op, core.TensorOf(wrap(v)), l.at[0], l.at[1]), true
	}
	e := l.r.Def(v)
	if e.Op == core.BroadcastOp {
		return l.up(e.Args[0].Tensor, dimBefore(e, dim), func(u core.ValID) core.ValID {
			return wrap(l.apply(core.BroadcastOp, core.TensorOf(u), e.Args[1]))
		})
	}
	args, zero := make([]core.Arg, len(e.Args)), e.Op == core.CastOp
	for i, a := range e.Args {
		if args[i] = a; a.Kind == core.TensorArg {
			u, z := l.up(a.Tensor, dim, wrap)
			args[i], zero = core.TensorOf(u), zero && z
		}
	}
	return l.append(e.Op, args...), zero
}

// gather returns the elements of v, a tensor of the new fusion, at the index, without
// the dimension that they are gathered along, and whether they are zeros where the index
// is no position. In loops without that dimension nothing is taken for a part of a line.
func (w *writer) gather(v core.ValID, at []core.Arg) (core.ValID, bool) {
	f := w.r.To
	if w.err != nil || alongLine(f, v, int(at[1].Int)) {
		return w.squeeze(v, at[1].Int), false
	}
	e := w.r.Def(v)
	if inMemory(f, v) {
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
	return w.cast(w.apply(core.WhereOp, core.TensorOf(inside), core.TensorOf(v), zero), t) // which is wider than 16 bits
}
