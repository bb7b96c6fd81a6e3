package passes

import (
	"maps"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// A View is an output that has the elements of another tensor, in an order that
// strides can say: it needs no kernel.
type View struct {
	Output int        // its position
	Base   core.ValID // see [Views]; the output's own if that is an input
	// Reshapes tells of a reshape on the way: whether strides can say it depends
	// on those of the base.
	Reshapes bool
}

// Views returns the outputs of f that can be views, in order: the inputs, and what
// broadcasts, expands, squeezes, permutations, slices and reshapes alone make of an
// input, of another output, or of the result of a product, an attention, a scan or
// a sort, which is stored as it is in any case. A copy that the definition asks for
// (set, segment_set, stride_order) is none, and nothing is a view of an input that
// is written, or written to one. Of two outputs that are one tensor both are listed.
func Views(f *core.Fusion) []View {
	written, isOutput := map[core.ValID]bool{}, map[core.ValID]bool{}
	for _, o := range f.Outputs() {
		if o.Alias != core.NoVal {
			written[o.Alias] = true
		} else {
			isOutput[o.Val] = true
		}
	}
	for _, o := range f.Outputs() {
		if o.Alias != core.NoVal {
			isOutput[o.Val] = false // it may be in memory that is not its own
		}
	}
	isBase := func(v core.ValID) bool {
		if x := f.Val(v); x.Input {
			return !written[v]
		}
		return isOutput[v] || isStored(f.Expr(f.Val(v).Def).Op)
	}
	roots := map[core.ValID]View{}
	for _, v := range f.Inputs() {
		if f.Val(v).Tensor && isBase(v) {
			roots[v] = View{Base: v}
		}
	}
	for _, id := range f.Order() {
		e := f.Expr(id)
		if !sharesMemory(e.Op) || f.DeclaredOrder(e.Out[0]) != nil {
			continue
		}
		v := e.Args[0].Tensor
		from, ok := roots[v]
		if !ok || isOutput[v] {
			if from, ok = (View{Base: v}), isBase(v); !ok {
				continue
			}
		}
		from.Reshapes = from.Reshapes || e.Op == core.ReshapeOp
		roots[e.Out[0]] = from
	}
	var views []View
	for i, o := range f.Outputs() {
		if from, ok := roots[o.Val]; ok && o.Alias == core.NoVal && (isOutput[o.Val] || f.Val(o.Val).Input) {
			from.Output = i
			views = append(views, from)
		}
	}
	return views
}

// isStored reports whether the results of op lie in memory, whoever reads them: torch
// computes it.
func isStored(op *core.OpInfo) bool {
	switch op.Class {
	case core.Contraction, core.Attention, core.Scan, core.Sort:
		return true
	}
	return false
}

// sharesMemory reports whether strides may say what op does.
func sharesMemory(op *core.OpInfo) bool {
	switch op {
	case core.BroadcastOp, core.ExpandOp, core.SqueezeOp, core.PermuteOp, core.SliceOp, core.ReshapeOp:
		return true
	}
	return false
}

// MemoryOrders returns in which order the dimensions of tensors should lie in
// memory, outermost first; a tensor that is missing is row-major. f is the
// fusion as it was defined.
//
// An output has the order that its definition says (stride_order), that of its
// leading operand if it is elementwise, the first that has an element for each
// of the result, and else is row-major: callers see it. A tensor that no caller
// sees also keeps the order of what it is a permutation, squeeze, slice or pad
// of, so that what is read in order is written in order; what torch multiplies in batches
// has those outermost.
func MemoryOrders(f *core.Fusion) map[core.ValID][]int {
	seen, kept := map[core.ValID][]int{}, map[core.ValID][]int{}
	isOutput := map[core.ValID]bool{}
	for _, o := range f.Outputs() {
		isOutput[o.Val] = true
	}
	note := func(orders map[core.ValID][]int, v core.ValID, order []int) {
		if order != nil && !slices.IsSorted(order) {
			orders[v] = order
		}
	}
	for _, v := range f.Inputs() {
		if f.Val(v).Tensor {
			note(seen, v, f.DeclaredOrder(v))
			note(kept, v, f.DeclaredOrder(v))
		}
	}
	for _, id := range f.Order() {
		e := f.Expr(id)
		for _, v := range e.Out {
			visible := f.DeclaredOrder(v)
			own := visible
			switch {
			case visible != nil:
			case e.Op.Class != core.Elementwise:
				own = carried(f, e, v, kept)
			default:
				if u := f.LeadingOperand(e); u != core.NoVal {
					visible, own = seen[u], kept[u]
				}
			}
			note(seen, v, visible)
			if isOutput[v] {
				own = visible
			}
			note(kept, v, own)
		}
		if e.Op == core.MatmulOp {
			for _, v := range f.TensorArgs(e) {
				if !isOutput[v] && !f.Val(v).Input {
					kept[v] = batchesFirst(kept[v])
				}
			}
		}
	}
	maps.DeleteFunc(kept, func(_ core.ValID, order []int) bool { return slices.IsSorted(order) })
	return kept
}

// batchesFirst returns the order in which torch multiplies matrices without a copy: dimensions
// of batches in theirs, and then the matrices as they lie.
func batchesFirst(order []int) []int {
	n := len(order)
	if n < 4 {
		return order
	}
	own := make([]int, 0, n)
	for d := range n - 2 {
		own = append(own, d)
	}
	for _, d := range order {
		if d >= n-2 {
			own = append(own, d)
		}
	}
	return own
}

// carried returns the order of the operand of a view for its result, or nil.
func carried(f *core.Fusion, e *core.Expr, v core.ValID, orders map[core.ValID][]int) []int {
	var from []int64 // by dimension of the result
	switch e.Op {
	case core.SdpfaFwdOp, core.SdpfaBwdOp:
		return positionsFirst(f, v)
	case core.PermuteOp:
		from = e.Args[1].Ints
	case core.SqueezeOp:
		from = except(f.Rank(e.Args[0].Tensor), e.Args[1].Ints)
	case core.SliceOp, core.PadOp:
		from = except(f.Rank(e.Args[0].Tensor), nil)
	default:
		return nil
	}
	order := orders[e.Args[0].Tensor]
	if order == nil {
		for d := range f.Rank(e.Args[0].Tensor) {
			order = append(order, d)
		}
	}
	own := []int{}
	for _, d := range order {
		if k := slices.Index(from, int64(d)); k >= 0 {
			own = append(own, k)
		}
	}
	return own
}

// positionsFirst returns the order in which torch's kernels for attention on narrow
// types lay out what has heads, [batch, heads, positions, size]: positions before heads,
// as a projection has them.
func positionsFirst(f *core.Fusion, v core.ValID) []int {
	if t := f.Val(v).DType; f.Rank(v) != 4 || t != dtype.BFloat16 && t != dtype.Half {
		return nil
	}
	return []int{0, 2, 1, 3}
}
