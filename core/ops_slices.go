package core

import (
	"slices"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// GroupPositionsOp and SumSlicesOp are the two steps of [IndexPutAccumulateOp] on a device:
// what the index alone decides, and sums that a kernel computes from the side of the result.
// Passes make them; the underscore tells callers that they are not theirs.
var GroupPositionsOp = def(OpInfo{Name: "_group_positions", Results: []string{"order", "begin"}, Group: groupSort, Class: Sort,
	Signatures: signature(Param{Name: "index", Kind: TensorIn}, Param{Name: "size", Kind: Extent}),
	Infer: func(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
		var inf Inference
		index, size := args[0].Tensor, args[1].Scalar
		if err := f.checkIndex(op, "index", index); err != nil {
			return inf, err
		}
		if n := f.Rank(index); n != 1 {
			return inf, invalidArgument("%s(): index has %d dimensions; it must have one", op.Name, n)
		}
		if err := f.require(&inf, op, f.scalars.Le(f.scalars.Int(0), size), size, f.scalars.Int(0), "size must not be negative"); err != nil {
			return inf, err
		}
		inf.add(dtype.Int, []AxisID{f.denseAxis(f.Axes(index)[0])})
		inf.add(dtype.Int, []AxisID{f.iterAxis(f.scalars.Add(size, f.scalars.Int(1)))})
		return inf, nil
	},
	AxisMap:    func(*Fusion, *Expr, int, int) []int { return []int{-1} },
	NeedsWhole: func(*Fusion, *Expr) []int { return []int{0} },
	Eval: func(c *Evaluation) error {
		order, err := c.Out(0)
		if err != nil {
			return err
		}
		begin, err := c.Out(1)
		if err != nil {
			return err
		}
		copy(order.I, GroupPositions(c.In(0).I, begin.I))
		return nil
	},
	Torch: "(lambda i, n: (torch.argsort(torch.where((i >= 0) & (i < n), i, n), stable=True), " +
		"torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(i[(i >= 0) & (i < n)], minlength=n).cumsum(0)])))(index.long(), size)",
	TorchCall: "rows.group_positions(index, size)",
	Doc: "The numbers of the elements of index (Int) in ascending order of the elements, equal ones in their order, with those last that are negative or not less than size; " +
		"and size + 1 places in that order (Int): where each position from 0 on begins, and where the last one ends. index is of an integer type and has one dimension. " +
		"A pass makes it of index_put_accumulate(); nvFuser has no such operation."})

// GroupPositions returns the numbers of the elements of index in order of them, with those last
// that are no position of a dimension of len(begin)-1 elements, and sets begin to where each
// position begins in it, and the last one ends.
func GroupPositions(index, begin []int64) []int64 {
	size := int64(len(begin)) - 1
	clear(begin)
	for _, p := range index {
		if p >= 0 && p < size {
			begin[p+1]++
		}
	}
	for p := range size {
		begin[p+1] += begin[p]
	}
	next, outside := slices.Clone(begin), begin[size]
	order := make([]int64, len(index))
	for i, p := range index {
		at := &outside
		if p >= 0 && p < size {
			at = &next[p]
		}
		order[*at] = int64(i)
		*at++
	}
	return order
}

var SumSlicesOp = def(OpInfo{Name: "_sum_slices", Group: groupIndexing, Class: Gather,
	Signatures: signature(Param{Name: "acc", Kind: TensorIn}, Param{Name: "order", Kind: TensorIn}, Param{Name: "begin", Kind: TensorIn},
		Param{Name: "value", Kind: TensorIn}),
	Promote: Promotion{Accept: AcceptNumber},
	Infer:   inferSumSlices,
	AxisMap: func(f *Fusion, e *Expr, k, _ int) []int {
		m := samePositions(f.Rank(e.Args[0].Tensor))
		for i := range m {
			if k == 1 || k == 2 || k == 3 && i == 0 {
				m[i] = -1
			}
		}
		return m
	},
	Eval: evalSumSlices,
	Torch: "(lambda a, o, b, v: torch.stack([a[i] + v[[int(p) for p in o[max(b[i], 0):max(b[i + 1], 0)] if 0 <= p < len(v)]].sum(0, dtype=a.dtype) for i in range(len(a))])" +
		" if len(a) else a)(acc, order.long(), begin.long(), value)",
	TorchCall: "rows.sum_slices(acc, order, begin, value)",
	Doc: "A copy of acc to which slices of value along dimension 0 are added: to slice i those whose numbers are in order from place begin[i] to before begin[i+1]; begin ascends. " +
		"Numbers that value has no slice of are left out, and so are places that order does not have. order has the size of value in dimension 0, and begin one element more than that of acc; both are of Int. " +
		"Sums are as those of index_put_accumulate(), of which a pass makes it; nvFuser has no such operation."})

func inferSumSlices(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	acc, order, begin, value := args[0].Tensor, args[1].Tensor, args[2].Tensor, args[3].Tensor
	t := f.vals[acc].DType
	if err := checkAccepted(op, "acc", t); err != nil {
		return inf, err
	}
	if v := f.vals[value].DType; v != t {
		return inf, invalidType("%s(): value is %v and acc is %v; cast one of them", op.Name, v, t)
	}
	for i, v := range []ValID{order, begin} {
		if x := f.vals[v].DType; x != dtype.Int {
			return inf, invalidType("%s(): %s is %v and must be Int", op.Name, op.Params()[i+1].Name, x)
		}
		if n := f.Rank(v); n != 1 {
			return inf, invalidArgument("%s(): %s has %d dimensions; it must have one", op.Name, op.Params()[i+1].Name, n)
		}
	}
	rank := f.Rank(acc)
	if rank == 0 || f.Rank(value) != rank {
		return inf, invalidArgument("%s(): acc has %d dimensions and value %d; they must have the same number, and at least one", op.Name, rank, f.Rank(value))
	}
	rows := f.Shape(acc)[0]
	if err := f.requireEqual(&inf, op, f.Shape(begin)[0], f.scalars.Add(rows, f.scalars.Int(1)), "the size of begin must be that of dimension 0 of acc and 1"); err != nil {
		return inf, err
	}
	sizes, want := f.Shape(value), append([]scalar.ID{f.Shape(order)[0]}, f.Shape(acc)[1:]...)
	var axes []AxisID
	for i, a := range f.Axes(acc) {
		if err := f.requireEqual(&inf, op, sizes[i], want[i], "the sizes of value must be those of order, and of acc but the first"); err != nil {
			return inf, err
		}
		axes = append(axes, f.denseAxis(a))
	}
	inf.add(t, axes)
	return inf, nil
}

func evalSumSlices(c *Evaluation) error {
	acc, order, begin, value := c.In(0), c.In(1), c.In(2), c.In(3)
	out, err := c.Out(0)
	if err != nil {
		return err
	}
	length, i := NumElements(out.Shape[1:]), int64(0)
	for row := range out.Shape[0] {
		numbers := SlicesOf(order.I, begin.I[row], begin.I[row+1])
		for k := range length {
			sum := ConvertScalar(wide(out.Type), acc.At(i))
			for _, n := range numbers {
				if n >= 0 && n < value.Shape[0] {
					add(&sum, value.At(n*length+k))
				}
			}
			out.Set(i, ConvertScalar(out.Type, sum))
			i++
		}
	}
	return nil
}

// SlicesOf returns the part of order from begin to before end, as far as there is one.
func SlicesOf(order []int64, begin, end int64) []int64 {
	n := int64(len(order))
	begin, end = min(max(begin, 0), n), min(max(end, 0), n)
	return order[begin:max(begin, end)]
}

// Updates reports whether the result of an operation is its first operand, which it reads where
// the result is, but where the others say.
func (i *OpInfo) Updates() bool { return i == ScatterOp || i == SumSlicesOp }
