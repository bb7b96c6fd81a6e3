package core

import (
	"fmt"
	"math"
	"slices"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// reduction fills a row for an op that folds elements with a binary op. Its
// expressions have at least one of dims, in ascending order, keepdim False, and
// an arg of the result's type.
func reduction(name string, accept Accept, resultType func(dtype.Type) dtype.Type, combine func() Op,
	identity func(dtype.Type) scalar.Value, torch, torchCall, doc string) OpInfo {
	arg := Param{Name: "arg", Kind: TensorIn}
	keepdim := Param{Name: "keepdim", Kind: Flag, Optional: true, Default: Given{Kind: GivenNumber, Num: boolValue(false)}}
	t := Param{Name: "dtype", Kind: Dtype, Optional: true, Default: Given{Kind: GivenDType, Num: scalar.Value{I: int64(dtype.Null)}}}
	return OpInfo{Name: name, Group: groupReduction, Class: Reduction,
		Signatures: []Signature{
			{[]Param{arg, t}},
			{[]Param{arg, {Name: "dim", Kind: Dim}, keepdim, t}},
			{[]Param{arg, {Name: "dims", Kind: Dims}, keepdim, t}},
		},
		Promote: Promotion{Accept: accept},
		Expand: func(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
			return expandReduction(f, op, resultType, args)
		},
		Infer: func(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
			return inferReduction(f, op, resultType, args)
		},
		NeedsWhole: reducedDims, Eval: evalReduction,
		Combine: combine, Identity: identity, Torch: torch, TorchCall: torchCall, Doc: doc + reductionDoc}
}

const reductionDoc = " Without dim or dims all dimensions are reduced; an empty list of dims reduces none. " +
	"keepdim=True keeps a reduced dimension with size 1. An element that nothing is folded into is the identity of the fold. " +
	"Elements are folded in float64, int64, uint64 or complex128 and rounded once; " +
	"by GPU kernels in parts, and in Float where they are Float or narrower."

const accumulationDoc = " dtype is the type that arg is converted to first, and that of the result; " +
	"left out, it is that of arg, but Int for integers and bools (UInt64 stays)."

// accumulated is the type in which sum and prod keep elements of type t.
func accumulated(t dtype.Type) dtype.Type {
	if c := t.Class(); c == dtype.ClassBool || c == dtype.ClassInt {
		return dtype.Int
	}
	return t
}

var SumOp = def(reduction("sum", AcceptAll, accumulated, func() Op { return AddOp.Op() }, number(0),
	"torch.sum(arg, dims, dtype=dtype)", "torch.sum(arg, dims)",
	"The sum of the elements of arg along dims."+accumulationDoc))

var ProdOp = def(reduction("prod", AcceptAll, accumulated, func() Op { return MulOp.Op() }, number(1),
	"torch.movedim(arg, dims, tuple(range(-len(dims), 0))).flatten(-len(dims)).prod(-1, dtype=dtype)",
	"torch.movedim(arg, dims, tuple(range(-len(dims), 0))).flatten(-len(dims)).prod(-1)",
	"The product of the elements of arg along dims."+partialProductsDoc+accumulationDoc))

// partialProductsDoc: on an H200 torch.cumprod gives NaN in the second half of rows of 1e30 followed by as many 1e-30
// whatever their length, torch.prod in rows of 128 and 1000. The order of a kernel's products decides.
const partialProductsDoc = " Where products of some of the elements leave the range of the type in which they are combined, " +
	"a kernel may give inf, 0 or NaN for what is in range as a whole, as torch's do: cast to Double where that may be."

var MaxOp = def(reduction("max", AcceptReal, nil, func() Op { return MaximumOp.Op() }, least,
	"torch.amax(arg, dims)", "rows.extreme(torch.amax, arg, dims, True, device)",
	"The largest of the elements of arg along dims, NaN if one of them is NaN. Its type is that of arg: dtype must be left out."))

var MinOp = def(reduction("min", AcceptReal, nil, func() Op { return MinimumOp.Op() }, greatest,
	"torch.amin(arg, dims)", "rows.extreme(torch.amin, arg, dims, False, device)",
	"The smallest of the elements of arg along dims, NaN if one of them is NaN. Its type is that of arg: dtype must be left out."))

// number returns the function from a type to the number n of that type.
func number(n int64) func(dtype.Type) scalar.Value {
	return func(t dtype.Type) scalar.Value { return ConvertScalar(t, scalar.Value{Type: dtype.Int, I: n}) }
}

// least is the value of type t that is not greater than any other.
func least(t dtype.Type) scalar.Value { return extreme(t, -1, 0, math.MinInt32, math.MinInt64) }

// greatest is the value of type t that is not less than any other.
func greatest(t dtype.Type) scalar.Value {
	return extreme(t, 1, -1, math.MaxInt32, math.MaxInt64) // -1: the bits of the largest uint64
}

func extreme(t dtype.Type, sign int, unsigned, int32Value, int64Value int64) scalar.Value {
	v := scalar.Value{Type: t}
	switch {
	case t.IsFloat():
		v.Re = dtype.Round(t, math.Inf(sign))
	case t == dtype.Bool:
		return boolValue(sign > 0)
	case t == dtype.Int32:
		v.I = int32Value
	case t.Class() == dtype.ClassUInt:
		v.I = unsigned
	default:
		v.I = int64Value
	}
	return v
}

// checkAccepted returns an error unless t is a type that the row accepts and
// that values can be computed in.
func checkAccepted(op *OpInfo, param string, t dtype.Type) error {
	if !accepts(op.Promote.Accept, t) || !t.Computes() {
		return invalidType("%s(): %s must be of %v type, got %v", op.Name, param, op.Promote.Accept, t)
	}
	return nil
}

// dimsOf returns the dims argument a of a call on v: an int, a list, or nothing
// for all dimensions.
func (f *Fusion) dimsOf(v ValID, a Arg) []int64 {
	dims := a.Ints
	switch a.Kind {
	case NoArg:
		for i := range f.Rank(v) {
			dims = append(dims, int64(i))
		}
	case IntArg:
		dims = []int64{a.Int}
	}
	return dims
}

func expandReduction(f *Fusion, op *OpInfo, resultType func(dtype.Type) dtype.Type, args []Arg) ([]ValID, error) {
	v, keepdim, t := args[0].Tensor, args[2].Bool(), args[3].DType()
	if err := checkAccepted(op, "arg", f.vals[v].DType); err != nil {
		return nil, err
	}
	var err error
	dims, typeArg := f.dimsOf(v, args[1]), DTypeOf(dtype.Null)
	if resultType != nil {
		if t == dtype.Null {
			t = resultType(f.vals[v].DType)
		}
		if err := checkAccepted(op, "dtype", t); err != nil {
			return nil, err
		}
		typeArg = DTypeOf(t)
		if v, err = f.Cast(v, t); err != nil {
			return nil, err
		}
	} else if t != dtype.Null {
		return nil, invalidArgument("%s(): dtype is %v; the result has the type of arg, so cast arg first", op.Name, t)
	}
	flags := make([]bool, f.Rank(v))
	for _, d := range dims {
		flags[d] = true
	}
	if v, dims, err = f.squeezeReduced(v, dims); err != nil {
		return nil, err
	}
	if len(dims) > 0 {
		out, err := f.appendExpr(op, []Arg{TensorOf(v), IntsOf(dims...), BoolOf(false), typeArg})
		if err != nil {
			return nil, err
		}
		v = out[0]
	}
	if keepdim {
		v, err = f.restoreDims(v, flags)
	}
	return []ValID{v}, err
}

// squeezeReduced removes those of dims that are plain broadcasts, of which
// there is one element, and returns the others as dimensions of its result.
func (f *Fusion) squeezeReduced(v ValID, dims []int64) (ValID, []int64, error) {
	var plain, rest []int64
	for _, d := range dims {
		if a := f.axes[f.Axes(v)[d]]; a.Kind == Broadcast && a.Expanded == scalar.None {
			plain = append(plain, d)
		} else {
			rest = append(rest, d-int64(len(plain)))
		}
	}
	if len(plain) == 0 {
		return v, dims, nil
	}
	v, err := f.apply1(SqueezeOp, TensorOf(v), IntsOf(plain...))
	return v, rest, err
}

// restoreDims gives back the dimensions that a reduction removed, with size 1.
func (f *Fusion) restoreDims(v ValID, flags []bool) (ValID, error) {
	if !slices.Contains(flags, true) {
		return v, nil
	}
	return f.apply1(BroadcastOp, TensorOf(v), BoolsOf(flags...))
}

func inferReduction(f *Fusion, op *OpInfo, resultType func(dtype.Type) dtype.Type, args []Arg) (Inference, error) {
	var inf Inference
	v, want := args[0].Tensor, args[3].DType()
	t := f.vals[v].DType
	switch {
	case args[2].Bool():
		return inf, invalidArgument("%s(): keepdim must be False in an expression; a broadcast follows instead", op.Name)
	case resultType == nil && want != dtype.Null:
		return inf, invalidArgument("%s(): dtype is %v; the result has the type of arg", op.Name, want)
	case resultType != nil && want != t:
		return inf, invalidType("%s(): arg is %v and must have the dtype of the result, %v", op.Name, t, want)
	}
	if err := checkAccepted(op, "arg", t); err != nil {
		return inf, err
	}
	axes, err := f.reducedAxes(op, v, args[1].Ints)
	if err == nil {
		inf.add(t, axes)
	}
	return inf, err
}

// reducedAxes returns the root axes of a reduction of v: copies, with those of
// dims as Reduce axes of the size that v shows.
func (f *Fusion) reducedAxes(op *OpInfo, v ValID, dims []int64) ([]AxisID, error) {
	if len(dims) == 0 {
		return nil, invalidArgument("%s(): dims is empty; it must name a dimension to reduce", op.Name)
	}
	in := f.Axes(v)
	axes := make([]AxisID, len(in))
	for i, a := range in {
		if slices.Contains(dims, int64(i)) {
			axes[i] = f.reduceAxis(f.Size(a))
		} else {
			axes[i] = f.copyAxis(a)
		}
	}
	return axes, nil
}

func (f *Fusion) reduceAxis(extent scalar.ID) AxisID {
	return f.newAxis(Axis{Extent: extent, Expanded: scalar.None, Kind: Reduce, Def: NoTransform})
}

// reducedDims is the NeedsWhole of ops whose argument 1 is their dims.
func reducedDims(_ *Fusion, e *Expr) []int {
	whole := make([]int, len(e.Args[1].Ints))
	for i, d := range e.Args[1].Ints {
		whole[i] = int(d)
	}
	return whole
}

// A fold combines elements by the meaning of a binary op, without rounding in
// between.
type fold struct {
	meaning *Meaning
	class   dtype.Class
	empty   scalar.Value // of the type that values are kept in
}

// newFold returns the fold of the row op over elements of type t.
func newFold(op *OpInfo, t dtype.Type) (fold, error) {
	f := fold{&op.Combine().Info().Meaning, t.Class(), op.Identity(wide(t))}
	m, ok := f.meaning, false
	switch f.class {
	case dtype.ClassBool:
		ok = m.Bool.F2 != nil
	case dtype.ClassInt:
		ok = m.Int.F2 != nil
	case dtype.ClassUInt:
		ok = m.UInt.F2 != nil || m.Int.F2 != nil
	case dtype.ClassFloat:
		ok = m.Float.F2 != nil
	case dtype.ClassComplex:
		ok = m.Complex.F2 != nil
	}
	if !ok {
		return f, fmt.Errorf("op %s: %s has no meaning for %v", op.Name, op.Combine(), t)
	}
	return f, nil
}

// wide is the type that elements of type t are accumulated in.
func wide(t dtype.Type) dtype.Type {
	switch t.Class() {
	case dtype.ClassFloat:
		return dtype.Double
	case dtype.ClassComplex:
		return dtype.ComplexDouble
	}
	return t
}

func (f *fold) combine(a, b scalar.Value) scalar.Value {
	out := scalar.Value{Type: f.empty.Type}
	switch f.class {
	case dtype.ClassBool:
		return boolValue(f.meaning.Bool.F2(asBool(a), asBool(b)))
	case dtype.ClassUInt:
		if u := f.meaning.UInt.F2; u != nil {
			out.I = int64(u(asUint(a), asUint(b)))
			return out
		}
		out.I = f.meaning.Int.F2(a.I, b.I)
	case dtype.ClassInt:
		out.I = dtype.WrapInt(out.Type, f.meaning.Int.F2(a.I, b.I))
	case dtype.ClassFloat:
		out.Re = f.meaning.Float.F2(a.Re, b.Re)
	case dtype.ClassComplex:
		c := f.meaning.Complex.F2(asComplex(a), asComplex(b))
		out.Re, out.Im = real(c), imag(c)
	}
	return out
}

// evalReduction folds in row-major order.
func evalReduction(c *Evaluation) error {
	x := c.In(0)
	out, err := c.Out(0)
	if err != nil {
		return err
	}
	by, err := newFold(c.Expr.Op, x.Type)
	if err != nil {
		return err
	}
	acc := make([]scalar.Value, out.Len())
	for i := range acc {
		acc[i] = by.empty
	}
	err = c.eachFolded(x.Shape, c.Expr.Args[1].Ints, func(i, o int64) {
		acc[o] = by.combine(acc[o], x.At(i))
	})
	for i := range acc {
		out.Set(int64(i), ConvertScalar(out.Type, acc[i]))
	}
	return err
}

// eachReduced calls yield with the position of each element of shape, in
// order, and that of the element of the reduction over dims that it belongs to.
func eachReduced(shape, dims []int64, yield func(i, o int64)) {
	ones := slices.Clone(shape)
	for _, d := range dims {
		ones[d] = 1
	}
	i := int64(0)
	EachIndex(shape, func(index []int64) {
		yield(i, broadcastOffset(ones, index))
		i++
	})
}

var WelfordOp = def(OpInfo{Name: "welford", Results: []string{"avg", "var_sum", "n"}, Group: groupReduction, Class: Reduction,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "dims", Kind: Dims}),
	Promote:    Promotion{Accept: AcceptFloat},
	Expand: func(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
		v, err := wideOperand(f, op, args[0].Tensor)
		if err != nil {
			return nil, err
		}
		return f.appendExpr(op, []Arg{TensorOf(v), args[1]})
	},
	Infer: inferWelford, NeedsWhole: reducedDims, Eval: evalWelford, Merge: WelfordMergeOp, Cost: 5,
	TorchCall: "rows.welford(arg, dims)",
	Torch:     "(lambda a, d: (a.mean(d), ((a - a.mean(d, keepdim=True)) ** 2).sum(d), torch.ones_like(a).sum(d)))(arg.double(), dims)",
	Doc: "The mean of the elements of arg along dims, the sum of the squares of their distances from it, and their number (of dtype Int). " +
		"arg is floating-point; types narrower than Float are converted to Float, which the first two results are then. " +
		"The mean of no elements is NaN. With infinities of one sign it is that infinity, as of torch.mean(), and the sum of squares NaN. Where the sum of all elements is beyond the range of the type a kernel may give an infinite mean. " +
		"dims must name a dimension. " +
		"The name is that of the method of B. P. Welford (1962), which needs one pass."})

