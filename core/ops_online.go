package core

import (
	"math"

	"nvfuser_go/core/dtype"
)

// MaxExpSumOp is what softmax, log-softmax and the logarithm of a sum of
// exponentials need of a row. Parts of rows can be combined, so that it is one
// reduction where the maximum and the sum are two, the second of which waits for
// the first. Passes make it of those; the underscore tells callers that it is
// not theirs.
var MaxExpSumOp = def(OpInfo{Name: "_max_exp_sum", Results: []string{"max", "exp_sum"}, Group: groupReduction, Class: Reduction,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "dims", Kind: Dims}),
	Promote:    Promotion{Accept: AcceptFloat},
	Expand: func(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
		v, err := wideOperand(f, op, args[0].Tensor)
		if err != nil {
			return nil, err
		}
		return f.appendExpr(op, []Arg{TensorOf(v), args[1]})
	},
	Infer: inferMaxExpSum, NeedsWhole: reducedDims, Eval: evalMaxExpSum, Merge: MaxExpSumMergeOp, Cost: costExp + 4,
	TorchCall: "rows.max_exp_sum(arg, dims, device)",
	Torch:     "(lambda a, d: (a.amax(d), (a - a.amax(d, keepdim=True)).exp().sum(d)))(arg.double(), dims)",
	Doc: "The largest of the elements of arg along dims, as of max(), and the sum of exp(x - max) over them. " +
		"arg is floating-point; types narrower than Float are converted to Float, which the results are then. " +
		"The sum is NaN where the largest element is NaN or infinite; of no elements the results are -inf and 0. " +
		"dims must name a dimension. Passes write max() and a sum of exp() as this; nvFuser has no such operation. " +
		"M. Milakov, N. Gimelshein, Online normalizer calculation for softmax (2018)."})

// MaxExpSumMergeOp combines the results of [MaxExpSumOp] for parts of the elements.
// It is no row of the table: schedules make it, callers cannot.
var MaxExpSumMergeOp = &OpInfo{Name: "_max_exp_sum_merge", Results: []string{"max", "exp_sum"}, Group: groupReduction, Class: Reduction,
	Signatures: signature(Param{Name: "max", Kind: TensorIn}, Param{Name: "exp_sum", Kind: TensorIn}, Param{Name: "dims", Kind: Dims}),
	Promote:    Promotion{Accept: AcceptFloat},
	Infer:      inferMaxExpSumMerge, Eval: evalMaxExpSumMerge, Merges: true,
	NeedsWhole: func(_ *Fusion, e *Expr) []int { return positions(e.Args[2].Ints) },
	Doc:        "The largest element and the sum of exp(x - max) of which the operands hold those of parts, along dims.",
	op:         ^Op(3)}

// ExpNegativeOp is exp(x) of an x that is not positive, in two instructions where
// exp takes eight: with an error of at most 2^-23, so that small results have fewer
// digits. A sum of such terms, of which the largest is 1, has all of its digits. It
// is no row of the table: lowering makes it.
var ExpNegativeOp = func() *OpInfo {
	i := unary("exp_negative", floatingReal, Meaning{Float: ExpOp.Meaning.Float, Float32: ExpOp.Meaning.Float32},
		Spelling{F32: "expNegative($0)", F64: "exp($0)"}, "", "e to the power x, which is at most 0.").rated(2, 0, Interval{-200, 0})
	i.op = ^Op(4)
	return &i
}()

