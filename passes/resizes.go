package passes

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// resizesBeforeArithmetic has slices, pads and joins read what is in memory, not what is
// computed: a slice of a sum becomes the sum of slices. Loops do not follow through a
// resize, so what it reads would be stored for it, and read again.
//
// A slice goes before anything that computes each element from those at its place. So does
// a pad, whose value is then chosen where the operand has no element; and a join is the
// choice between pads of what it joins, if something of that is computed.
//
// What other operations need whole is computed again for a resize if that is cheap: from
// one tensor of its size, or two if it is not stored anyway. What comes of reductions is there for a
// part as for the whole: a rotary embedding of 4 x 4096 x 32 x 128 bfloat16 that are
// normalised takes 91 / 88 us on an H200, and took 198 / 196 with the norm stored.
func resizesBeforeArithmetic(f *core.Fusion) (*core.Fusion, int, error) {
	if !has(f, []*core.OpInfo{core.SliceOp, core.PadOp, core.CatOp}) {
		return f, 0, nil
	}
	s := &sinking{from: f, computable: computableResized(f), stands: map[core.ValID]core.ValID{}}
	return changed(f, core.Rewrite{Rule: func(r *core.Rewriting, e *core.Expr, args []core.Arg) ([]core.ValID, error) {
		s.writer.r = r
		for i, a := range args {
			if a.Kind == core.TensorArg {
				s.stands[a.Tensor] = e.Args[i].Tensor
			}
			for k, v := range a.Tensors {
				s.stands[v] = e.Args[i].Tensors[k]
			}
		}
		if e.Op.Class != core.Resize {
			return nil, nil
		}
		before := r.To.NumExprs()
		var v core.ValID
		s.left = maxSunk
		switch e.Op {
		case core.SliceOp:
			v = s.slice(args[0].Tensor, args[1].Scalars, args[2].Scalars)
		case core.PadOp:
			v = s.pad(args[0].Tensor, args[1].Scalars, args[2].Scalar)
		case core.CatOp:
			v = s.cat(args[0].Tensors, int(args[1].Int))
		}
		if n := r.To.NumExprs() - before; s.err != nil || v == core.NoVal || n == 1 && r.Def(v).Op == e.Op {
			return nil, s.err // as it was
		}
		return []core.ValID{v}, nil
	}})
}

const (
	maxSunk  = 48 // operations that one resize goes before
	maxAgain = 8  // that are computed again where the whole is needed too
)

// computableResized returns the tensors of which a part is better computed than read, by
// value: those that resizes alone read, through operations that keep places, and what is
// cheap.
func computableResized(f *core.Fusion) []bool {
	whole := make([]bool, f.NumVals()) // read by something that needs all of it
	for _, o := range f.Outputs() {
		whole[o.Val] = true
	}
	computable := make([]bool, f.NumVals())
	for _, id := range slices.Backward(f.Order()) {
		e := f.Expr(id)
		out := e.Out[0]
		keeps := keepsPlaces(e)
		needsWhole := e.Op.Class != core.Resize && (!keeps || whole[out])
		for _, v := range f.TensorArgs(e) {
			whole[v] = whole[v] || needsWhole
		}
	}
	ofRows := make([]bool, f.NumVals())
	for _, id := range f.Order() {
		e := f.Expr(id)
		out := e.Out[0]
		isOf := e.Op.Class == core.Reduction || slices.ContainsFunc(f.TensorArgs(e), func(v core.ValID) bool { return ofRows[v] })
		for _, v := range e.Out {
			ofRows[v] = isOf
		}
		if computable[out] = keepsPlaces(e); computable[out] && whole[out] {
			isOutput := slices.ContainsFunc(f.Outputs(), func(o core.Output) bool { return o.Val == out })
			c := again{f: f, like: out, ofRows: ofRows, left: maxAgain, views: 2 * maxAgain}
			computable[out] = c.follow(out) && (len(c.read) <= 1 || len(c.read) == 2 && !isOutput)
		}
	}
	return computable
}

