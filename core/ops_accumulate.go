package core

import (
	"fmt"

	"nvfuser_go/core/scalar"
)

// IndexPutAccumulateOp is the product of a matrix of zeros and ones, whose columns say
// where each row of value goes, with value: its class is that of products. On a device passes
// make [GroupPositionsOp], [SumPartsOp] and [SumSlicesOp] of it.
var IndexPutAccumulateOp = def(OpInfo{Name: "index_put_accumulate", Group: groupIndexing, Class: Contraction,
	Signatures: signature(Param{Name: "acc", Kind: TensorIn}, Param{Name: "index", Kind: TensorIn}, Param{Name: "value", Kind: TensorIn}),
	Promote:    Promotion{Accept: AcceptNumber},
	Expand:     expandIndexPutAccumulate, Infer: inferIndexPutAccumulate,
	AxisMap: func(f *Fusion, e *Expr, k, _ int) []int {
		m := samePositions(f.Rank(e.Args[0].Tensor))
		switch k {
		case 1:
			for i := range m {
				m[i] = -1
			}
		case 2:
			m[0] = -1
		}
		return m
	},
	Eval:      evalIndexPutAccumulate,
	Torch:     "torch.index_put(acc, (index.flatten().long(),), value, accumulate=True)",
	TorchCall: "rows.index_put_accumulate(acc, index, value)",
	Doc: "A copy of acc to which the slices of value are added: slice n along dimension 0 to that at position index[n]. " +
		"index has one dimension, or that and others of size 1 up to the number of acc's; value has its size in dimension 0 and those of acc in the others. acc and value are of one type, " +
		"floating-point, complex or integer. Slices for one position are added in the order of index, in float64, int64 or complex128, and rounded once with what was there; " +
		"on a GPU in Float where they are narrower, in their own type else, and of many for one position 64 each before the sums are. The result is the same in every run." +
		indexDoc + "adds nothing. index is of an integer type."})

// expandIndexPutAccumulate gives index one dimension.
func expandIndexPutAccumulate(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
	acc, index := args[0].Tensor, args[1].Tensor
	if n := f.Rank(index); n > 1 && n == f.Rank(acc) {
		var dims []int64
		var rules []string // of sizes that only a call knows
		for i := 1; i < n; i++ {
			dims = append(dims, int64(i))
			text := fmt.Sprintf("the size of dimension %d of index must be 1", i)
			size := f.Shape(index)[i]
			is, isConst := f.scalars.ConstValue(f.scalars.Eq(size, f.scalars.Int(1)))
			if isConst && is.I == 0 {
				return nil, invalidArgument("%s(): %s%s", op.Name, text, f.values(size, scalar.None))
			} else if !isConst {
				rules = append(rules, text)
			}
		}
		var err error
		if index, err = f.apply1(SqueezeOp, TensorOf(index), IntsOf(dims...)); err != nil {
			return nil, err
		}
		f.reword(index, rules)
	}
	return f.appendExpr(op, []Arg{args[0], TensorOf(index), args[2]})
}

func inferIndexPutAccumulate(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	acc, index, value := args[0].Tensor, args[1].Tensor, args[2].Tensor
	if err := f.checkIndex(op, "index", index); err != nil {
		return inf, err
	}
	t := f.vals[acc].DType
	if err := checkAccepted(op, "acc", t); err != nil {
		return inf, err
	}
	if v := f.vals[value].DType; v != t {
		return inf, invalidType("%s(): value is %v and acc is %v; cast one of them", op.Name, v, t)
	}
	rank := f.Rank(acc)
	switch {
	case rank == 0:
		return inf, invalidArgument("%s(): acc has no dimensions; it must have at least one", op.Name)
	case f.Rank(index) != 1:
		return inf, invalidArgument("%s(): index has %d dimensions; it must have one, or the %d of acc with size 1 everywhere but in dimension 0", op.Name, f.Rank(index), rank)
	case f.Rank(value) != rank:
		return inf, invalidArgument("%s(): value has %d dimensions and acc %d; they must have the same number", op.Name, f.Rank(value), rank)
	}
	sizes, want := f.Shape(value), append([]scalar.ID{f.Shape(index)[0]}, f.Shape(acc)[1:]...)
	var axes []AxisID
	for i, a := range f.Axes(acc) {
		of := "acc"
		if i == 0 {
			of = "index"
		}
		text := fmt.Sprintf("the size of dimension %d of value must be that of %s", i, of)
		if err := f.requireEqual(&inf, op, sizes[i], want[i], text); err != nil {
			return inf, err
		}
		axes = append(axes, f.denseAxis(a))
	}
	inf.add(t, axes)
	return inf, nil
}

func evalIndexPutAccumulate(c *Evaluation) error {
	acc, indices, value := c.In(0), c.In(1), c.In(2)
	out, err := c.Out(0)
	if err != nil {
		return err
	}
	length := NumElements(out.Shape[1:])
	sums := make([]scalar.Value, out.Len())
	for i := range sums {
		sums[i] = ConvertScalar(wide(out.Type), acc.At(int64(i)))
	}
	for n, position := range indices.I {
		if position < 0 || position >= out.Shape[0] {
			continue
		}
		for k := range length {
			add(&sums[position*length+k], value.At(int64(n)*length+k))
		}
	}
	for i, sum := range sums {
		out.Set(int64(i), ConvertScalar(out.Type, sum))
	}
	return nil
}
