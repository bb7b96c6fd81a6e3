package core

import (
	"fmt"
	"slices"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// BroadcastOp inserts dimensions of size 1 that are read at every position of
// the operands they meet.
var BroadcastOp = def(OpInfo{Name: "broadcast", Group: groupView, Class: View,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "is_broadcast_dim", Kind: Flags}),
	Infer:      inferBroadcast,
	AxisMap: func(f *Fusion, e *Expr, _, _ int) []int {
		m, next := make([]int, len(e.Args[1].Ints)), 0
		for i, isNew := range e.Args[1].Ints {
			if m[i] = -1; isNew == 0 {
				m[i] = next
				next++
			}
		}
		return m
	},
	Eval:  copyInOrder,
	Torch: "arg[tuple(None if b else slice(None) for b in is_broadcast_dim)]",
	Doc:   "arg with a new dimension of size 1 wherever is_broadcast_dim is True; its length is the rank of the result."})

func inferBroadcast(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	in := f.Axes(args[0].Tensor)
	var axes []AxisID
	next := 0
	for _, isNew := range args[1].Ints {
		switch {
		case isNew != 0:
			axes = append(axes, f.broadcastAxis(scalar.None))
		case next < len(in):
			axes = append(axes, f.copyAxis(in[next]))
			fallthrough
		default:
			next++
		}
	}
	if next != len(in) {
		return inf, invalidArgument("broadcast(): is_broadcast_dim is False in %d places, and arg has %d dimensions", next, len(in))
	}
	inf.add(f.vals[args[0].Tensor].DType, axes)
	return inf, nil
}

// copyInOrder evaluates views that keep the row-major order of elements.
func copyInOrder(c *Evaluation) error {
	x := c.In(0)
	out, err := c.Out(0)
	if err != nil {
		return err
	}
	out.I, out.F, out.C = x.I, x.F, x.C
	return nil
}

// ExpandOp gives dimensions of size 1 the sizes of shape without copying.
var ExpandOp = def(OpInfo{Name: "expand", Group: groupView, Class: View,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "shape", Kind: Shape}),
	Expand:     expandExpand, Infer: inferExpand,
	Eval: func(c *Evaluation) error {
		x := c.In(0)
		out, err := c.Out(0)
		if err != nil {
			return err
		}
		i := int64(0)
		EachIndex(out.Shape, func(index []int64) {
			out.Set(i, x.At(broadcastOffset(x.Shape, index)))
			i++
		})
		return nil
	},
	Torch: "arg.expand(shape)",
	Doc: "arg with its broadcast dimensions, and those of size 1, shown with the sizes of shape; -1 keeps a size. " +
		"shape has one entry a dimension. No memory is written: the stride of an expanded dimension is 0. " +
		"The size of any other dimension must be that of shape."})

// expandExpand replaces -1 by the size that it stands for.
func expandExpand(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
	sizes := f.Shape(args[0].Tensor)
	shape := slices.Clone(args[1].Scalars)
	if len(shape) != len(sizes) {
		return nil, invalidArgument("expand(): shape has %d entries, and arg has %d dimensions", len(shape), len(sizes))
	}
	for i, s := range shape {
		if n, ok := f.scalars.ConstInt(s); ok && n == -1 {
			shape[i] = sizes[i]
		}
	}
	return f.appendExpr(op, []Arg{args[0], ScalarsOf(shape...)})
}

func inferExpand(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	v := args[0].Tensor
	in := f.Axes(v)
	if len(args[1].Scalars) != len(in) {
		return inf, invalidArgument("expand(): shape has %d entries, and arg has %d dimensions", len(args[1].Scalars), len(in))
	}
	axes := make([]AxisID, len(in))
	for i, want := range args[1].Scalars {
		size := f.Size(in[i])
		switch {
		case want == size:
			axes[i] = f.copyAxis(in[i])
		case f.isOne(size):
			axes[i] = f.shownAxis(want)
		default:
			// The sizes must be equal, or arg's is 1 when the sizes are known.
			cond := f.scalars.Or(f.scalars.Eq(size, want), f.scalars.Eq(size, f.scalars.Int(1)))
			if err := f.require(&inf, op, cond, size, want, fmt.Sprintf("the size of dimension %d must be 1 or that of shape", i)); err != nil {
				return inf, err
			}
			axes[i] = f.unknownExpandAxis(in[i], want)
		}
	}
	inf.add(f.vals[v].DType, axes)
	return inf, nil
}

// unknownExpandAxis returns the axis of expand for a, of a size other than the
// constant 1, shown with another expression for its size.
func (f *Fusion) unknownExpandAxis(a AxisID, want scalar.ID) AxisID {
	size := f.Size(a)
	switch {
	case f.isOne(want):
		return f.broadcastAxis(scalar.None)
	case f.axes[a].Kind == Broadcast:
		return f.broadcastAxis(want)
	case !f.scalars.Facts(size).Hold(1): // want equals size
		out := f.copyAxis(a)
		if !f.isConst(size) {
			f.axes[out].Extent = want
		}
		return out
	}
	out := f.iterAxis(want)
	f.axes[out].Kind = Symbolic
	return out
}

