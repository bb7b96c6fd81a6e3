package core

import (
	"slices"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// GroupPositionsOp, SumPartsOp and SumSlicesOp are the steps of [IndexPutAccumulateOp] on a
// device: what the index alone decides, sums of parts of long lists, and sums that a kernel
// computes from the side of the result. Passes make them; the underscore tells callers that they
// are not theirs.
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
	Torch:     "(lambda i, n: (torch.argsort(i.clamp(-1, n), stable=True), torch.searchsorted(i.clamp(-1, n).sort()[0], torch.arange(n + 1))))(index.long(), size)",
	TorchCall: "rows.group_positions(index, size)",
	Doc: "The numbers of the elements of index (Int) in ascending order of the elements, equal ones in their order, as are the negative ones, which are first, and those not less than size, which are last; " +
		"and size + 1 places in that order (Int): where each position from 0 on begins, and where the last one ends. index is of an integer type and has one dimension. " +
		"A pass makes it of index_put_accumulate(); nvFuser has no such operation."})

// GroupPositions returns the numbers of the elements of index in order of them, with negative ones
// first and those last that are not less than len(begin)-1, and sets begin to where each position
// begins in it, and the last one ends.
func GroupPositions(index, begin []int64) []int64 {
	size := int64(len(begin)) - 1
	next := make([]int64, size+3) // by position from -1 to size, of which two are none
	for _, p := range index {
		next[min(max(p, -1), size)+2]++
	}
	for i := range size + 2 {
		next[i+1] += next[i]
	}
	copy(begin, next[1:])
	order := make([]int64, len(index))
	for i, p := range index {
		at := &next[min(max(p, -1), size)+1]
		order[*at] = int64(i)
		*at++
	}
	return order
}

var SumSlicesOp = def(OpInfo{Name: "_sum_slices", Group: groupIndexing, Class: Gather,
	Signatures: signature(Param{Name: "acc", Kind: TensorIn}, Param{Name: "order", Kind: TensorIn}, Param{Name: "begin", Kind: TensorIn},
		Param{Name: "value", Kind: TensorIn}, Param{Name: "parts", Kind: TensorIn}),
	Promote: Promotion{Accept: AcceptNumber},
	Infer:   inferSumSlices,
	AxisMap: func(f *Fusion, e *Expr, k, _ int) []int {
		switch k {
		case 0:
			return samePositions(f.Rank(e.Args[0].Tensor))
		case 1, 2:
			return noPositions(f.Rank(e.Args[0].Tensor))
		}
		return withinSlices(f.Rank(e.Args[0].Tensor))
	},
	Eval: evalSumSlices,
	Torch: "(lambda a, o, b, v, p: torch.stack([sum((t.to(a.dtype) for t in [v[n] for at in (*range(x, y), *range(z, e)) for n in [int(o[at])] if 0 <= n < len(v)]" +
		" + [*p[y // 64:z // 64]]), a[i]) for i in range(len(a)) for x, e in [[min(max(int(n), 0), len(o)) for n in b[i:i + 2]]]" +
		" for y in [min(e, -(-x // 64) * 64)] for z in [max(y, e // 64 * 64)]]) if len(a) else a)(acc, order.long(), begin.long(), value, parts)",
	TorchCall: "rows.sum_slices(acc, order, begin, value, parts)",
	Doc: "A copy of acc to which slices of value along dimension 0 are added: to slice i those whose numbers are in order from place begin[i] to before begin[i+1]; begin ascends. " +
		"Of 64 places from a multiple of 64 on that are all among them slice n of parts is added, n times 64 being the first, as _sum_parts() computes it, after the others. " +
		"Numbers that value has no slice of are left out, and so are places that order does not have. order has the size of value in dimension 0, and begin one element more than that of acc; both are of Int. " +
		"Sums are as those of index_put_accumulate(), of which a pass makes it; nvFuser has no such operation."})

// PlacesOfPart is how many places of an order, and so slices, a part has: the length of the
// longest chain of additions in it. Lists of fewer are added one by one, those of up to twice as
// many may be.
const PlacesOfPart = 64

