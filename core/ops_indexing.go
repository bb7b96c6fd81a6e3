package core

import (
	"fmt"
	"math"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// An index that is not a position of the dimension it indexes, negative ones
// included, reads 0 and writes nothing, so that no kernel can leave its memory.
const indexDoc = " An index that is negative or not less than the size of the dimension "

const readsZeroDoc = indexDoc + "reads 0. index is of an integer type."

// checkIndex returns an error unless v is a tensor of integers.
func (f *Fusion) checkIndex(op *OpInfo, param string, v ValID) error {
	if t := f.vals[v].DType; !t.IsInt() {
		return invalidType("%s(): %s must be of integer type, got %v", op.Name, param, t)
	}
	return nil
}

// SelectOp's index is normalised: not negative if it is a constant and the size
// is known, and required to be a position.
var SelectOp = def(OpInfo{Name: "select", Group: groupIndexing, Class: Gather,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "index", Kind: Extent}, Param{Name: "dim", Kind: Dim}),
	Expand: func(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
		if n, ok := f.scalars.ConstInt(args[1].Scalar); ok && n < 0 {
			size := f.Shape(args[0].Tensor)[args[2].Int]
			if s, ok := f.scalars.ConstInt(size); ok && n < -s {
				return nil, invalidArgument("select(): index is %d, and dimension %d of arg has size %d", n, args[2].Int, s)
			}
			args = []Arg{args[0], ScalarOf(f.scalars.Add(size, args[1].Scalar)), args[2]}
		}
		return f.appendExpr(op, args)
	},
	Infer:      inferSelect,
	NeedsWhole: wholeDim(2),
	AxisMap: func(f *Fusion, e *Expr, _, _ int) []int {
		m := make([]int, f.Rank(e.Args[0].Tensor)-1)
		for i := range m {
			if m[i] = i; i >= int(e.Args[2].Int) {
				m[i]++
			}
		}
		return m
	},
	Eval: func(c *Evaluation) error {
		x, dim := c.In(0), c.Expr.Args[2].Int
		position, err := c.Int(c.Expr.Args[1].Scalar)
		if err != nil {
			return err
		}
		out, err := c.Out(0)
		if err != nil {
			return err
		}
		i := int64(0)
		EachIndex(out.Shape, func(index []int64) {
			at := append(append(append([]int64(nil), index[:dim]...), position), index[dim:]...)
			out.Set(i, x.At(Offset(x.Shape, at)))
			i++
		})
		return nil
	},
	Torch: "torch.select(arg, dim, index)",
	Doc: "The slice of arg at position index of dim, without that dimension. A negative constant counts from the end; " +
		"an index that is not a position is an error, when the sizes are known at the latest."})

func inferSelect(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	v, index, dim := args[0].Tensor, args[1].Scalar, args[2].Int
	var axes []AxisID
	for i, a := range f.Axes(v) {
		if int64(i) != dim {
			axes = append(axes, f.copyAxis(a))
		}
	}
	size := f.Shape(v)[dim]
	text := fmt.Sprintf("index must be from 0 to the size of dimension %d less 1", dim)
	if err := f.requireBetween(&inf, op, f.scalars.Int(0), index, size, true, text); err != nil {
		return inf, err
	}
	inf.add(f.vals[v].DType, axes)
	return inf, nil
}

// requireBetween notes that x must be from low to high, or less than high if
// that is excluded. The error shows x and high.
func (f *Fusion) requireBetween(inf *Inference, op *OpInfo, low, x, high scalar.ID, excluded bool, text string) error {
	if err := f.require(inf, op, f.scalars.Le(low, x), x, high, text); err != nil {
		return err
	}
	below := f.scalars.Le(x, high)
	if excluded {
		below = f.scalars.Lt(x, high)
	}
	return f.require(inf, op, below, x, high, text)
}

// IndexSelectOp's index has the rank of arg in an expression: every dimension
// but dim is a broadcast.
var IndexSelectOp = def(OpInfo{Name: "index_select", Group: groupIndexing, Class: Gather,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "index", Kind: TensorIn}, Param{Name: "dim", Kind: Dim}),
	Expand:     expandIndexSelect, Infer: inferIndexSelect,
	NeedsWhole: wholeDim(2),
	AxisMap:    readAlongDim,
	Eval: func(c *Evaluation) error {
		dim := c.Expr.Args[2].Int
		return c.gather(dim, func(at, _ []int64, indices *Array) { at[dim] = indices.I[at[dim]] })
	},
	Torch: "torch.index_select(arg, dim, index.flatten().long())", TorchCall: "rows.index_select(arg, dim, index)",
	Doc: "The slices of arg at the positions along dim that index lists. index has one dimension, or none for a single position; " +
		"one that is already broadcast to the dimensions of arg, with size 1 everywhere but in dim, is taken too." + readsZeroDoc})

