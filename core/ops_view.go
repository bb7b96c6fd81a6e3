package core

import (
	"fmt"

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
		return inf, invalidArgument("broadcast(): is_broadcast_dim has %d entries that are False, and arg has %d dimensions", next, len(in))
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
		"shape has one entry a dimension. No memory is written: the stride of an expanded dimension is 0."})

// expandExpand replaces -1 by the size that it stands for.
func expandExpand(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
	sizes := f.Shape(args[0].Tensor)
	shape := append([]scalar.ID(nil), args[1].Scalars...)
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
	one := f.scalars.Int(1)
	for i, want := range args[1].Scalars {
		a := f.axes[in[i]]
		size := f.Size(in[i])
		switch {
		case want == size:
			axes[i] = f.copyAxis(in[i])
			continue
		case a.Kind == Broadcast && a.Expanded == scalar.None || size == one:
			axes[i] = f.broadcastAxis(want)
			continue
		}
		// The sizes must be equal, or arg's is 1 when the sizes are known.
		cond := f.scalars.Or(f.scalars.Eq(size, want), f.scalars.Eq(size, one))
		if err := f.require(&inf, op, cond, size, want, fmt.Sprintf("the size of dimension %d must be 1 or that of shape", i)); err != nil {
			return inf, err
		}
		axes[i] = f.copyAxis(in[i])
		switch {
		case a.Kind == Broadcast:
			f.axes[axes[i]].Expanded = want
		default:
			f.axes[axes[i]].Extent = want
			if !f.isConst(size) {
				f.axes[axes[i]].Kind = Symbolic
			}
		}
	}
	inf.add(f.vals[v].DType, axes)
	return inf, nil
}