// keepsPlaces reports whether each element of the result of e is computed from those of
// the operands that are at its place, in some order of dimensions.
func keepsPlaces(e *core.Expr) bool {
	switch e.Op {
	case core.SegmentSetOp:
		return false
	case core.BroadcastOp, core.PermuteOp, core.SqueezeOp, core.ExpandOp, core.FullOp, core.IotaOp:
		return true
	}
	return e.Op.Class == core.Elementwise && len(e.Out) == 1
}

// again looks at what computes a tensor.
type again struct {
	f      *core.Fusion
	like   core.ValID
	ofRows []bool       // what comes of reductions: of fewer dimensions, it is there for a part as for the whole
	left   int          // operations that may still be met
	views  int          // which cost nothing
	read   []core.ValID // what is not computed and has as many dimensions
}

func (c *again) follow(v core.ValID) bool {
	d := c.f.Val(v).Def
	if d == core.NoExpr || !keepsPlaces(c.f.Expr(d)) {
		if c.dimensions(v) >= c.dimensions(c.like) && !slices.Contains(c.read, v) {
			c.read = append(c.read, v)
		}
		return true
	}
	if c.ofRows[v] && c.dimensions(v) < c.dimensions(c.like) {
		return true
	}
	left := &c.left
	if c.f.Expr(d).Op.Class == core.View {
		left = &c.views
	}
	if *left--; *left < 0 {
		return false
	}
	for _, u := range c.f.TensorArgs(c.f.Expr(d)) {
		if !c.follow(u) {
			return false
		}
	}
	return true
}

func (c *again) dimensions(v core.ValID) (n int) {
	for _, a := range c.f.Axes(v) {
		if !isNew(c.f, a) {
			n++
		}
	}
	return n
}

// A sinking writes resizes of what others were made from.
type sinking struct {
	writer
	from       *core.Fusion
	computable []bool                    // by value of from
	stands     map[core.ValID]core.ValID // the tensor of from that one of the new fusion stands for
	left       int                       // operations that may still be met
	leaves     *[]leaf                   // takes what is padded, if it is not nil
	joined     []leaf                    // of the part of a join that is widened
}

// def returns the expression that computes v if a part of it is to be computed, else nil.
func (s *sinking) def(v core.ValID) *core.Expr {
	e := s.r.Def(v)
	if of, ok := s.stands[v]; e == nil || ok && s.from.Val(of).Def != core.NoExpr && !s.computable[of] && keepsPlaces(s.from.Expr(s.from.Val(of).Def)) {
		return nil
	}
	if s.left--; s.left < 0 {
		return nil
	}
	return e
}

// isOne reports whether v has one element along dimension d that stands for all.
func (s *sinking) isOne(v core.ValID, d int) bool {
	n, ok := s.r.To.Scalars().ConstInt(s.r.To.Shape(v)[d])
	return ok && n == 1 && isNew(s.r.To, s.r.To.Axes(v)[d])
}

// mayBeOne reports whether it is not known of operand u of e if one element along
// dimension d stands for all along dimension k of the result.
func (s *sinking) mayBeOne(e *core.Expr, u core.ValID, d, k int) bool {
	f := s.r.To
	switch {
	case s.isOne(u, d):
		return false
	case e.Op == core.ExpandOp: // the size of the result may be said to be that of the operand
		return f.Shape(u)[d] != e.Args[1].Scalars[k]
	}
	return f.Axis(f.Axes(u)[d]).Kind == core.Symbolic && f.Shape(u)[d] != f.Shape(e.Out[0])[k]
}

// slice returns the elements of v from start to end.
func (s *sinking) slice(v core.ValID, start, end []scalar.ID) core.ValID {
	if s.err != nil {
		return core.NoVal
	}
	f := s.r.To
	if allZero(f, start) && slices.Equal(end, f.Shape(v)) {
		return v
	}
	if e := s.def(v); e != nil {
		if u := s.sliceOf(e, start, end); u != core.NoVal || s.err != nil {
			return u
		}
	}
	return s.writer.slice(v, start, end)
}