// readAlongDim is the AxisMap of an op (arg, index, dim) that reads arg anywhere
// along dim, and index where the result is.
func readAlongDim(f *Fusion, e *Expr, k, _ int) []int {
	m := samePositions(f.Rank(e.Args[0].Tensor))
	if k == 0 {
		m[e.Args[2].Int] = -1
	}
	return m
}

func samePositions(n int) []int {
	m := make([]int, n)
	for i := range m {
		m[i] = i
	}
	return m
}

func expandIndexSelect(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
	index, rank := args[1].Tensor, f.Rank(args[0].Tensor)
	if n := f.Rank(index); n < 2 && n != rank {
		flags := make([]bool, rank)
		for i := range flags {
			flags[i] = n == 0 || int64(i) != args[2].Int
		}
		var err error
		if index, err = f.apply1(BroadcastOp, TensorOf(index), BoolsOf(flags...)); err != nil {
			return nil, err
		}
	}
	return f.appendExpr(op, []Arg{args[0], TensorOf(index), args[2]})
}

func inferIndexSelect(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	v, index, dim := args[0].Tensor, args[1].Tensor, args[2].Int
	if err := f.checkIndex(op, "index", index); err != nil {
		return inf, err
	}
	in := f.Axes(index)
	if len(in) != f.Rank(v) {
		return inf, invalidArgument("index_select(): index has %d dimensions; it must have at most one, or the %d of arg with size 1 everywhere but in dim", len(in), f.Rank(v))
	}
	axes := make([]AxisID, len(in))
	for i, a := range f.Axes(v) {
		if int64(i) == dim {
			axes[i] = f.denseAxis(in[i])
			continue
		}
		if x := f.axes[in[i]]; x.Kind != Broadcast || x.Expanded != scalar.None {
			return inf, invalidArgument("index_select(): dimension %d of index is not a broadcast; index must have one dimension, or size 1 everywhere but in dimension %d", i, dim)
		}
		axes[i] = f.copyAxis(a)
	}
	inf.add(f.vals[v].DType, axes)
	return inf, nil
}

// gather evaluates an op that reads argument 0 at positions that argument 1
// gives: for each index of the result, place changes at, a copy of it, into the
// index to read. A position of dim that does not exist reads 0.
func (c *Evaluation) gather(dim int64, place func(at, index []int64, indices *Array)) error {
	x, indices := c.In(0), c.In(1)
	out, err := c.Out(0)
	if err != nil {
		return err
	}
	at, i := make([]int64, len(x.Shape)), int64(0)
	EachIndex(out.Shape, func(index []int64) {
		copy(at, index)
		place(at, index, indices)
		if p := at[dim]; p >= 0 && p < x.Shape[dim] {
			out.Set(i, x.At(broadcastOffset(x.Shape, at)))
		}
		i++
	})
	return nil
}

var GatherOp = def(OpInfo{Name: "gather", Group: groupIndexing, Class: Gather,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "index", Kind: TensorIn}, Param{Name: "dim", Kind: Dim}),
	Infer:      inferGather,
	NeedsWhole: func(f *Fusion, e *Expr) []int {
		var whole []int
		for i, at := range prefixMap(f, e.Args[0].Tensor, e.Args[1].Tensor, e.Args[2].Int) {
			if at < 0 {
				whole = append(whole, i)
			}
		}
		return whole
	},
	AxisMap: func(f *Fusion, e *Expr, k, _ int) []int {
		if k == 0 {
			return prefixMap(f, e.Args[0].Tensor, e.Args[1].Tensor, e.Args[2].Int)
		}
		return samePositions(f.Rank(e.Args[1].Tensor))
	},
	Eval: func(c *Evaluation) error {
		dim := c.Expr.Args[2].Int
		return c.gather(dim, func(at, index []int64, indices *Array) { at[dim] = indices.I[Offset(indices.Shape, index)] })
	},
	Torch: "torch.gather(arg, dim, index.long())", TorchCall: "rows.gather(arg, dim, index)",
	Doc: "A tensor of the shape of index: each element of index is replaced by the element of arg at the same place but for dim, where index says the position. " +
		"arg and index have the same number of dimensions, and in those other than dim index is not larger than arg. A size of 1 is not broadcast." + readsZeroDoc})