// BroadcastInDimOp is broadcast and expand in one call.
var BroadcastInDimOp = def(OpInfo{Name: "broadcast_in_dim", Group: groupView, Class: Composite,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "shape", Kind: Shape}, Param{Name: "broadcast_dims", Kind: Integers}),
	Expand:     expandBroadcastInDim,
	Torch:      "arg[tuple(slice(None) if i in [d % len(shape) for d in broadcast_dims] else None for i in range(len(shape)))].expand(shape)",
	Doc: "arg with its dimension i at dimension broadcast_dims[i] of the result, repeated along the others to the sizes of shape; " +
		"-1 in shape keeps a size. broadcast_dims is strictly ascending and has one entry a dimension of arg. " +
		"A dimension of arg of size 1 is repeated too; any other must have the size of shape."})

func expandBroadcastInDim(f *Fusion, _ *OpInfo, args []Arg) ([]ValID, error) {
	v, shape, dims := args[0].Tensor, args[1].Scalars, args[2].Ints
	n := int64(len(shape))
	if len(dims) != f.Rank(v) {
		return nil, invalidArgument("broadcast_in_dim(): broadcast_dims has %d entries, and arg has %d dimensions", len(dims), f.Rank(v))
	}
	isNew := slices.Repeat([]bool{true}, len(shape))
	last := int64(-1)
	for i, d := range dims {
		if d < -n || d >= n {
			return nil, invalidArgument("broadcast_in_dim(): broadcast_dims[%d] is %d, which is not a dimension of a shape with %d entries", i, d, n)
		}
		if d < 0 {
			d += n
		}
		if d <= last {
			return nil, invalidArgument("broadcast_in_dim(): broadcast_dims %v is not strictly ascending at index %d", dims, i)
		}
		isNew[d], last = false, d
	}
	var err error
	if slices.Contains(isNew, true) {
		if v, err = f.apply1(BroadcastOp, TensorOf(v), BoolsOf(isNew...)); err != nil {
			return nil, err
		}
	}
	return f.Apply(ExpandOp, TensorOf(v), args[1])
}

// SqueezeOp drops dimensions of size 1.
var SqueezeOp = def(OpInfo{Name: "squeeze", Group: groupView, Class: View,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "dims", Kind: Dims},
		Param{Name: "squeeze_expanded", Kind: Flag, Optional: true, Default: Given{Kind: GivenNumber, Num: boolValue(false)}}),
	Infer: inferSqueeze,
	AxisMap: func(f *Fusion, e *Expr, _, _ int) []int {
		return kept(f.Rank(e.Args[0].Tensor), e.Args[1].Ints)
	},
	Eval: func(c *Evaluation) error {
		x := c.In(0)
		out, err := c.Out(0)
		if err != nil {
			return err
		}
		keep, at, i := kept(len(x.Shape), c.Expr.Args[1].Ints), make([]int64, len(x.Shape)), int64(0)
		EachIndex(out.Shape, func(index []int64) {
			for k, d := range keep {
				at[d] = index[k]
			}
			out.Set(i, x.At(Offset(x.Shape, at)))
			i++
		})
		return nil
	},
	Torch: "arg[tuple(0 if i in [d % arg.ndim for d in dims] else slice(None) for i in range(arg.ndim))]",
	Doc: "arg without the dimensions dims, each of which must have size 1. " +
		"With squeeze_expanded they may also be broadcasts that were expanded, to a size other than 0, of which one element is kept."})

// kept lists the dimensions below rank that dropped, ascending, does not name.
func kept(rank int, dropped []int64) []int {
	var keep []int
	for d := range rank {
		if len(dropped) > 0 && dropped[0] == int64(d) {
			dropped = dropped[1:]
			continue
		}
		keep = append(keep, d)
	}
	return keep
}

func inferSqueeze(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	v := args[0].Tensor
	in := f.Axes(v)
	for _, d := range args[1].Ints {
		size, one := f.Size(in[d]), f.scalars.Int(1)
		cond, rule := f.scalars.Eq(size, one), fmt.Sprintf("Can not squeeze non-broadcasting dimension(s): the size of dimension %d must be 1", d)
		if f.axes[in[d]].Kind == Broadcast && size != one {
			rule = fmt.Sprintf("Can not squeeze expanded dimension(s): without squeeze_expanded=True the size of dimension %d must be 1", d)
			if args[2].Bool() {
				cond, rule = f.scalars.Le(one, size), fmt.Sprintf("Can not squeeze an expanded dimension without elements: the size of dimension %d must not be 0", d)
			}
		}
		if err := f.require(&inf, op, cond, size, scalar.None, rule); err != nil {
			return inf, err
		}
	}
	axes := []AxisID{}
	for _, d := range kept(len(in), args[1].Ints) {
		axes = append(axes, f.copyAxis(in[d]))
	}
	inf.add(f.vals[v].DType, axes)
	return inf, nil
}

