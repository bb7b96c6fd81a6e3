package segmenter

import (
	"cmp"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/schedulers/scheduler"
)

// Lies returns the strides of what s, a view, writes, and at which element of what it
// reads it begins, from the strides of that. sizes and to are the sizes of the two;
// scalars are those of a binding of the fusion of s.
func (s *Segment) Lies(scalars *core.Binding, sizes, strides, to []int64) (viewed []int64, first int64, err error) {
	e := s.Fusion.Expr(s.Fusion.Order()[0])
	viewed, first, ok, err := Lies(e, scalars, sizes, strides, to)
	if err == nil && !ok {
		panic("segmenter: " + s.Fusion.String() + " is no view of memory with these strides")
	}
	return viewed, first, err
}

// Lies is [Segment.Lies] for an expression that is a permutation, squeeze, broadcast, expansion,
// slice or reshape, of a fusion that need not be concrete. No size is 0. False: strides
// cannot say what a reshape does.
func Lies(e *core.Expr, scalars *core.Binding, sizes, strides, to []int64) (viewed []int64, first int64, ok bool, err error) {
	viewed, ok = viewStrides(e, sizes, strides, to)
	if ok && e.Op == core.SliceOp {
		for d, start := range e.Args[1].Scalars {
			n, err := scalars.Int(start)
			if err != nil {
				return nil, 0, false, err
			}
			first += n * strides[d]
		}
	}
	return viewed, first, ok, nil
}

// viewStrides returns the strides of the result of e, of sizes to, in the memory of its
// operand; false: it does not lie there.
func viewStrides(e *core.Expr, sizes, strides, to []int64) (viewed []int64, ok bool) {
	switch e.Op {
	case core.PermuteOp:
		for _, d := range e.Args[1].Ints {
			viewed = append(viewed, strides[d])
		}
	case core.SqueezeOp:
		for d, s := range strides {
			if !slices.Contains(e.Args[1].Ints, int64(d)) {
				viewed = append(viewed, s)
			}
		}
	case core.BroadcastOp:
		for _, isNew := range e.Args[1].Ints {
			if isNew != 0 {
				viewed = append(viewed, 0)
				continue
			}
			viewed, strides = append(viewed, strides[0]), strides[1:]
		}
	case core.ExpandOp:
		viewed = slices.Clone(strides)
		for d, n := range to {
			if n != sizes[d] {
				viewed[d] = 0
			}
		}
	case core.SliceOp:
		return slices.Clone(strides), true
	case core.ReshapeOp:
		return reshapedStrides(sizes, strides, to)
	default:
		return nil, false
	}
	return viewed, true
}

// reshapedStrides splits each run of dimensions that lie in memory like a single one
// into dimensions of sizes to; false: a new dimension would reach from one run into
// another. No size is 0.
func reshapedStrides(sizes, strides, to []int64) ([]int64, bool) {
	viewed := make([]int64, len(to))
	next := len(to) - 1
	for d := len(sizes) - 1; d >= 0; d-- {
		if sizes[d] == 1 {
			continue
		}
		step, run := strides[d], sizes[d] // of the run that ends at d
		for d > 0 && (sizes[d-1] == 1 || strides[d-1] == step*run) {
			d--
			run *= sizes[d]
		}
		for ; run > 1 && next >= 0; next-- {
			viewed[next] = step
			if run%to[next] != 0 {
				return nil, false
			}
			step, run = step*to[next], run/to[next]
		}
		if run > 1 {
			return nil, false
		}
	}
	for ; next >= 0; next-- { // of size 1
		viewed[next] = 1
	}
	return viewed, true
}

// isStrided reports whether the result of op lies in the memory of its operand, for
// any strides of that.
func isStrided(op *core.OpInfo) bool {
	switch op {
	case core.BroadcastOp, core.SqueezeOp, core.PermuteOp, core.ExpandOp:
		return true
	}
	return false
}

// maySee reports whether the result of op may lie in the memory of its operand.
func maySee(op *core.OpInfo) bool {
	return isStrided(op) || op == core.ReshapeOp || op == core.SliceOp
}