// prefixMap maps the dimensions of b to those of a at the same position, for
// the ones of equal size that are not dim: elsewhere b covers a part of a.
func prefixMap(f *Fusion, a, b ValID, dim int64) []int {
	sa, sb := f.Shape(a), f.Shape(b)
	m := samePositions(len(sb))
	for i := range m {
		if int64(i) == dim || sa[i] != sb[i] {
			m[i] = -1
		}
	}
	return m
}

func inferGather(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	v, index, dim := args[0].Tensor, args[1].Tensor, args[2].Int
	if err := f.checkIndexed(op, v, index); err != nil {
		return inf, err
	}
	if err := f.requireCovered(&inf, op, "index", index, "arg", v, dim); err != nil {
		return inf, err
	}
	var axes []AxisID
	for _, a := range f.Axes(index) {
		axes = append(axes, f.denseAxis(a))
	}
	inf.add(f.vals[v].DType, axes)
	return inf, nil
}

// checkIndexed returns an error unless index is a tensor of integers with as
// many dimensions as v.
func (f *Fusion) checkIndexed(op *OpInfo, v, index ValID) error {
	if err := f.checkIndex(op, "index", index); err != nil {
		return err
	}
	if n, m := f.Rank(index), f.Rank(v); n != m {
		return invalidArgument("%s(): index has %d dimensions and arg %d; they must have the same number", op.Name, n, m)
	}
	return nil
}

// requireCovered notes that tensor a is not larger than b in any dimension but
// dim; dim -1: in any.
func (f *Fusion) requireCovered(inf *Inference, op *OpInfo, nameA string, a ValID, nameB string, b ValID, dim int64) error {
	sa, sb := f.Shape(a), f.Shape(b)
	for i := range sa {
		if int64(i) == dim {
			continue
		}
		text := fmt.Sprintf("the size of dimension %d of %s must not be larger than that of %s", i, nameA, nameB)
		if err := f.require(inf, op, f.scalars.Le(sa[i], sb[i]), sa[i], sb[i], text); err != nil {
			return err
		}
	}
	return nil
}

var TakeAlongAxisOp = def(OpInfo{Name: "take_along_axis", Group: groupIndexing, Class: Gather,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "index", Kind: TensorIn}, Param{Name: "dim", Kind: Dim}),
	Infer:      inferTakeAlongAxis,
	NeedsWhole: wholeDim(2),
	AxisMap:    readAlongDim,
	Eval: func(c *Evaluation) error {
		dim := c.Expr.Args[2].Int
		return c.gather(dim, func(at, index []int64, indices *Array) {
			at[dim] = indices.I[broadcastOffset(indices.Shape, index)]
		})
	},
	Torch: "torch.take_along_dim(arg, index.long(), dim)", TorchCall: "rows.take_along(arg, dim, index)",
	Doc: "The elements of arg at the positions along dim that index gives, as numpy.take_along_axis: arg and index have the same number of dimensions " +
		"and broadcast against each other in those other than dim; in dim the result has the size of index." + readsZeroDoc})

func inferTakeAlongAxis(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	v, index, dim := args[0].Tensor, args[1].Tensor, args[2].Int
	if err := f.checkIndexed(op, v, index); err != nil {
		return inf, err
	}
	axes := make([]AxisID, f.Rank(v))
	for i := range axes {
		if int64(i) == dim {
			axes[i] = f.denseAxis(f.Axes(index)[i])
			continue
		}
		var err error
		rule := func() string {
			return fmt.Sprintf("sizes of dimension %d of arg and index must be equal, or one of them 1", i)
		}
		if axes[i], err = f.combine(&inf, op, []AxisID{f.Axes(v)[i], f.Axes(index)[i]}, rule); err != nil {
			return inf, err
		}
	}
	inf.add(f.vals[v].DType, axes)
	return inf, nil
}