// PermuteOp reorders dimensions.
var PermuteOp = def(OpInfo{Name: "permute", Group: groupView, Class: View,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "dims", Kind: Integers}),
	Expand: func(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
		dims, n := slices.Clone(args[1].Ints), int64(f.Rank(args[0].Tensor))
		for i, d := range dims {
			if d < -n || d >= n {
				return nil, invalidArgument("permute(): dims[%d] is %d, which is not a dimension of a tensor of rank %d", i, d, n)
			}
			if d < 0 {
				dims[i] += n
			}
		}
		return f.appendExpr(op, []Arg{args[0], IntsOf(dims...)})
	},
	Infer: func(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
		var inf Inference
		in := f.Axes(args[0].Tensor)
		if err := checkPermutation(op, "dims", args[1].Ints, len(in)); err != nil {
			return inf, err
		}
		axes := make([]AxisID, len(in))
		for i, d := range args[1].Ints {
			axes[i] = f.copyAxis(in[d])
		}
		inf.add(f.vals[args[0].Tensor].DType, axes)
		return inf, nil
	},
	AxisMap: func(_ *Fusion, e *Expr, _, _ int) []int {
		m := make([]int, len(e.Args[1].Ints))
		for i, d := range e.Args[1].Ints {
			m[i] = int(d)
		}
		return m
	},
	Eval: func(c *Evaluation) error {
		x := c.In(0)
		out, err := c.Out(0)
		if err != nil {
			return err
		}
		at, i := make([]int64, len(x.Shape)), int64(0)
		EachIndex(out.Shape, func(index []int64) {
			for k, d := range c.Expr.Args[1].Ints {
				at[d] = index[k]
			}
			out.Set(i, x.At(Offset(x.Shape, at)))
			i++
		})
		return nil
	},
	Torch: "arg.permute(dims)",
	Doc:   "arg with its dimensions reordered: dimension i of the result is dimension dims[i] of arg. dims names every dimension once."})

// checkPermutation reports unless perm has each of 0 to n-1 once.
func checkPermutation(op *OpInfo, name string, perm []int64, n int) error {
	if len(perm) != n {
		return invalidArgument("%s(): %s has %d entries, and arg has %d dimensions", op.Name, name, len(perm), n)
	}
	seen := make([]bool, n)
	for i, d := range perm {
		switch {
		case d < 0 || d >= int64(n):
			return invalidArgument("%s(): %s[%d] is %d; it must be from 0 to %d", op.Name, name, i, d, n-1)
		case seen[d]:
			return invalidArgument("%s(): Duplicate entries in transformation map: %s has %d twice", op.Name, name, d)
		}
		seen[d] = true
	}
	return nil
}

// StrideOrderOp names the order of dimensions in memory.
var StrideOrderOp = def(OpInfo{Name: "stride_order", Group: groupView, Class: View,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "stride_order", Kind: Integers}),
	Infer: func(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
		var inf Inference
		in := f.Axes(args[0].Tensor)
		if err := checkPermutation(op, "stride_order", args[1].Ints, len(in)); err != nil {
			return inf, err
		}
		axes, alloc := make([]AxisID, len(in)), make([]AxisID, len(in))
		for i, a := range in {
			axes[i] = f.copyAxis(a)
			alloc[len(in)-1-int(args[1].Ints[i])] = axes[i]
		}
		inf.Results = []TensorResult{{f.vals[args[0].Tensor].DType, Domain{Root: axes, Logical: axes, Alloc: alloc}}}
		return inf, nil
	},
	Eval:      copyInOrder,
	TorchCall: "arg", // in the order that is asked of every result
	Torch:     "arg.permute([stride_order.index(len(stride_order) - 1 - i) for i in range(len(stride_order))]).contiguous().permute([len(stride_order) - 1 - s for s in stride_order])",
	Doc: "arg, laid out in memory so that dimension i has the stride of rank stride_order[i], 0 being the smallest. " +
		"Only an output of the fusion shows it: operations on the result are laid out as always."})

// SizeOp reads one size.
var SizeOp = def(OpInfo{Name: "size", Group: groupView, Class: Query,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "dim", Kind: Dim}),
	Expand: func(f *Fusion, _ *OpInfo, args []Arg) ([]ValID, error) {
		return []ValID{f.ScalarVal(f.Size(f.Axes(args[0].Tensor)[args[1].Int]))}, nil
	},
	Torch: "arg.size(dim)",
	Doc:   "The size of dimension dim of arg, a scalar of dtype Index; a constant if the definition fixes it."})

// ShapeOp reads every size.
var ShapeOp = def(OpInfo{Name: "shape", Group: groupView, Class: Query,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}),
	Expand: func(f *Fusion, _ *OpInfo, args []Arg) ([]ValID, error) {
		vals := []ValID{}
		for _, s := range f.Shape(args[0].Tensor) {
			vals = append(vals, f.ScalarVal(s))
		}
		return vals, nil
	},
	Torch: "list(arg.shape)",
	Doc:   "The sizes of arg, a list of scalars of dtype Index."})

// checkElementType reports unless tensors of dtype t can be made.
func checkElementType(op *OpInfo, t dtype.Type) error {
	if !t.Computes() {
		return invalidType("%s(): dtype is %v, which is not a type to compute with", op.Name, t)
	}
	return nil
}
