package core

import (
	"fmt"
	"slices"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

func falseByDefault(name string) Param {
	return Param{Name: name, Kind: Flag, Optional: true, Default: Given{Kind: GivenNumber, Num: boolValue(false)}}
}

// SliceOp takes a range of each dimension. The indices of an Expr are within
// the sizes and its strides are 1, which manual_normalization=True says.
var SliceOp = def(OpInfo{Name: "slice", Group: groupResize, Class: Resize,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn},
		Param{Name: "start_indices", Kind: Shape}, Param{Name: "end_indices", Kind: Shape},
		Param{Name: "strides", Kind: Shape, Optional: true}, falseByDefault("manual_normalization")),
	Expand: expandSlice, Infer: inferSlice, Eval: evalSlice,
	Torch: "arg[tuple(slice(b, e) for b, e in zip(start_indices, end_indices))]",
	Doc: "The elements of arg from start_indices[i] up to, not including, end_indices[i] in each dimension i. " +
		"Starts are not negative and ends not below them; both are cut at the size of the dimension, " +
		"unless manual_normalization says that they lie within it, which is then checked. Every stride must be the constant 1."})

// checkSliceLists holds the lists of a slice against the rank of its operand.
func checkSliceLists(f *Fusion, args []Arg) error {
	rank, n := f.Rank(args[0].Tensor), len(args[1].Scalars)
	switch {
	case len(args[2].Scalars) != n:
		return invalidArgument("slice(): Slice indexing attribute dimensions don't match! start_indices has %d entries and end_indices has %d", n, len(args[2].Scalars))
	case args[3].Kind != NoArg && len(args[3].Scalars) != n:
		return invalidArgument("slice(): Slice start_indices and strides don't match! start_indices has %d entries and strides has %d", n, len(args[3].Scalars))
	case n != rank:
		return invalidArgument("slice(): Number of tensor dimensions does not match slice dimensions! arg has %d dimensions and start_indices has %d entries", rank, n)
	}
	for d, s := range args[3].Scalars {
		if f.isOne(s) {
			continue
		}
		got := "a scalar that is not constant"
		if c, ok := f.scalars.ConstInt(s); ok {
			got = fmt.Sprint(c)
		}
		return invalidArgument("slice(): nvFuser Limitation: All slice operation strides must be of const size 1. strides[%d] is %s", d, got)
	}
	return nil
}

// requireRange requires 0 <= start <= end of dimension d.
func requireRange(f *Fusion, inf *Inference, op *OpInfo, d int, start, end scalar.ID) error {
	text := fmt.Sprintf("Slice operation start_indices must be greater than or equal to 0. In dimension %d", d)
	if err := f.require(inf, op, f.scalars.Le(f.scalars.Int(0), start), start, scalar.None, text); err != nil {
		return err
	}
	text = fmt.Sprintf("Slice operation end_indices must be greater than or equal to start_indices. In dimension %d", d)
	return f.require(inf, op, f.scalars.Le(start, end), start, end, text)
}

func expandSlice(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
	if err := checkSliceLists(f, args); err != nil {
		return nil, err
	}
	sizes := f.Shape(args[0].Tensor)
	start, end := slices.Clone(args[1].Scalars), slices.Clone(args[2].Scalars)
	strides := make([]scalar.ID, len(start))
	for d := range start {
		strides[d] = f.scalars.Int(1)
		if args[4].Bool() {
			continue
		}
		// What is constant is checked as it was given.
		if err := requireRange(f, &Inference{}, op, d, start[d], end[d]); err != nil {
			return nil, err
		}
		start[d], end[d] = f.scalars.Min(start[d], sizes[d]), f.scalars.Min(end[d], sizes[d])
	}
	return f.appendExpr(op, []Arg{args[0], ScalarsOf(start...), ScalarsOf(end...), ScalarsOf(strides...), BoolOf(true)})
}

func inferSlice(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	v := args[0].Tensor
	if err := checkSliceLists(f, args); err != nil {
		return inf, err
	}
	if !args[4].Bool() || args[3].Kind == NoArg {
		return inf, invalidArgument("slice(): an expression has strides and manual_normalization=True")
	}
	var dom Domain
	for d, a := range f.Axes(v) {
		start, end, size := args[1].Scalars[d], args[2].Scalars[d], f.Size(a)
		if err := requireRange(f, &inf, op, d, start, end); err != nil {
			return inf, err
		}
		if err := f.require(&inf, op, f.scalars.Le(end, size), end, size, fmt.Sprintf("end_indices must not exceed the size of arg. In dimension %d", d)); err != nil {
			return inf, err
		}
		length := f.scalars.Sub(end, start)
		var root, logical AxisID
		switch {
		case length == size: // all of it, as 0 <= start and end <= size
			root = f.copyAxis(a)
			logical = root
		case f.axes[a].Kind == Broadcast:
			root = f.shownAxis(length)
			logical = root
		default:
			root = f.copyAxis(a)
			logical = f.resizeAxis(root, f.scalars.Neg(start), f.scalars.Sub(end, size), length)
		}
		dom.Root, dom.Logical = append(dom.Root, root), append(dom.Logical, logical)
	}
	inf.Results = []TensorResult{{DType: f.vals[v].DType, Domain: dom}}
	return inf, nil
}