var ScatterOp = def(OpInfo{Name: "scatter", Group: groupIndexing, Class: Gather,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "index", Kind: TensorIn},
		Param{Name: "src", Kind: Operand}, Param{Name: "dim", Kind: Dim}),
	Promote: Promotion{Accept: AcceptAll},
	Expand: func(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
		src := args[2]
		if src.Kind == ScalarArg {
			t := f.vals[args[0].Tensor].DType
			if err := checkAccepted(op, "arg", t); err != nil {
				return nil, err
			}
			if err := f.checkValue(op, "src", src.Scalar, t); err != nil {
				return nil, err
			}
			src = ScalarOf(f.castScalar(src.Scalar, t))
		}
		return f.appendExpr(op, []Arg{args[0], args[1], src, args[3]})
	},
	Infer: inferScatter,
	// An element of the result reads one element of arg, but may be that of any
	// element of index and src in the same line along dim.
	AxisMap: func(f *Fusion, e *Expr, k, _ int) []int {
		v := e.Args[0].Tensor
		if k == 0 {
			return samePositions(f.Rank(v))
		}
		return prefixMap(f, e.Args[k].Tensor, v, e.Args[3].Int)
	},
	Eval:  evalScatter,
	Torch: "torch.scatter(arg, dim, index.long(), src)", TorchCall: "rows.scatter(arg, dim, index, src, device)",
	Doc: "A copy of arg in which each element of src is written to the place of the same element of index but for dim, where index says the position. " +
		"src is a tensor of the type of arg, or one number for all places. arg, index and src have the same number of dimensions; " +
		"index is not larger than src anywhere, nor than arg in dimensions other than dim. Of several writes to one place the last in the row-major order of index holds." +
		indexDoc + "writes nothing. index is of an integer type."})

func inferScatter(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	v, index, src, dim := args[0].Tensor, args[1].Tensor, args[2], args[3].Int
	t := f.vals[v].DType
	if err := f.checkIndexed(op, v, index); err != nil {
		return inf, err
	}
	if src.Kind == TensorArg {
		if s := f.vals[src.Tensor].DType; s != t {
			return inf, invalidType("scatter(): src is %v and arg is %v; cast one of them", s, t)
		}
		if n, m := f.Rank(src.Tensor), f.Rank(v); n != m {
			return inf, invalidArgument("scatter(): src has %d dimensions and arg %d; they must have the same number", n, m)
		}
		if err := f.requireCovered(&inf, op, "index", index, "src", src.Tensor, -1); err != nil {
			return inf, err
		}
	} else if err := f.checkNumber(op, "src", src, t); err != nil {
		return inf, err
	}
	if err := f.requireCovered(&inf, op, "index", index, "arg", v, dim); err != nil {
		return inf, err
	}
	var axes []AxisID
	for _, a := range f.Axes(v) {
		axes = append(axes, f.denseAxis(a))
	}
	inf.add(t, axes)
	return inf, nil
}

func evalScatter(c *Evaluation) error {
	x, indices, dim := c.In(0), c.In(1), c.Expr.Args[3].Int
	out, err := c.Out(0)
	if err != nil {
		return err
	}
	for i := range int64(x.Len()) {
		out.Set(i, x.At(i))
	}
	read := func([]int64) scalar.Value { return scalar.Value{} }
	if c.Expr.Args[2].Kind == TensorArg {
		src := c.In(2)
		read = func(index []int64) scalar.Value { return src.At(Offset(src.Shape, index)) }
	} else {
		v, err := c.ScalarAt(2, out.Type)
		if err != nil {
			return err
		}
		read = func([]int64) scalar.Value { return v }
	}
	at := make([]int64, len(out.Shape))
	EachIndex(indices.Shape, func(index []int64) {
		copy(at, index)
		at[dim] = indices.I[Offset(indices.Shape, index)]
		if at[dim] >= 0 && at[dim] < out.Shape[dim] {
			out.Set(Offset(out.Shape, at), read(index))
		}
	})
	return nil
}