// ExpShareOp is what a softmax divides an exponential by their sum with: exp(x) / y of an
// x that is not positive and a y from 1 to 2^40, so that 1 / y is a normal number and
// a multiplication will do, which takes no slow path for an x of minus infinity, as a
// division does. A pass makes it, of operands that [MaxExpSumOp] gives.
var ExpShareOp = def(binary("_exp_share", Promotion{Accept: AcceptFloat, Compute: Common}, Meaning{
	Float:   Kernel[float64]{F2: func(a, b float64) float64 { return ExpOp.Meaning.Float.F1(a) / b }},
	Float32: Kernel[float32]{F2: func(a, b float32) float32 { return ExpOp.Meaning.Float32.F1(a) / b }}},
	Spelling{F32: "expShare($0, $1)", F64: "exp($0) / $1"}, "torch.exp(x) / y",
	"exp(x) / y, the share of an exponential in the sum y of several, none of which is above 1: x is at most 0 and y from 1 to 2^40. "+
		"Passes write the quotient of a softmax as this; nvFuser has no such operation.").
	rated(costExp+costAdd, 4, Interval{-80, 0}, Interval{1, 1 << 40}).approximated("approximateExpShare($0, $1)", approxExp))

func inferMaxExpSum(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	v := args[0].Tensor
	t := f.vals[v].DType
	if t != dtype.Float && t != dtype.Double {
		return inf, invalidType("%s(): arg is %v and must be Float or Double", op.Name, t)
	}
	for range 2 {
		axes, err := f.reducedAxes(op, v, args[1].Ints)
		if err != nil {
			return inf, err
		}
		inf.add(t, axes)
	}
	return inf, nil
}

func inferMaxExpSumMerge(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	t := f.vals[args[0].Tensor].DType
	for k := range 2 {
		v := args[k].Tensor
		if f.vals[v].DType != t || f.Rank(v) != f.Rank(args[0].Tensor) {
			return inf, invalidType("%s(): operands must be two results of one _max_exp_sum", op.Name)
		}
		axes, err := f.reducedAxes(op, v, args[2].Ints)
		if err != nil {
			return inf, err
		}
		inf.add(t, axes)
	}
	return inf, nil
}

// evalMaxExpSum rounds differences and exponentials, as sub and exp do.
func evalMaxExpSum(c *Evaluation) error {
	x, dims := c.In(0), c.Expr.Args[1].Ints
	return evalRescaled(c, x, dims, func(i int64, largest float64) float64 {
		return expDifference(x.Type, x.F[i], largest)
	})
}

// evalMaxExpSumMerge leaves out parts that vanish beside a larger one, whose sum
// may be NaN: of minus infinities.
func evalMaxExpSumMerge(c *Evaluation) error {
	x, sum, dims := c.In(0), c.In(1), c.Expr.Args[2].Ints
	return evalRescaled(c, x, dims, func(i int64, largest float64) float64 {
		if x.F[i] == largest {
			return sum.F[i]
		}
		factor := math.Exp(x.F[i] - largest)
		if factor == 0 {
			return 0
		}
		return float64(factor * sum.F[i])
	})
}

// evalRescaled gives c the largest element of x, and the sum of what its elements
// add beside that.
func evalRescaled(c *Evaluation, x *Array, dims []int64, adds func(i int64, largest float64) float64) error {
	largest, err := c.Out(0)
	if err != nil {
		return err
	}
	sum, err := c.Out(1)
	if err != nil {
		return err
	}
	for o := range largest.F {
		largest.F[o] = math.Inf(-1)
	}
	larger := MaximumOp.Meaning.Float.F2
	if err := c.eachFolded(x.Shape, dims, func(i, o int64) { largest.F[o] = larger(largest.F[o], x.F[i]) }); err != nil {
		return err
	}
	err = c.eachFolded(x.Shape, dims, func(i, o int64) { sum.F[o] += adds(i, largest.F[o]) })
	for o := range sum.F {
		sum.F[o] = dtype.Round(sum.Type, sum.F[o])
	}
	return err
}

// expDifference is exp(a - b), of operands and with the rounding of type t.
func expDifference(t dtype.Type, a, b float64) float64 {
	d := dtype.Round(t, a-b)
	if f := ExpOp.Meaning.Float32.F1; f != nil && t == dtype.Float {
		return float64(f(float32(d)))
	}
	return dtype.Round(t, ExpOp.Meaning.Float.F1(d))
}