func evalSlice(c *Evaluation) error {
	x := c.In(0)
	out, err := c.Out(0)
	if err != nil {
		return err
	}
	start, err := c.Indices(1)
	if err != nil {
		return err
	}
	at, i := make([]int64, len(start)), int64(0)
	EachIndex(out.Shape, func(index []int64) {
		for d := range at {
			at[d] = index[d] + start[d]
		}
		out.Set(i, x.At(Offset(x.Shape, at)))
		i++
	})
	return nil
}

// PadOp adds elements at the ends of dimensions, or takes them away. An Expr
// has the widths of all dimensions and a value.
var PadOp = def(OpInfo{Name: "pad", Group: groupResize, Class: Resize,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "pad_widths", Kind: Shape},
		Param{Name: "value", Kind: Number, Optional: true}),
	Expand: expandPad, Infer: inferPad, Eval: evalPad,
	Torch: "F.pad(arg, pad_widths, value=value)", TorchCall: "rows.pad(arg, pad_widths, value, device)",
	Doc: "arg with pad_widths[0] elements before and pad_widths[1] after those of its last dimension, the next two for the dimension before it, " +
		"and so on; dimensions without a pair stay. The new elements are value, converted to the dtype of arg, or 0. " +
		"A negative width takes elements away: element j of a dimension with left width l is element j-l of arg where there is one, else value."})

// maxPad bounds a width: with it, a size that exceeds 64 bits comes out
// negative and is refused.
const maxPad = 1 << 62

func expandPad(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
	v := args[0].Tensor
	widths := slices.Clone(args[1].Scalars)
	if len(widths)%2 != 0 || len(widths) > 2*f.Rank(v) {
		return nil, invalidArgument("pad(): pad_widths has %d entries; it must have an even number, at most %d for an arg with %d dimensions", len(widths), 2*f.Rank(v), f.Rank(v))
	}
	for len(widths) < 2*f.Rank(v) {
		widths = append(widths, f.scalars.Int(0))
	}
	value := args[2]
	if value.Kind == NoArg {
		value = f.zero(f.vals[v].DType)
	}
	return f.appendExpr(op, []Arg{args[0], ScalarsOf(widths...), value})
}

// zero is the literal 0 that a user would write for elements of dtype t.
func (f *Fusion) zero(t dtype.Type) Arg {
	literal := dtype.Double
	switch t.Class() {
	case dtype.ClassBool:
		literal = dtype.Bool
	case dtype.ClassInt, dtype.ClassUInt:
		literal = dtype.Int
	case dtype.ClassComplex:
		literal = dtype.ComplexDouble
	}
	return ScalarOf(f.scalars.Value(scalar.Value{Type: literal}))
}

// padWidths returns the widths of dimension d of an operand of the given rank.
func padWidths[T any](widths []T, rank, d int) (left, right T) {
	k := 2 * (rank - 1 - d)
	return widths[k], widths[k+1]
}

func inferPad(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	v, widths := args[0].Tensor, args[1].Scalars
	in := f.Axes(v)
	if len(widths) != 2*len(in) || args[2].Kind == NoArg {
		return inf, invalidArgument("pad(): an expression has a value and two widths for each of the %d dimensions of arg, not %d in all", len(in), len(widths))
	}
	if err := f.checkValue(op, "value", args[2].Scalar, f.vals[v].DType); err != nil {
		return inf, err
	}
	for i, w := range widths {
		within := f.scalars.And(f.scalars.Le(f.scalars.Int(-maxPad), w), f.scalars.Le(w, f.scalars.Int(maxPad)))
		if err := f.require(&inf, op, within, w, scalar.None, fmt.Sprintf("pad_widths[%d] must lie between -2^62 and 2^62", i)); err != nil {
			return inf, err
		}
	}
	var dom Domain
	zero := f.scalars.Int(0)
	for d, a := range in {
		left, right := padWidths(widths, len(in), d)
		root := f.copyAxis(a)
		logical := root
		if left != zero || right != zero {
			size := f.Size(a)
			f.axes[root] = f.axes[f.realAxis(a)]
			logical = f.resizeAxis(root, left, right, f.scalars.Add(size, f.scalars.Add(left, right)))
		}
		dom.Root, dom.Logical = append(dom.Root, root), append(dom.Logical, logical)
	}
	inf.Results = []TensorResult{{DType: f.vals[v].DType, Domain: dom}}
	return inf, nil
}