// wideOperand returns v in the type that moments and exponentials are added up in.
func wideOperand(f *Fusion, op *OpInfo, v ValID) (ValID, error) {
	if err := checkAccepted(op, "arg", f.vals[v].DType); err != nil {
		return v, err
	}
	return f.Cast(v, widen(f.vals[v].DType))
}

func inferWelford(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	v := args[0].Tensor
	t := f.vals[v].DType
	if t != dtype.Float && t != dtype.Double {
		return inf, invalidType("welford(): arg is %v and must be Float or Double", t)
	}
	for _, result := range []dtype.Type{t, t, dtype.Int} {
		axes, err := f.reducedAxes(op, v, args[1].Ints)
		if err != nil {
			return inf, err
		}
		inf.add(result, axes)
	}
	return inf, nil
}

func evalWelford(c *Evaluation) error {
	x, dims := c.In(0), c.Expr.Args[1].Ints
	var out [3]*Array
	for k := range out {
		var err error
		if out[k], err = c.Out(k); err != nil {
			return err
		}
	}
	mean, squares, n := make([]float64, out[0].Len()), make([]float64, out[0].Len()), out[2].I
	err := c.eachFolded(x.Shape, dims, func(i, o int64) { mean[o], n[o] = mean[o]+x.F[i], n[o]+1 })
	if err != nil {
		return err
	}
	for o := range mean {
		mean[o] /= float64(n[o])
	}
	err = c.eachFolded(x.Shape, dims, func(i, o int64) {
		d := x.F[i] - mean[o]
		squares[o] += float64(d * d)
	})
	for o := range mean {
		out[0].F[o] = dtype.Round(out[0].Type, mean[o])
		out[1].F[o] = dtype.Round(out[1].Type, squares[o])
	}
	return err
}