// slice writes a slice of neighbouring elements, from start to end.
func (w *writer) slice(v core.ValID, start, end []scalar.ID) core.ValID {
	strides := slices.Repeat([]scalar.ID{w.r.To.Scalars().Int(1)}, len(start))
	return w.append(core.SliceOp, core.TensorOf(v), core.ScalarsOf(start...), core.ScalarsOf(end...), core.ScalarsOf(strides...), core.BoolOf(true))
}

// sliceOf returns the elements of the result of e from start to end, or NoVal if they are no
// elements of its operands.
func (s *sinking) sliceOf(e *core.Expr, start, end []scalar.ID) core.ValID {
	f, t := s.r.To, s.r.To.Scalars()
	switch e.Op {
	case core.SliceOp:
		from, to := slices.Clone(e.Args[1].Scalars), slices.Clone(e.Args[1].Scalars)
		for d := range from {
			from[d], to[d] = t.Add(from[d], start[d]), t.Add(to[d], end[d])
		}
		return s.slice(e.Args[0].Tensor, from, to)
	case core.PadOp:
		return s.sliceOfPad(e, start, end)
	case core.CatOp:
		return s.sliceOfCat(e, start, end)
	case core.IotaOp:
		return s.sliceOfIota(e, start[0], end[0])
	case core.FullOp:
		return s.append(e.Op, core.ScalarsOf(lengths(t, start, end)...), e.Args[1], e.Args[2])
	}
	if !keepsPlaces(e) {
		return core.NoVal
	}
	for d := range start {
		if s.isOne(e.Out[0], d) && (!isZero(f, start[d]) || end[d] != f.Shape(e.Out[0])[d]) {
			return core.NoVal // of the one element nothing is left, and operands that have one keep it
		}
	}
	return s.part(e, func(u core.ValID, axis []int) core.ValID {
		from, to := make([]scalar.ID, len(axis)), f.Shape(u)
		for d, k := range axis {
			if from[d] = t.Int(0); k >= 0 && !s.isOne(u, d) {
				from[d], to[d] = start[k], end[k]
			}
		}
		return s.slice(u, from, to)
	}, start, end)
}

func lengths(t *scalar.Table, start, end []scalar.ID) []scalar.ID {
	sizes := make([]scalar.ID, len(start))
	for d := range start {
		sizes[d] = t.Sub(end[d], start[d])
	}
	return sizes
}

// part returns e, which keeps places, of parts of its operands, or NoVal if dimensions that
// it brings are cut. of returns the part of an operand whose dimensions are those of the
// result that axis says, or -1. From start to end is the part of the result.
func (s *sinking) part(e *core.Expr, of func(u core.ValID, axis []int) core.ValID, start, end []scalar.ID) core.ValID {
	f := s.r.To
	args, size := slices.Clone(e.Args), f.Shape(e.Out[0])
	isCut := func(d int) bool { return !isZero(f, start[d]) || end[d] != size[d] }
	switch e.Op {
	case core.BroadcastOp:
		for d, flag := range e.Args[1].Ints {
			if flag != 0 && isCut(d) {
				return core.NoVal
			}
		}
	case core.ExpandOp:
		shape := slices.Clone(args[1].Scalars)
		for d := range shape {
			if isCut(d) {
				shape[d] = f.Scalars().Sub(end[d], start[d])
			}
		}
		args[1] = core.ScalarsOf(shape...)
	}
	k := 0
	for i, a := range args {
		if a.Kind != core.TensorArg {
			continue
		}
		axis := s.axesOf(e, k)
		k++
		for d, at := range axis {
			if at >= 0 && s.mayBeOne(e, a.Tensor, d, at) {
				return core.NoVal
			}
		}
		if args[i] = core.TensorOf(of(a.Tensor, axis)); s.err != nil || args[i].Tensor == core.NoVal {
			return core.NoVal
		}
	}
	return s.append(e.Op, args...)
}