// checkValue reports a number s that is no element of type t: one that would
// lose its imaginary part, or a constant integer that t does not hold. A
// negative constant becomes a UInt64 modulo 2^64, as in torch.
func (f *Fusion) checkValue(op *OpInfo, name string, s scalar.ID, t dtype.Type) error {
	if f.scalars.Type(s).IsComplex() && !t.IsComplex() {
		return invalidType("%s(): %s is complex, and the elements are %v", op.Name, name, t)
	}
	c, ok := f.scalars.ConstValue(s)
	wraps := t == dtype.UInt64 && c.Type != dtype.UInt64 && c.I < 0
	if ok && !wraps && !HoldsInteger(t, c) {
		return invalidArgument("%s(): %s is %s, which %v does not hold", op.Name, name, PythonLiteral(c), t)
	}
	return nil
}

func evalPad(c *Evaluation) error {
	x := c.In(0)
	out, err := c.Out(0)
	if err != nil {
		return err
	}
	widths, err := c.Indices(1)
	if err != nil {
		return err
	}
	value, err := c.ScalarAt(2, x.Type)
	if err != nil {
		return err
	}
	at, i := make([]int64, len(x.Shape)), int64(0)
	EachIndex(out.Shape, func(index []int64) {
		e, inside := value, true
		for d, n := range x.Shape {
			left, _ := padWidths(widths, len(at), d)
			at[d] = index[d] - left
			inside = inside && 0 <= at[d] && at[d] < n
		}
		if inside {
			e = x.At(Offset(x.Shape, at))
		}
		out.Set(i, e)
		i++
	})
	return nil
}

// CatOp joins tensors along a dimension. The operands of an Expr are as they
// are joined: manual_padding is False.
var CatOp = def(OpInfo{Name: "cat", Group: groupResize, Class: Resize,
	Signatures: signature(Param{Name: "tensors", Kind: TensorsIn},
		Param{Name: "dim", Kind: Dim, Optional: true, Default: Given{Kind: GivenNumber, Num: scalar.Value{Type: dtype.Int}}},
		falseByDefault("manual_padding")),
	Expand: expandCat, Infer: inferCat,
	AxisMap: func(f *Fusion, e *Expr, _, _ int) []int {
		m := make([]int, f.Rank(e.Out[0]))
		for d := range m {
			if m[d] = d; int64(d) == e.Args[1].Int {
				m[d] = -1
			}
		}
		return m
	},
	Eval:  evalCat,
	Torch: "torch.cat(tensors, dim)",
	Doc: "The tensors joined along dimension dim. They have one dtype and one rank, and equal sizes in every other dimension. " +
		"With manual_padding each of them is the result of a pad that gives it the size of the whole in dimension dim, " +
		"with its own elements where they belong."})

func expandCat(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
	tensors, dim := args[0].Tensors, args[1]
	if args[2].Bool() {
		if err := checkCat(f, tensors, int(dim.Int)); err != nil {
			return nil, err
		}
		var err error
		if tensors, err = unpadded(f, tensors, int(dim.Int)); err != nil {
			return nil, err
		}
	}
	return f.appendExpr(op, []Arg{TensorsOf(tensors...), dim, BoolOf(false)})
}

// checkCat checks what cat needs of its operands before their sizes.
func checkCat(f *Fusion, tensors []ValID, dim int) error {
	if len(tensors) == 0 {
		return invalidArgument("cat(): tensors is empty")
	}
	first := tensors[0]
	if dim < 0 || dim >= f.Rank(first) {
		return invalidArgument("cat(): dim is %d, which is not a dimension of a tensor of rank %d", dim, f.Rank(first))
	}
	for k, v := range tensors {
		switch {
		case f.vals[v].DType != f.vals[first].DType:
			return invalidType("cat(): Can't concatenate tensors with different data types: %v, %v", f.vals[first].DType, f.vals[v].DType)
		case f.Rank(v) != f.Rank(first):
			return invalidArgument("cat(): tensors[0] has %d dimensions and tensors[%d] has %d; they must have as many", f.Rank(first), k, f.Rank(v))
		}
	}
	return nil
}