const varianceDoc = " It is welford's sum of squares divided by max(n - correction, 0), where n is the number of elements; " +
	"a division by 0 gives inf or NaN. arg is floating-point; types narrower than Float are converted to Float, and the result stays so. " +
	"keepdim=True keeps a reduced dimension with size 1. dims must name a dimension."

func variance(name string, results []string, torch, doc string, mean bool) OpInfo {
	return OpInfo{Name: name, Group: groupReduction, Results: results, Class: Composite,
		Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "dims", Kind: Dims},
			Param{Name: "correction", Kind: Integer, Optional: true, Default: Given{Kind: GivenNumber, Num: scalar.Value{Type: dtype.Int, I: 1}}},
			Param{Name: "keepdim", Kind: Flag, Optional: true, Default: Given{Kind: GivenNumber, Num: boolValue(false)}}),
		Promote: Promotion{Accept: AcceptFloat},
		Expand: func(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
			return expandVariance(f, op, args, mean)
		},
		Torch: torch, Doc: doc}
}

var VarOp = def(variance("var", nil, "torch.var(arg, dims, correction=correction, keepdim=keepdim)",
	"The variance of the elements of arg along dims."+varianceDoc, false))

var VarMeanOp = def(variance("var_mean", []string{"var", "mean"}, "torch.var_mean(arg, dims, correction=correction, keepdim=keepdim)",
	"The variance and the mean of the elements of arg along dims; see var."+varianceDoc+
		" The mean with an infinity is that of torch.mean(); torch.var_mean()'s is NaN if a number follows the infinity. Where the sum of all elements is beyond the range of the type a kernel may give an infinite mean.", true))

