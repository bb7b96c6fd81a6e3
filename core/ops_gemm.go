package core

import (
	"fmt"
	"slices"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

const productDoc = " Operands have one type, which is that of the result: floating-point, complex or integer. " +
	"Products are summed in float64, complex128 or int64 and rounded once; the sum of none is 0."

// The results of matrix products have the summed axis as the last of their
// root axes, of Kind Reduce.

var MatmulOp = def(OpInfo{Name: "matmul", Group: groupGemm, Class: Contraction,
	Signatures: signature(Param{Name: "arg1", Kind: TensorIn}, Param{Name: "arg2", Kind: TensorIn}),
	Promote:    Promotion{Accept: AcceptNumber},
	Infer:      inferMatmul,
	NeedsWhole: func(f *Fusion, e *Expr) []int { return []int{f.Rank(e.Args[0].Tensor) - 1} },
	AxisMap:    matmulMap,
	Eval:       evalProduct,
	Torch:      "torch.matmul(arg1, arg2)", TorchCall: "rows.matmul(arg1, arg2)",
	Doc: "The matrix product of arg1 and arg2 over the last dimension of arg1 and the last but one of arg2, as torch.matmul: " +
		"dimensions before the last two are a batch and broadcast; an operand of one dimension is a vector, whose dimension the result does not have." + productDoc})

var LinearOp = def(OpInfo{Name: "linear", Group: groupGemm, Class: Contraction,
	Signatures: signature(Param{Name: "arg1", Kind: TensorIn}, Param{Name: "arg2", Kind: TensorIn},
		Param{Name: "bias", Kind: TensorIn, Optional: true}),
	Promote:    Promotion{Accept: AcceptNumber},
	Infer:      inferLinear,
	NeedsWhole: func(f *Fusion, e *Expr) []int { return []int{f.Rank(e.Args[0].Tensor) - 1} },
	AxisMap: func(f *Fusion, e *Expr, k, _ int) []int {
		n := f.Rank(e.Args[0].Tensor) - 1
		outputs := f.Rank(e.Args[1].Tensor) - 1 // 1, or 0 for a vector
		m := samePositions(n + outputs + 1)
		switch k {
		case 0:
			for i := n; i < len(m); i++ {
				m[i] = -1
			}
			m[len(m)-1] = n
		default:
			for i := range m {
				m[i] = max(i-n, -1)
			}
			if k == 2 {
				m[len(m)-1] = -1
			}
		}
		return m
	},
	Eval:      evalProduct,
	Torch:     "F.linear(arg1, arg2, bias) if arg2.ndim == 2 else torch.matmul(arg1, arg2) + (0 if bias is None else bias)",
	TorchCall: "rows.linear(arg1, arg2, bias)",
	Doc: "The product of arg1 and the transpose of arg2 over the last dimension of each, plus bias. arg2 is a matrix [outputs, inputs] with bias [outputs], " +
		"or a vector [inputs] with a 0-dimensional bias; the result has the dimensions of arg1 but the last, and outputs." + productDoc})

var GroupedMmOp = def(OpInfo{Name: "grouped_mm", Group: groupGemm, Class: Contraction,
	Signatures: signature(Param{Name: "mat1", Kind: TensorIn}, Param{Name: "mat2", Kind: TensorIn}, Param{Name: "offsets", Kind: TensorIn}),
	Promote:    Promotion{Accept: AcceptNumber},
	Infer:      inferGroupedMm,
	NeedsWhole: func(f *Fusion, e *Expr) []int {
		if f.Rank(e.Args[0].Tensor) == 3 {
			return []int{0, 2}
		}
		return []int{1}
	},
	AxisMap:   groupedMap,
	Eval:      evalGroupedMm,
	TorchCall: "rows.grouped_mm(mat1, mat2, offsets)",
	// torch._grouped_mm takes no strides that are not multiples of 16 bytes.
	Torch: "(lambda a, b, e: " +
		"torch.cat([a[s:t] @ b[g] for g, (s, t) in enumerate(zip(e, e[1:]))] + [a.new_zeros(max(a.shape[0] - e[-1], 0), b.shape[2])]) if b.ndim == 3 else " +
		"torch.cat([a[g] @ b[:, s:t] for g, (s, t) in enumerate(zip(e, e[1:]))] + [a.new_zeros(a.shape[1], max(b.shape[1] - e[-1], 0))], 1) if a.ndim == 3 else " +
		"torch.stack([a[:, s:t] @ b[s:t] for s, t in zip(e, e[1:])]))(mat1, mat2, [0] + offsets.tolist())",
	Doc: "Matrix products of groups, as torch._grouped_mm. offsets [groups], of an integer type, holds the position after the last of each group, ascending. " +
		"mat1 [rows, k] and mat2 [groups, k, n]: each row times the matrix of its group, [rows, n]. " +
		"mat1 [groups, m, k] and mat2 [k, columns]: the matrix of its group times each column, [m, columns]. " +
		"mat1 [m, k] and mat2 [k, n]: a product for each group, over the part of k that it has, [groups, m, n]. " +
		"A position belongs to the first group whose offset is greater; one behind all offsets belongs to none: it is not summed, and a row or column of the result there is 0." + productDoc})

// productType returns the type that the tensors among args share.
func (f *Fusion) productType(op *OpInfo, args []Arg) (dtype.Type, error) {
	t := f.vals[args[0].Tensor].DType
	if err := checkAccepted(op, op.Params()[0].Name, t); err != nil {
		return t, err
	}
	for i, a := range args {
		if a.Kind == TensorArg && f.vals[a.Tensor].DType != t {
			return t, invalidType("%s(): %s is %v and %s is %v; cast one of them", op.Name,
				op.Params()[0].Name, t, op.Params()[i].Name, f.vals[a.Tensor].DType)
		}
	}
	return t, nil
}

// summedAxis returns the Reduce axis of a product over axis a of argument i and
// axis b of argument j, whose sizes must be equal.
func (f *Fusion) summedAxis(inf *Inference, op *OpInfo, i int, a AxisID, j int, b AxisID) (AxisID, error) {
	x, y := f.Size(a), f.Size(b)
	text := fmt.Sprintf("the sizes of the summed dimensions of %s and %s must be equal", op.Params()[i].Name, op.Params()[j].Name)
	if err := f.requireEqual(inf, op, x, y, text); err != nil {
		return NoAxis, err
	}
	if f.isConst(y) {
		x = y
	}
	return f.reduceAxis(x), nil
}

func inferMatmul(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	t, err := f.productType(op, args)
	if err != nil {
		return inf, err
	}
	a, b := f.Axes(args[0].Tensor), f.Axes(args[1].Tensor)
	for i, n := range []int{len(a), len(b)} {
		if n == 0 {
			return inf, invalidArgument("matmul(): %s has no dimensions; it must have at least one", op.Params()[i].Name)
		}
	}
	batchA, batchB := a[:max(len(a)-2, 0)], b[:max(len(b)-2, 0)]
	var axes []AxisID
	for n := max(len(batchA), len(batchB)); n > 0; n-- { // counted from the right
		var parts []AxisID
		for _, batch := range [][]AxisID{batchA, batchB} {
			if n <= len(batch) {
				parts = append(parts, batch[len(batch)-n])
			}
		}
		axis, err := f.combine(&inf, op, parts, func() string { return "sizes of the batch dimensions must be equal or broadcast" })
		if err != nil {
			return inf, err
		}
		f.materialise(axis)
		axes = append(axes, axis)
	}
	if len(a) > 1 {
		axes = append(axes, f.denseAxis(a[len(a)-2]))
	}
	if len(b) > 1 {
		axes = append(axes, f.denseAxis(b[len(b)-1]))
	}
	k, err := f.summedAxis(&inf, op, 0, a[len(a)-1], 1, b[max(len(b)-2, 0)])
	if err != nil {
		return inf, err
	}
	inf.add(t, append(axes, k))
	return inf, nil
}

func matmulMap(f *Fusion, e *Expr, k, _ int) []int {
	a, b := f.Rank(e.Args[0].Tensor), f.Rank(e.Args[1].Tensor)
	batchA, batchB := max(a-2, 0), max(b-2, 0)
	batch := max(batchA, batchB)
	var m []int
	for i := range batch {
		own := batchA
		if k == 1 {
			own = batchB
		}
		m = append(m, max(i-(batch-own), -1))
	}
	rows, columns, sum := a-2, -1, a-1
	if k == 1 {
		rows, columns, sum = -1, b-1, batchB
	}
	if a > 1 {
		m = append(m, rows)
	}
	if b > 1 {
		m = append(m, columns)
	}
	return append(m, sum)
}

func inferLinear(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	t, err := f.productType(op, args)
	if err != nil {
		return inf, err
	}
	a, b := f.Axes(args[0].Tensor), f.Axes(args[1].Tensor)
	switch {
	case len(a) == 0:
		return inf, invalidArgument("linear(): arg1 has no dimensions; it must have at least one")
	case len(b) != 1 && len(b) != 2:
		return inf, invalidArgument("linear(): arg2 has %d dimensions; it must have 2, or 1 for a single output", len(b))
	}
	var axes []AxisID
	for _, x := range a[:len(a)-1] {
		axes = append(axes, f.denseAxis(x))
	}
	outputs := b[:len(b)-1]
	for _, x := range outputs {
		axes = append(axes, f.denseAxis(x))
	}
	k, err := f.summedAxis(&inf, op, 0, a[len(a)-1], 1, b[len(b)-1])
	if err != nil {
		return inf, err
	}
	if args[2].Kind != NoArg {
		bias := f.Axes(args[2].Tensor)
		if len(bias) != len(outputs) {
			return inf, invalidArgument("linear(): bias has %d dimensions; beside arg2 with %d it must have %d", len(bias), len(b), len(outputs))
		}
		for i, x := range bias {
			if err := f.requireEqual(&inf, op, f.Size(x), f.Size(outputs[i]), "the size of bias must be that of dimension 0 of arg2"); err != nil {
				return inf, err
			}
		}
	}
	inf.add(t, append(axes, k))
	return inf, nil
}

// addProduct adds a*b to the accumulator acc. Go would fuse the multiplication
// with the addition on some machines if the product were not converted.
func addProduct(acc *scalar.Value, a, b scalar.Value) {
	p := asComplex(a) * asComplex(b)
	switch acc.Type.Class() {
	case dtype.ClassFloat:
		add(acc, scalar.Value{Re: float64(a.Re * b.Re)})
	case dtype.ClassComplex:
		add(acc, scalar.Value{Re: real(p), Im: imag(p)})
	default:
		add(acc, scalar.Value{I: a.I * b.I})
	}
}

// add adds v, of acc's class, to the accumulator acc.
func add(acc *scalar.Value, v scalar.Value) {
	if acc.Type.IsInt() {
		acc.I = dtype.WrapInt(acc.Type, acc.I+v.I)
		return
	}
	acc.Re += v.Re
	acc.Im += v.Im
}

// evalProduct evaluates matmul and linear from their axis maps: operands 0 and
// 1 are multiplied and summed over the last root axis, operand 2 is added.
func evalProduct(c *Evaluation) error {
	e := c.Expr
	out, err := c.Out(0)
	if err != nil {
		return err
	}
	operands := c.f.TensorArgs(e)
	reads := make([]func(point []int64) scalar.Value, len(operands))
	for k, v := range operands {
		x, m := c.arrays[v], e.Op.AxisMap(c.f, e, k, 0)
		at := make([]int64, len(x.Shape))
		reads[k] = func(point []int64) scalar.Value {
			for root, axis := range m {
				if axis >= 0 {
					at[axis] = point[root]
				}
			}
			return x.At(broadcastOffset(x.Shape, at))
		}
	}
	x := c.arrays[operands[0]]
	summed, i := x.Shape[len(x.Shape)-1], int64(0)
	EachIndex(out.Shape, func(index []int64) {
		acc := scalar.Value{Type: wide(out.Type)}
		point := append(slices.Clone(index), 0)
		for k := range summed {
			point[len(index)] = k
			addProduct(&acc, reads[0](point), reads[1](point))
		}
		if len(reads) == 3 {
			add(&acc, reads[2](point))
		}
		out.Set(i, ConvertScalar(out.Type, acc))
		i++
	})
	return nil
}

func inferGroupedMm(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	t, err := f.productType(op, args[:2])
	if err != nil {
		return inf, err
	}
	if err := f.checkIndex(op, "offsets", args[2].Tensor); err != nil {
		return inf, err
	}
	a, b, offsets := f.Axes(args[0].Tensor), f.Axes(args[1].Tensor), f.Axes(args[2].Tensor)
	if len(offsets) != 1 {
		return inf, invalidArgument("grouped_mm(): offsets has %d dimensions; it must have one", len(offsets))
	}
	equalGroups := func(x AxisID, name string) error {
		return f.requireEqual(&inf, op, f.Size(offsets[0]), f.Size(x), "the size of offsets must be that of dimension 0 of "+name)
	}
	var axes []AxisID
	var sumA, sumB AxisID
	switch {
	case len(a) == 2 && len(b) == 3:
		err = equalGroups(b[0], "mat2")
		axes, sumA, sumB = []AxisID{a[0], b[2]}, a[1], b[1]
	case len(a) == 3 && len(b) == 2:
		err = equalGroups(a[0], "mat1")
		axes, sumA, sumB = []AxisID{a[1], b[1]}, a[2], b[0]
	case len(a) == 2 && len(b) == 2:
		axes, sumA, sumB = []AxisID{offsets[0], a[0], b[1]}, a[1], b[0]
	default:
		return inf, invalidArgument("grouped_mm(): mat1 has %d dimensions and mat2 %d; they must have 2 and 3, 3 and 2, or 2 and 2", len(a), len(b))
	}
	if err != nil {
		return inf, err
	}
	for i := range axes {
		axes[i] = f.denseAxis(axes[i])
	}
	k, err := f.summedAxis(&inf, op, 0, sumA, 1, sumB)
	if err != nil {
		return inf, err
	}
	inf.add(t, append(axes, k))
	return inf, nil
}

func groupedMap(f *Fusion, e *Expr, k, _ int) []int {
	a, b := f.Rank(e.Args[0].Tensor), f.Rank(e.Args[1].Tensor)
	maps := [3][]int{{0, -1, 1}, {-1, 2, 1}, {-1, -1, -1}}
	switch {
	case a == 3:
		maps = [3][]int{{1, -1, 2}, {-1, 1, 0}, {-1, -1, -1}}
	case b == 2:
		maps = [3][]int{{-1, 0, -1, 1}, {-1, -1, 1, 0}, {-1, -1, -1, -1}}
	}
	return maps[k]
}

func evalGroupedMm(c *Evaluation) error {
	a, b, offsets := c.In(0), c.In(1), c.In(2)
	out, err := c.Out(0)
	if err != nil {
		return err
	}
	// group returns the group of a position, or -1.
	group := func(position int64) int64 {
		for g, end := range offsets.I {
			if position < end {
				return int64(g)
			}
		}
		return -1
	}
	summed, i := a.Shape[len(a.Shape)-1], int64(0)
	EachIndex(out.Shape, func(index []int64) {
		acc := scalar.Value{Type: wide(out.Type)}
		for k := range summed {
			var x, y []int64
			switch {
			case len(b.Shape) == 3:
				x, y = []int64{index[0], k}, []int64{group(index[0]), k, index[1]}
			case len(a.Shape) == 3:
				x, y = []int64{group(index[1]), index[0], k}, []int64{k, index[1]}
			case group(k) == index[0]:
				x, y = []int64{index[1], k}, []int64{k, index[2]}
			default:
				continue
			}
			if x[0] >= 0 && y[0] >= 0 {
				addProduct(&acc, a.At(Offset(a.Shape, x)), b.At(Offset(b.Shape, y)))
			}
		}
		out.Set(i, ConvertScalar(out.Type, acc))
		i++
	})
	return nil
}
