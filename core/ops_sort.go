package core

import (
	"fmt"
	"slices"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

const orderDoc = " NaN counts as larger than every number and equal to itself. " +
	"Equal elements keep their order, so that the result does not depend on how it is computed."

var ArgsortOp = def(OpInfo{Name: "argsort", Group: groupSort, Class: Sort,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "dim", Kind: Dim},
		Param{Name: "descending", Kind: Flag, Optional: true, Default: Given{Kind: GivenNumber, Num: boolValue(false)}},
		Param{Name: "stable", Kind: Flag, Optional: true, Default: Given{Kind: GivenNumber, Num: boolValue(false)}}),
	Promote: Promotion{Accept: AcceptReal},
	Infer: func(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
		var inf Inference
		if err := checkAccepted(op, "arg", f.vals[args[0].Tensor].DType); err != nil {
			return inf, err
		}
		inf.add(dtype.Int, f.axesAlong(args[0].Tensor, args[1].Int))
		return inf, nil
	},
	NeedsWhole: wholeDim(1),
	Eval: func(c *Evaluation) error {
		out, err := c.Out(0)
		if err != nil {
			return err
		}
		dim := c.Expr.Args[1].Int
		eachLine(c.In(0), dim, c.Expr.Args[2].Bool(), func(at []int64, order []int64) {
			for i, position := range order {
				at[dim] = int64(i)
				out.I[Offset(out.Shape, at)] = position
			}
		})
		return nil
	},
	Torch: "torch.argsort(arg, dim=dim, descending=descending, stable=True)", TorchCall: "torch.argsort(rows.sortable(arg), dim=dim, descending=descending, stable=True)",
	Doc: "The positions (Int) along dim of the elements of arg in ascending order, or in descending order. stable has no effect." + orderDoc})

var TopkOp = def(OpInfo{Name: "topk", Results: []string{"values", "indices"}, Group: groupSort, Class: Sort,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "k", Kind: Extent},
		Param{Name: "dim", Kind: Dim, Optional: true, Default: Given{Kind: GivenNumber, Num: scalar.Value{Type: dtype.Int, I: -1}}},
		Param{Name: "largest", Kind: Flag, Optional: true, Default: Given{Kind: GivenNumber, Num: boolValue(true)}},
		Param{Name: "sorted", Kind: Flag, Optional: true, Default: Given{Kind: GivenNumber, Num: boolValue(false)}}),
	Promote: Promotion{Accept: AcceptReal},
	Infer:   inferTopk, NeedsWhole: wholeDim(2),
	AxisMap: func(f *Fusion, e *Expr, _, _ int) []int {
		m := samePositions(f.Rank(e.Args[0].Tensor))
		m[e.Args[2].Int] = -1
		return m
	},
	Eval: func(c *Evaluation) error {
		x, dim := c.In(0), c.Expr.Args[2].Int
		values, err := c.Out(0)
		if err != nil {
			return err
		}
		indices, err := c.Out(1)
		if err != nil {
			return err
		}
		k := values.Shape[dim]
		eachLine(x, dim, c.Expr.Args[3].Bool(), func(at []int64, order []int64) {
			for i, position := range order[:k] {
				at[dim] = position
				v := x.At(Offset(x.Shape, at))
				at[dim] = int64(i)
				values.Set(Offset(values.Shape, at), v)
				indices.I[Offset(indices.Shape, at)] = position
			}
		})
		return nil
	},
	Torch:     "(lambda o, a=arg, d=dim: (torch.gather(a, d, o), o))(torch.argsort(arg, dim=dim, descending=largest, stable=True).narrow(dim, 0, k))",
	TorchCall: "rows.topk(arg, k, dim, largest)",
	Doc: "The k largest (or smallest) elements of arg along dim and their positions (Int), the largest (or smallest) first whatever sorted says. " +
		"k must not be larger than the size of dim." + orderDoc})

func inferTopk(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	v, k, dim := args[0].Tensor, args[1].Scalar, args[2].Int
	t := f.vals[v].DType
	if err := checkAccepted(op, "arg", t); err != nil {
		return inf, err
	}
	size := f.Shape(v)[dim]
	text := fmt.Sprintf("k must be from 0 to the size of dimension %d", dim)
	if err := f.requireBetween(&inf, op, f.scalars.Int(0), k, size, false, text); err != nil {
		return inf, err
	}
	for _, result := range []dtype.Type{t, dtype.Int} {
		axes := make([]AxisID, f.Rank(v))
		for i, a := range f.Axes(v) {
			if int64(i) == dim {
				axes[i] = f.sizeAxis(k)
			} else {
				axes[i] = f.copyAxis(a)
			}
		}
		inf.add(result, axes)
	}
	return inf, nil
}

// eachLine calls yield for each line of x along dim with an index of one of its
// elements, which it may change at dim, and the positions along dim in order.
func eachLine(x *Array, dim int64, descending bool, yield func(at, order []int64)) {
	lines := slices.Clone(x.Shape)
	lines[dim] = 1
	order := make([]int64, x.Shape[dim])
	EachIndex(lines, func(index []int64) {
		at := slices.Clone(index)
		element := func(position int64) scalar.Value {
			at[dim] = position
			return x.At(Offset(x.Shape, at))
		}
		for i := range order {
			order[i] = int64(i)
		}
		slices.SortStableFunc(order, func(a, b int64) int {
			c := compareValues(element(a), element(b))
			if descending {
				return -c
			}
			return c
		})
		yield(at, order)
	})
}

// compareValues orders two real numbers of one type; NaN comes last.
func compareValues(a, b scalar.Value) int {
	less := func(a, b scalar.Value) bool {
		switch a.Type.Class() {
		case dtype.ClassFloat:
			return a.Re < b.Re || a.Re == a.Re && b.Re != b.Re
		case dtype.ClassUInt:
			return uint64(a.I) < uint64(b.I)
		}
		return a.I < b.I
	}
	switch {
	case less(a, b):
		return -1
	case less(b, a):
		return 1
	}
	return 0
}