// findReaders finds the tensors that something reads from memory, through views or not: also
// resizes, which compute nothing that they read.
func (g *graph) findReaders() {
	g.inMemory = make([]bool, g.f.NumVals())
	for _, id := range slices.Backward(g.order) {
		e := g.f.Expr(id)
		for k, v := range g.f.TensorArgs(e) {
			g.inMemory[v] = g.inMemory[v] || g.readsDirectly(id, k) || e.Op.Class == core.Resize || g.inMemory[e.Out[0]] && maySee(e.Op)
		}
	}
}

// viewed returns the strides that the result of e, of which maySee holds, has in the memory
// of its operand; nil: it does not lie there, or where that lies is not known.
func (g *graph) viewed(e *core.Expr) []int64 {
	x := e.Args[0].Tensor
	strides := g.stridesOf(x)
	if strides == nil {
		return nil
	}
	strides, ok := viewStrides(e, g.values[x].shape, strides, g.values[e.Out[0]].shape)
	if !ok {
		return nil
	}
	return strides
}

// wouldCopy reports whether torch would copy the operand v of e, a view, to compute e: a product
// of matrices in more than one dimension of batches goes along them with one stride. Its
// copy takes 65 us where a kernel takes 20 (heads of a BERT layer on an H200, 67 MB each).
func (g *graph) wouldCopy(e *core.Expr, v core.ValID) bool {
	d := g.f.Val(v).Def
	if e.Op != core.MatmulOp || !maySee(g.f.Expr(d).Op) {
		return false
	}
	strides, shape := g.viewed(g.f.Expr(d)), g.values[v].shape
	inner := -1
	for k := len(strides) - 3; k >= 0; k-- {
		switch {
		case shape[k] == 1:
			continue
		case strides[k] == 0: // expanded: no kernel stores it
			return false
		case inner >= 0 && strides[k] != strides[inner]*shape[inner]:
			return true
		}
		inner = k
	}
	return false
}

// isOfHost reports whether the result of e, of which maySee holds, would lie in a tensor of the
// host, which kernels get by value.
func (g *graph) isOfHost(e *core.Expr) bool {
	for {
		x := e.Args[0].Tensor
		d := g.f.Val(x).Def
		if d == core.NoExpr {
			return g.f.Val(x).Domain.CPU
		}
		if e = g.f.Expr(d); g.chain[d] == 0 || !maySee(e.Op) {
			return false
		}
	}
}

// liesDense reports whether the result of e, seen in the memory of its operand, lies as if it
// had been computed: at the first element, without gaps, in its order.
func (g *graph) liesDense(e *core.Expr) bool {
	if e.Op == core.SliceOp {
		return false
	}
	strides, v := g.viewed(e), e.Out[0]
	if strides == nil {
		return false
	}
	for d, own := range g.dense(v, g.memoryOrder(v), false) {
		if g.values[v].shape[d] != 1 && strides[d] != own {
			return false
		}
	}
	return true
}

// stridesOf returns the strides that v will have in memory, nil if they are not known: of
// an input those that were said, of what is computed those of its order, and of what is
// forwarded those of a view.
func (g *graph) stridesOf(v core.ValID) []int64 {
	if at, ok := g.o.inputs[v]; ok {
		if at < len(g.o.Inputs) {
			return g.o.Inputs[at].Strides
		}
		return g.dense(v, g.f.DeclaredOrder(v), slices.Contains(g.f.Val(v).Domain.Contig, core.No))
	}
	at := g.values[v].node
	if d := g.f.Val(v).Def; d != core.NoExpr && (g.chain[d] > 0 || g.cut[d]) && (at == none || g.nodes[at].kind == View) {
		if e := g.f.Expr(d); maySee(e.Op) {
			return g.viewed(e)
		}
		return nil
	}
	return g.dense(v, g.memoryOrder(v), false)
}