var SumPartsOp = def(OpInfo{Name: "_sum_parts", Group: groupIndexing, Class: Gather,
	Signatures: signature(Param{Name: "index", Kind: TensorIn}, Param{Name: "order", Kind: TensorIn}, Param{Name: "value", Kind: TensorIn}, Param{Name: "size", Kind: Extent}),
	Promote:    Promotion{Accept: AcceptNumber, Skip: 2},
	Infer:      inferSumParts,
	AxisMap: func(f *Fusion, e *Expr, k, _ int) []int {
		if k < 2 {
			return noPositions(f.Rank(e.Args[2].Tensor))
		}
		return withinSlices(f.Rank(e.Args[2].Tensor))
	},
	Eval: evalSumParts,
	Torch: "(lambda i, o, v, n, t: torch.stack([sum((v[k].to(t) for k in p if 0 <= k < len(v)" +
		" if all(0 <= e < len(v) and i[e] == i[p[0]] and 0 <= i[e] < n for e in (p[0], p[-1]))), torch.zeros(v.shape[1:], dtype=t)) for p in o.view(-1, 64).tolist()])" +
		" if len(o) else torch.zeros((0, *v.shape[1:]), dtype=t))(index.long(), order[:len(order) // 64 * 64].long(), value, size, " +
		"torch.float32 if value.dtype.is_floating_point and value.dtype.itemsize < 4 else value.dtype)",
	TorchCall: "rows.sum_parts(index, order, value, size)",
	Doc: "Sums of 64 slices of value along dimension 0 each: result n is that of those whose numbers are in order from place 64 n on, if the first and the last one have one position in index, from 0 to below size; else it is 0. " +
		"Numbers that value has no slice of are left out; places of order behind the last 64 are in no result. index and order have the size of value in dimension 0; index is of an integer type and order of Int. " +
		"The results are of the type of value, of Float where that is a narrower floating-point type. A pass makes it of index_put_accumulate(); nvFuser has no such operation."})

// noPositions maps no dimension of an operand to those of a result of a rank.
func noPositions(rank int) []int {
	m := make([]int, rank)
	for i := range m {
		m[i] = -1
	}
	return m
}

// withinSlices maps all dimensions but the first.
func withinSlices(rank int) []int {
	m := samePositions(rank)
	m[0] = -1
	return m
}

// checkOrder returns an error unless v is a tensor of Int with one dimension.
func (f *Fusion) checkOrder(op *OpInfo, param string, v ValID) error {
	if x := f.vals[v].DType; x != dtype.Int {
		return invalidType("%s(): %s is %v and must be Int", op.Name, param, x)
	}
	if n := f.Rank(v); n != 1 {
		return invalidArgument("%s(): %s has %d dimensions; it must have one", op.Name, param, n)
	}
	return nil
}

// partsOf returns how many parts an order of a size has.
func (f *Fusion) partsOf(size scalar.ID) scalar.ID {
	return f.scalars.FloorDiv(size, f.scalars.Int(PlacesOfPart))
}

func inferSumParts(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	index, order, value, size := args[0].Tensor, args[1].Tensor, args[2].Tensor, args[3].Scalar
	if err := f.checkIndex(op, "index", index); err != nil {
		return inf, err
	}
	if n := f.Rank(index); n != 1 {
		return inf, invalidArgument("%s(): index has %d dimensions; it must have one", op.Name, n)
	}
	if err := f.checkOrder(op, "order", order); err != nil {
		return inf, err
	}
	if f.Rank(value) == 0 {
		return inf, invalidArgument("%s(): value has no dimensions; it must have at least one", op.Name)
	}
	count := f.Shape(value)[0]
	for _, v := range []ValID{index, order} {
		if err := f.requireEqual(&inf, op, f.Shape(v)[0], count, "the sizes of index, order and dimension 0 of value must be equal"); err != nil {
			return inf, err
		}
	}
	if err := f.require(&inf, op, f.scalars.Le(f.scalars.Int(0), size), size, f.scalars.Int(0), "size must not be negative"); err != nil {
		return inf, err
	}
	axes := []AxisID{f.iterAxis(f.partsOf(count))}
	for _, a := range f.Axes(value)[1:] {
		axes = append(axes, f.denseAxis(a))
	}
	inf.add(widen(f.vals[value].DType), axes)
	return inf, nil
}

