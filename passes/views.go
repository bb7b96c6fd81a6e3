package passes

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

var viewOps = []*core.OpInfo{core.SetOp, core.BroadcastOp, core.SqueezeOp, core.PermuteOp, core.ReshapeOp, core.ExpandOp, core.SliceOp, core.PadOp}

// cleanViews leaves out copies and views that change nothing, and makes one of
// two where the second undoes a part of the first or goes on with it.
func cleanViews(r *core.Rewriting, e *core.Expr, args []core.Arg) ([]core.ValID, error) {
	if !slices.Contains(viewOps, e.Op) {
		return nil, nil
	}
	x := args[0].Tensor
	if changesNothing(r.To, e.Op, args) {
		return []core.ValID{x}, nil
	}
	before := r.Def(x)
	if before == nil {
		return nil, nil
	}
	switch e.Op {
	case core.BroadcastOp:
		return cleanBroadcast(r, before, args)
	case core.SqueezeOp:
		return cleanSqueeze(r, before, args)
	case core.PermuteOp:
		if before.Op == core.PermuteOp {
			return cleanPermute(r, before, args)
		}
	case core.ReshapeOp, core.ExpandOp:
		if before.Op == e.Op { // the last one says the shape
			args = withOperand(args, before.Args[0].Tensor)
			if changesNothing(r.To, e.Op, args) && r.To.Rank(args[0].Tensor) == len(args[1].Scalars) {
				return []core.ValID{args[0].Tensor}, nil
			}
			return r.To.Append(e.Op, args)
		}
	}
	return nil, nil
}

// changesNothing reports whether op(args) is its first operand.
func changesNothing(f *core.Fusion, op *core.OpInfo, args []core.Arg) bool {
	sizes := f.Shape(args[0].Tensor)
	switch op {
	case core.SetOp:
		return true
	case core.BroadcastOp:
		return !slices.Contains(args[1].Ints, 1)
	case core.SqueezeOp:
		return len(args[1].Ints) == 0
	case core.PermuteOp:
		return slices.IsSorted(args[1].Ints)
	case core.ReshapeOp, core.ExpandOp:
		return slices.Equal(args[1].Scalars, sizes)
	case core.SliceOp:
		return slices.Equal(args[2].Scalars, sizes) && allZero(f, args[1].Scalars)
	case core.PadOp:
		return allZero(f, args[1].Scalars)
	}
	return false
}

func allZero(f *core.Fusion, numbers []scalar.ID) bool {
	return !slices.ContainsFunc(numbers, func(s scalar.ID) bool { return !isZero(f, s) })
}

func cleanPermute(r *core.Rewriting, before *core.Expr, args []core.Arg) ([]core.ValID, error) {
	dims := make([]int64, len(args[1].Ints))
	for i, d := range args[1].Ints {
		dims[i] = before.Args[1].Ints[d]
	}
	if slices.IsSorted(dims) {
		return []core.ValID{before.Args[0].Tensor}, nil
	}
	return r.To.Append(core.PermuteOp, []core.Arg{before.Args[0], core.IntsOf(dims...)})
}

// cleanBroadcast is for a broadcast of a broadcast, or of a squeeze that took
// away what it brings back.
func cleanBroadcast(r *core.Rewriting, before *core.Expr, args []core.Arg) ([]core.ValID, error) {
	x := before.Args[0]
	switch before.Op {
	case core.SqueezeOp:
		var dims []int64
		for d, isNewDim := range args[1].Ints {
			if isNewDim != 0 {
				dims = append(dims, int64(d))
			}
		}
		if !slices.Equal(dims, before.Args[1].Ints) {
			return nil, nil
		}
		return []core.ValID{x.Tensor}, nil // unless a size happens to be 1: then the axes differ in kind
	case core.BroadcastOp:
		flags, inner := slices.Clone(args[1].Ints), before.Args[1].Ints
		for d := range flags {
			if flags[d] == 0 {
				flags[d], inner = inner[0], inner[1:]
			}
		}
		return r.To.Append(core.BroadcastOp, []core.Arg{x, {Kind: core.BoolsArg, Ints: flags}})
	}
	return nil, nil
}

// cleanSqueeze is for a squeeze of a squeeze, or of what brought the dimensions.
func cleanSqueeze(r *core.Rewriting, before *core.Expr, args []core.Arg) ([]core.ValID, error) {
	x, dims := before.Args[0], args[1].Ints
	switch before.Op {
	case core.SqueezeOp:
		all := slices.Clone(before.Args[1].Ints)
		rest := except(r.To.Rank(x.Tensor), all)
		for _, d := range dims {
			all = append(all, rest[d])
		}
		slices.Sort(all)
		return r.To.Append(core.SqueezeOp, []core.Arg{x, core.IntsOf(all...), core.BoolOf(args[2].Bool() || before.Args[2].Bool())})
	case core.BroadcastOp:
		return squeezeBroadcast(r, x, before.Args[1].Ints, args)
	case core.ExpandOp:
		return squeezeExpand(r, before, args)
	}
	return nil, nil
}

// except lists the dimensions below rank that are not among dims.
func except(rank int, dims []int64) []int64 {
	var rest []int64
	for d := range int64(rank) {
		if !slices.Contains(dims, d) {
			rest = append(rest, d)
		}
	}
	return rest
}

// squeezeBroadcast squeezes dimensions of x and ones that flags brought, if only
// one operation remains.
func squeezeBroadcast(r *core.Rewriting, x core.Arg, flags []int64, args []core.Arg) ([]core.ValID, error) {
	var left, own []int64 // flags that stay, and dimensions of x to be squeezed
	brings, at := false, int64(0)
	for d, isNewDim := range flags {
		squeezed := slices.Contains(args[1].Ints, int64(d))
		if isNewDim == 0 {
			if squeezed {
				own = append(own, at)
			}
			at++
		}
		if !squeezed {
			left = append(left, isNewDim)
			brings = brings || isNewDim != 0
		}
	}
	switch {
	case brings && len(own) > 0 || len(own) == len(args[1].Ints):
		return nil, nil
	case brings:
		return r.To.Append(core.BroadcastOp, []core.Arg{x, {Kind: core.BoolsArg, Ints: left}})
	case len(own) > 0:
		return r.To.Append(core.SqueezeOp, []core.Arg{x, core.IntsOf(own...), args[2]})
	}
	return []core.ValID{x.Tensor}, nil
}

// squeezeExpand squeezes what was expanded before it is, if that does not make
// one operation more.
func squeezeExpand(r *core.Rewriting, expand *core.Expr, args []core.Arg) ([]core.ValID, error) {
	x, dims := expand.Args[0], args[1].Ints
	axes := r.To.Axes(x.Tensor)
	for _, d := range dims {
		if !isNew(r.To, axes[d]) {
			return nil, nil
		}
	}
	var shape, sizes []scalar.ID
	for _, d := range except(len(axes), dims) {
		shape, sizes = append(shape, expand.Args[1].Scalars[d]), append(sizes, r.To.Size(axes[d]))
	}
	squeeze := []core.Arg{x, core.IntsOf(dims...), core.BoolOf(false)}
	switch {
	case slices.Equal(shape, sizes):
		return r.To.Append(core.SqueezeOp, squeeze)
	case r.Uses(args[0].Tensor) == 1:
		return inTurn(r, core.SqueezeOp, squeeze, core.ExpandOp, []core.Arg{x, core.ScalarsOf(shape...)})
	}
	return nil, nil
}