// place returns where v lies if that was said, of an input or of what it is a view of; also of
// a part of what is computed.
func (g *graph) place(v core.ValID) *scheduler.Placement {
	if v == core.NoVal {
		return nil
	}
	at := g.values[v].node
	if at == none || g.nodes[at].kind != View {
		return g.o.place(v)
	}
	id := g.nodes[at].expr
	e := g.f.Expr(id)
	of := g.place(e.Args[0].Tensor)
	switch {
	case of != nil:
	case !g.isPart(v):
		return nil
	default:
		of = &scheduler.Placement{Aligned: scheduler.WellAligned}
	}
	x := &scheduler.Placement{Strides: g.viewed(e), Aligned: of.Aligned}
	if g.cut[id] {
		strides := g.stridesOf(e.Args[0].Tensor)
		for d, start := range e.Args[1].Scalars {
			n, err := g.b.Int(start)
			if err != nil {
				n = 1
			}
			x.Aligned = x.Aligned.Plus(n * strides[d] * int64(g.f.Val(v).DType.Size()))
		}
	}
	return x
}

// memoryOf returns the tensor whose memory v is a view of: v itself if it is none.
func (g *graph) memoryOf(v core.ValID) core.ValID {
	for {
		at := g.values[v].node
		if at == none || g.nodes[at].kind != View {
			return v
		}
		v = g.nodes[at].reads[0]
	}
}

// isPart reports whether v is a slice, or a view of one.
func (g *graph) isPart(v core.ValID) bool {
	for at := g.values[v].node; at != none && g.nodes[at].kind == View; at = g.values[v].node {
		if g.cut[g.nodes[at].expr] {
			return true
		}
		v = g.f.Expr(g.nodes[at].expr).Args[0].Tensor
	}
	return false
}

// describeView returns what a segment knows of v, a view that lies otherwise than what is
// computed: the order of its dimensions, and where there are no gaps.
func (g *graph) describeView(v core.ValID) core.TensorDescription {
	f, shape, strides := g.f, g.values[v].shape, g.stridesOf(v)
	axes := f.Axes(v)
	d := core.TensorDescription{DType: f.Val(v).DType}
	var order []int
	isPlain := func(dim int) bool { return shape[dim] != 1 && strides[dim] != 0 }
	for dim, a := range axes {
		n, isConst := f.Scalars().ConstInt(f.Size(a))
		if !isConst {
			n = -1
		}
		d.Shape = append(d.Shape, n)
		if isPlain(dim) {
			order = append(order, dim)
		}
	}
	slices.SortStableFunc(order, func(i, k int) int { return cmp.Compare(strides[k], strides[i]) })
	all := make([]int, len(axes)) // those that have no place of their own stay where they are
	for dim, k := 0, 0; dim < len(axes); dim++ {
		if all[dim] = dim; isPlain(dim) {
			all[dim] = order[k]
			k++
		}
	}
	if !slices.IsSorted(all) {
		d.StrideOrder = make([]int64, len(axes))
		for at, dim := range all {
			d.StrideOrder[dim] = int64(len(axes) - 1 - at)
		}
	}
	d.Contiguity = make([]core.Tri, len(axes))
	step := int64(1)
	for at, dim := range slices.Backward(all) {
		switch {
		case f.Axis(axes[dim]).Kind == core.Broadcast || d.Shape[dim] == 1:
			d.Contiguity[at] = core.NotApplicable
			continue
		case shape[dim] == 1 || strides[dim] == step:
			d.Contiguity[at] = core.Yes
		default:
			d.Contiguity[at] = core.No
			step = strides[dim]
		}
		step *= shape[dim]
	}
	return d
}

// dense returns the strides of v in an order of dimensions, with gaps between all of
// them or none.
func (g *graph) dense(v core.ValID, order []int, gaps bool) []int64 {
	shape, axes := g.values[v].shape, g.f.Axes(v)
	strides, step := make([]int64, len(shape)), int64(1)
	for k := len(shape) - 1; k >= 0; k-- {
		d := k
		if order != nil {
			d = order[k]
		}
		if g.f.Axis(axes[d]).Kind == core.Broadcast && shape[d] != 1 {
			continue
		}
		strides[d] = step
		step *= shape[d]
		if gaps {
			step += strides[d] // so that no two dimensions are like one
		}
	}
	return strides
}