func evalSumParts(c *Evaluation) error {
	index, order, value := c.In(0), c.In(1), c.In(2)
	size, err := c.Int(c.Expr.Args[3].Scalar)
	if err != nil {
		return err
	}
	out, err := c.Out(0)
	if err != nil {
		return err
	}
	length, i := NumElements(out.Shape[1:]), int64(0)
	for part := range out.Shape[0] {
		numbers := NumbersOfPart(index.I, order.I[part*PlacesOfPart:][:PlacesOfPart], size)
		for k := range length {
			sum := scalar.Value{Type: wide(out.Type)}
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

// NumbersOfPart returns numbers, those of the slices of a part, if they are all of one position
// below size; else none.
func NumbersOfPart(index, numbers []int64, size int64) []int64 {
	first, last := numbers[0], numbers[len(numbers)-1]
	for _, n := range []int64{first, last} {
		if n < 0 || n >= int64(len(index)) || index[n] < 0 || index[n] >= size || index[n] != index[first] {
			return nil
		}
	}
	return numbers
}

func inferSumSlices(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	acc, order, begin, value, parts := args[0].Tensor, args[1].Tensor, args[2].Tensor, args[3].Tensor, args[4].Tensor
	t := f.vals[acc].DType
	if err := checkAccepted(op, "acc", t); err != nil {
		return inf, err
	}
	if v := f.vals[value].DType; v != t {
		return inf, invalidType("%s(): value is %v and acc is %v; cast one of them", op.Name, v, t)
	}
	if p := f.vals[parts].DType; p != widen(t) {
		return inf, invalidType("%s(): parts is %v and must be %v, as value is %v", op.Name, p, widen(t), t)
	}
	for i, v := range []ValID{order, begin} {
		if err := f.checkOrder(op, op.Params()[i+1].Name, v); err != nil {
			return inf, err
		}
	}
	rank := f.Rank(acc)
	for i, v := range []ValID{value, parts} {
		if n := f.Rank(v); rank == 0 || n != rank {
			return inf, invalidArgument("%s(): acc has %d dimensions and %s %d; they must have the same number, and at least one", op.Name, rank, op.Params()[i+3].Name, n)
		}
	}
	rows := f.Shape(acc)[0]
	if err := f.requireEqual(&inf, op, f.Shape(begin)[0], f.scalars.Add(rows, f.scalars.Int(1)), "the size of begin must be that of dimension 0 of acc and 1"); err != nil {
		return inf, err
	}
	count := f.Shape(order)[0]
	var axes []AxisID
	for i, a := range f.Axes(acc) {
		size, some := f.Shape(acc)[i], f.Shape(acc)[i]
		if i == 0 {
			size, some = count, f.partsOf(count)
		}
		if err := f.requireEqual(&inf, op, f.Shape(value)[i], size, "the sizes of value must be those of order, and of acc but the first"); err != nil {
			return inf, err
		}
		if err := f.requireEqual(&inf, op, f.Shape(parts)[i], some, "the sizes of parts must be a 64th of that of order, and those of acc but the first"); err != nil {
			return inf, err
		}
		axes = append(axes, f.denseAxis(a))
	}
	inf.add(t, axes)
	return inf, nil
}

func evalSumSlices(c *Evaluation) error {
	acc, order, begin, value, parts := c.In(0), c.In(1), c.In(2), c.In(3), c.In(4)
	out, err := c.Out(0)
	if err != nil {
		return err
	}
	length, i := NumElements(out.Shape[1:]), int64(0)
	for row := range out.Shape[0] {
		numbers, from, to := SlicesOf(order.I, begin.I[row], begin.I[row+1])
		for k := range length {
			sum := ConvertScalar(wide(out.Type), acc.At(i))
			for _, n := range numbers {
				if n >= 0 && n < value.Shape[0] {
					add(&sum, value.At(n*length+k))
				}
			}
			for n := from; n < to; n++ {
				add(&sum, parts.At(n*length+k))
			}
			out.Set(i, ConvertScalar(out.Type, sum))
			i++
		}
	}
	return nil
}

// SlicesOf returns what is added for the places of order from begin to before end, as far as there
// are such: numbers of slices, one by one, and then the parts from one to before another.
func SlicesOf(order []int64, begin, end int64) (numbers []int64, from, to int64) {
	n := int64(len(order))
	begin = min(max(begin, 0), n)
	end = max(begin, min(end, n))
	from = (begin + PlacesOfPart - 1) / PlacesOfPart
	if to = end / PlacesOfPart; to <= from {
		return order[begin:end], 0, 0
	}
	return slices.Concat(order[begin:from*PlacesOfPart], order[to*PlacesOfPart:end]), from, to
}

// SumsListed reports whether the results of an operation are sums of slices that an operand lists.
func (i *OpInfo) SumsListed() bool { return i == SumSlicesOp || i == SumPartsOp }

// Updates reports whether the result of an operation is its first operand, which it reads where
// the result is, but where the others say.
func (i *OpInfo) Updates() bool { return i == ScatterOp || i == SumSlicesOp }