// axesOf returns, for each dimension of tensor argument k of e, that of the result which runs
// along it, or -1.
func (s *sinking) axesOf(e *core.Expr, k int) []int {
	f := s.r.To
	axis := make([]int, f.Rank(f.TensorArgs(e)[k]))
	for d := range axis {
		axis[d] = -1
	}
	var to []int
	if e.Op.AxisMap != nil {
		to = e.Op.AxisMap(f, e, k, 0)
	}
	for d := range f.Rank(e.Out[0]) {
		at := d
		if to != nil {
			at = to[d]
		}
		if at >= 0 && at < len(axis) {
			axis[at] = d
		}
	}
	return axis
}

// sliceOfPad cuts what a pad adds, or what it is added to.
func (s *sinking) sliceOfPad(e *core.Expr, start, end []scalar.ID) core.ValID {
	f, t := s.r.To, s.r.To.Scalars()
	widths, size := slices.Clone(e.Args[1].Scalars), f.Shape(e.Out[0])
	for d := range start {
		k := 2 * (len(start) - 1 - d)
		widths[k], widths[k+1] = t.Sub(widths[k], start[d]), t.Add(widths[k+1], t.Sub(end[d], size[d]))
	}
	return s.pad(e.Args[0].Tensor, widths, e.Args[2].Scalar)
}

// sliceOfCat joins parts of what is joined.
func (s *sinking) sliceOfCat(e *core.Expr, start, end []scalar.ID) core.ValID {
	f, t, dim := s.r.To, s.r.To.Scalars(), int(e.Args[1].Int)
	var parts []core.ValID
	first, isFirst := t.Int(0), true
	for _, v := range e.Args[0].Tensors {
		from, to := slices.Clone(start), slices.Clone(end)
		n := f.Shape(v)[dim]
		if isFirst && start[dim] == t.Int(0) && end[dim] == f.Shape(e.Out[0])[dim] { // of other dimensions
			from[dim], to[dim] = t.Int(0), n
		} else {
			a, isConst := s.numbers(start[dim], end[dim], first, n)
			if !isConst {
				return core.NoVal
			}
			lo, hi := max(a[0]-a[2], 0), min(a[1]-a[2], a[3])
			first = t.Add(first, n)
			if lo >= hi {
				continue
			}
			from[dim], to[dim] = t.Int(lo), t.Int(hi)
		}
		if v = s.slice(v, from, to); s.err != nil {
			return core.NoVal
		}
		parts = append(parts, v)
	}
	switch len(parts) {
	case 0:
		return core.NoVal
	case 1:
		return parts[0]
	}
	return s.append(core.CatOp, core.TensorsOf(parts...), e.Args[1], e.Args[2])
}

// numbers returns the values of constants.
func (s *sinking) numbers(of ...scalar.ID) (values []int64, all bool) {
	for _, x := range of {
		n, ok := s.r.To.Scalars().ConstInt(x)
		if !ok {
			return nil, false
		}
		values = append(values, n)
	}
	return values, true
}

// sliceOfIota is for whole numbers: sums of others would be rounded otherwise.
func (s *sinking) sliceOfIota(e *core.Expr, start, end scalar.ID) core.ValID {
	t := s.r.To.Scalars()
	from, ok1 := t.ConstInt(e.Args[1].Scalar)
	step, ok2 := t.ConstInt(e.Args[2].Scalar)
	if !e.Args[3].DType().IsInt() || !ok1 || !ok2 || from != 0 || step != 1 {
		return core.NoVal
	}
	return s.append(e.Op, core.ScalarOf(t.Sub(end, start)), core.ScalarOf(start), e.Args[2], e.Args[3])
}