// unpadded returns the operands of the pads that made tensors for a cat with
// manual padding. A tensor without a pad may stand where its widths would be 0.
func unpadded(f *Fusion, tensors []ValID, dim int) ([]ValID, error) {
	if len(tensors) == 1 {
		return tensors, nil
	}
	before, after := f.scalars.Int(0), f.Shape(tensors[0])[dim]
	out := make([]ValID, len(tensors))
	for k, v := range tensors {
		x, left, right := f.padAlong(v, dim)
		size := f.Shape(x)[dim]
		after = f.scalars.Sub(after, size)
		if left != before || right != after {
			return nil, invalidArgument("cat(): with manual_padding tensors[%d] must be a pad along dimension %d alone, by %s before it and %s after it", k, dim, f.sizeText(before), f.sizeText(after))
		}
		before = f.scalars.Add(before, size)
		out[k] = x
	}
	if after != f.scalars.Int(0) {
		return nil, invalidArgument("cat(): with manual_padding the sizes of the unpadded tensors in dimension %d must add up to the size of the padded ones", dim)
	}
	return out, nil
}

func (f *Fusion) sizeText(s scalar.ID) string {
	if n, ok := f.scalars.ConstInt(s); ok {
		return fmt.Sprint(n)
	}
	return "the sizes of its neighbours"
}

// padAlong returns the operand of the pad that defines v and its widths in
// dimension dim, or v and zeros if v is not a pad of that dimension alone.
func (f *Fusion) padAlong(v ValID, dim int) (x ValID, left, right scalar.ID) {
	zero := f.scalars.Int(0)
	if f.vals[v].Def == NoExpr || f.exprs[f.vals[v].Def].Op.Name != "pad" {
		return v, zero, zero
	}
	e := &f.exprs[f.vals[v].Def]
	rank := f.Rank(v)
	for d := range rank {
		if l, r := padWidths(e.Args[1].Scalars, rank, d); d != dim && (l != zero || r != zero) {
			return v, zero, zero
		}
	}
	left, right = padWidths(e.Args[1].Scalars, rank, dim)
	return e.Args[0].Tensor, left, right
}

func inferCat(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	tensors, dim := args[0].Tensors, int(args[1].Int)
	if args[1].Kind == NoArg || args[2].Bool() {
		return inf, invalidArgument("cat(): an expression has a dim and manual_padding=False")
	}
	if err := checkCat(f, tensors, dim); err != nil {
		return inf, err
	}
	axes := make([]AxisID, f.Rank(tensors[0]))
	var err error
	for d := range axes {
		if d == dim {
			axes[d] = f.joinedAxis(tensors, d)
		} else if axes[d], err = f.sameAxis(&inf, op, tensors, d); err != nil {
			return inf, err
		}
	}
	inf.add(f.vals[tensors[0]].DType, axes)
	return inf, nil
}

// joinedAxis makes an axis with the sum of the sizes of dimension d.
func (f *Fusion) joinedAxis(tensors []ValID, d int) AxisID {
	sum := f.scalars.Int(0)
	for _, v := range tensors {
		sum = f.scalars.Add(sum, f.Shape(v)[d])
	}
	return f.sizeAxis(sum)
}

// sameAxis makes the axis of a dimension in which all tensors have one size: a
// broadcast if all of them broadcast or the size is 1.
func (f *Fusion) sameAxis(inf *Inference, op *OpInfo, tensors []ValID, d int) (AxisID, error) {
	best := f.Axes(tensors[0])[d]
	for _, v := range tensors[1:] {
		a := f.Axes(v)[d]
		if f.axes[best].Kind != Iter && f.axes[a].Kind == Iter || f.axes[best].Kind == Broadcast && f.axes[a].Kind == Symbolic {
			best = a
		}
	}
	size := f.Size(best)
	for _, v := range tensors {
		if s := f.Shape(v)[d]; f.isConst(s) && !f.isConst(size) {
			size = s
		}
	}
	for _, v := range tensors {
		if err := f.requireEqual(inf, op, size, f.Shape(v)[d], fmt.Sprintf("sizes of dimension %d must be equal", d)); err != nil {
			return NoAxis, err
		}
	}
	switch {
	case f.axes[best].Kind == Broadcast || f.isOne(size):
		return f.shownAxis(size), nil
	case f.isConst(size):
		return f.iterAxis(size), nil
	}
	return f.copyAxis(best), nil
}

func evalCat(c *Evaluation) error {
	out, err := c.Out(0)
	if err != nil {
		return err
	}
	dim, first := c.Expr.Args[1].Int, int64(0)
	for _, x := range c.Ins(0) {
		i := int64(0)
		EachIndex(x.Shape, func(index []int64) {
			at := slices.Clone(index)
			at[dim] += first
			out.Set(Offset(out.Shape, at), x.At(i))
			i++
		})
		first += x.Shape[dim]
	}
	return nil
}