func expandVariance(f *Fusion, op *OpInfo, args []Arg, mean bool) ([]ValID, error) {
	v, err := wideOperand(f, op, args[0].Tensor)
	if err != nil {
		return nil, err
	}
	dims := args[1].Ints
	if len(dims) == 0 {
		return nil, invalidArgument("%s(): dims is empty; it must name a dimension to reduce", op.Name)
	}
	w, err := f.Apply(WelfordOp, TensorOf(v), IntsOf(dims...))
	if err != nil {
		return nil, err
	}
	scale, err := f.reciprocalCount(v, dims, args[2].Int)
	if err != nil {
		return nil, err
	}
	result, err := f.apply1(MulOp, TensorOf(w[1]), ScalarOf(scale))
	if err != nil {
		return nil, err
	}
	out := []ValID{result}
	if mean {
		out = append(out, w[0])
	}
	if !args[3].Bool() {
		return out, nil
	}
	flags := make([]bool, f.Rank(v))
	for _, d := range dims {
		flags[d] = true
	}
	for i := range out {
		if out[i], err = f.restoreDims(out[i], flags); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// reciprocalCount returns 1 / max(n - correction, 0) in Double, n being the
// number of elements of v along dims.
func (f *Fusion) reciprocalCount(v ValID, dims []int64, correction int64) (scalar.ID, error) {
	n := f.scalars.Int(1)
	for _, d := range dims {
		n = f.scalars.Mul(n, f.Size(f.Axes(v)[d]))
	}
	double := func(x float64) Arg { return ScalarOf(f.scalars.Value(scalar.Value{Type: dtype.Double, Re: x})) }
	count, err := f.scalarOp(SubOp, []Arg{ScalarOf(f.castScalar(n, dtype.Double)), double(float64(correction))})
	if err != nil {
		return scalar.None, err
	}
	if count, err = f.scalarOp(MaximumOp, []Arg{ScalarOf(count), double(0)}); err != nil {
		return scalar.None, err
	}
	return f.scalarOp(ReciprocalOp, []Arg{ScalarOf(count)})
}