var EmbeddingFwdOp = def(OpInfo{Name: "embedding_fwd", Group: groupIndexing, Class: Gather,
	Signatures: signature(Param{Name: "input", Kind: TensorIn}, Param{Name: "weight", Kind: TensorIn},
		Param{Name: "padding_idx", Kind: Extent, Optional: true},
		Param{Name: "max_norm", Kind: Number, Optional: true}, Param{Name: "norm_type", Kind: Number, Optional: true},
		Param{Name: "scale_grad_by_freq", Kind: Number, Optional: true}, Param{Name: "sparse", Kind: Number, Optional: true}),
	Expand: func(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
		args = append([]Arg(nil), args...)
		for _, i := range []int{3, 4} {
			var err error
			if args[i], err = f.numberAs(op, op.Params()[i].Name, args[i], dtype.Double); err != nil {
				return nil, err
			}
		}
		return f.appendExpr(op, args)
	},
	Infer: inferEmbedding,
	AxisMap: func(f *Fusion, e *Expr, k, _ int) []int {
		n := f.Rank(e.Args[0].Tensor)
		m := samePositions(n + 1)
		if m[n] = -1; k == 1 {
			for i := range n {
				m[i] = -1
			}
			m[n] = 1
		}
		return m
	},
	Eval: evalEmbedding,
	Torch: "F.embedding(input.long(), weight.clone(), padding_idx, max_norm, 2.0 if norm_type is None else norm_type, " +
		"bool(scale_grad_by_freq), bool(sparse))",
	TorchCall: "rows.embedding(input, weight, max_norm, norm_type)",
	Doc: "The rows of weight that input lists: its shape is that of input and one more dimension of the row length. input is of an integer type and weight has 2 dimensions." +
		indexDoc + "gives a row of 0. With max_norm, a row whose norm is greater is multiplied by max_norm / (norm + 1e-7); " +
		"its norm is (sum |x|^norm_type)^(1/norm_type), norm_type being 2 if left out, the largest |x| for inf, the smallest for -inf and the number of non-zero elements for 0. " +
		"This needs a floating-point weight, which, unlike in torch, is not changed. padding_idx, which must be a row (negative: counted from the end), " +
		"scale_grad_by_freq and sparse concern gradients and have no effect on the result."})

func inferEmbedding(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	input, weight := args[0].Tensor, args[1].Tensor
	t := f.vals[weight].DType
	if err := f.checkIndex(op, "input", input); err != nil {
		return inf, err
	}
	if n := f.Rank(weight); n != 2 {
		return inf, invalidArgument("embedding_fwd(): weight has %d dimensions; it must have 2", n)
	}
	if args[3].Kind != NoArg && !t.IsFloat() {
		return inf, invalidType("embedding_fwd(): max_norm needs a weight of floating-point type, got %v", t)
	}
	for i, want := range []dtype.Type{dtype.Double, dtype.Double, dtype.Bool, dtype.Bool} {
		if err := f.checkNumber(op, op.Params()[i+3].Name, args[i+3], want); err != nil {
			return inf, err
		}
	}
	if rows := f.Shape(weight)[0]; args[2].Kind != NoArg {
		p := args[2].Scalar
		if err := f.requireBetween(&inf, op, f.scalars.Neg(rows), p, rows, true, "padding_idx must be a row of weight"); err != nil {
			return inf, err
		}
	}
	var axes []AxisID
	for _, a := range f.Axes(input) {
		axes = append(axes, f.denseAxis(a))
	}
	inf.add(t, append(axes, f.denseAxis(f.Axes(weight)[1])))
	return inf, nil
}

func evalEmbedding(c *Evaluation) error {
	input, weight := c.In(0), c.In(1)
	out, err := c.Out(0)
	if err != nil {
		return err
	}
	maxNorm, err := c.floatOr(3, math.Inf(1))
	if err != nil {
		return err
	}
	normType, err := c.floatOr(4, 2)
	if err != nil {
		return err
	}
	rows, length := weight.Shape[0], weight.Shape[1]
	for i, row := range input.I {
		if row < 0 || row >= rows {
			continue
		}
		scale := 1.0
		if c.Has(3) {
			scale = renormalisation(weight.F[row*length:(row+1)*length], maxNorm, normType)
		}
		for k := range length {
			v := weight.At(row*length + k)
			if scale != 1 {
				v.Re = dtype.Round(out.Type, v.Re*scale)
			}
			out.Set(int64(i)*length+k, v)
		}
	}
	return nil
}

// floatOr returns the value of the optional scalar argument i, or otherwise.
func (c *Evaluation) floatOr(i int, otherwise float64) (float64, error) {
	if !c.Has(i) {
		return otherwise, nil
	}
	v, err := c.ScalarAt(i, dtype.Double)
	return v.Re, err
}

// renormalisation is the factor that brings the norm of row down to maxNorm.
func renormalisation(row []float64, maxNorm, normType float64) float64 {
	norm := 0.0
	switch {
	case math.IsInf(normType, 1):
		for _, x := range row {
			norm = math.Max(norm, math.Abs(x))
		}
	case math.IsInf(normType, -1):
		norm = math.Inf(1)
		for _, x := range row {
			norm = math.Min(norm, math.Abs(x))
		}
	case normType == 0:
		for _, x := range row {
			if x != 0 {
				norm++
			}
		}
	default:
		for _, x := range row {
			norm += math.Pow(math.Abs(x), normType)
		}
		norm = math.Pow(norm, 1/normType)
	}
	if norm > maxNorm {
		return maxNorm / (norm + 1e-7)
	}
	return 1
}
