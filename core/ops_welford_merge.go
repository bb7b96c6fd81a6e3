package core

import "nvfuser_go/core/dtype"

// WelfordMergeOp combines the results of [WelfordOp] for parts of the elements.
// It is no row of the table: schedules make it, callers cannot.
var WelfordMergeOp = &OpInfo{Name: "welford_merge", Results: []string{"avg", "var_sum", "n"}, Group: groupReduction, Class: Reduction,
	Signatures: signature(Param{Name: "avg", Kind: TensorIn}, Param{Name: "var_sum", Kind: TensorIn}, Param{Name: "n", Kind: TensorIn},
		Param{Name: "dims", Kind: Dims}),
	Promote: Promotion{Accept: AcceptFloat},
	Infer:   inferWelfordMerge, Eval: evalWelfordMerge, Merges: true,
	NeedsWhole: func(_ *Fusion, e *Expr) []int { return positions(e.Args[3].Ints) },
	Doc: "The mean, the sum of squares and the number of elements of which the operands hold those of parts, along dims. " +
		"T. F. Chan, G. H. Golub, R. J. LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances (1979).",
	op: ^Op(0)}

// ReciprocalOfCountOp is 1 / x of an x from 1 on, in one instruction where a division
// takes ten: to a unit of the last place. It is no row of the table: lowering makes it.
var ReciprocalOfCountOp = func() *OpInfo {
	i := unary("reciprocal_of_count", floatingReal, Meaning{Float: ReciprocalOp.Meaning.Float, Float32: ReciprocalOp.Meaning.Float32},
		Spelling{F32: "reciprocalAbove1($0)", F64: "1 / $0"}, "", "1 / x of an x that is at least 1.").rated(1, 1, Interval{1, 1 << 30})
	i.op = ^Op(5)
	return &i
}()

func positions(dims []int64) []int {
	out := make([]int, len(dims))
	for i, d := range dims {
		out[i] = int(d)
	}
	return out
}

func inferWelfordMerge(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	t := f.vals[args[0].Tensor].DType
	for k, want := range []dtype.Type{t, t, dtype.Int} {
		v := args[k].Tensor
		if f.vals[v].DType != want || f.Rank(v) != f.Rank(args[0].Tensor) {
			return inf, invalidType("welford_merge(): operands must be three results of one welford")
		}
		axes, err := f.reducedAxes(op, v, args[3].Ints)
		if err != nil {
			return inf, err
		}
		inf.add(want, axes)
	}
	return inf, nil
}

// evalWelfordMerge adds up in two passes. A part without elements has no mean.
func evalWelfordMerge(c *Evaluation) error {
	avg, squares, n := c.In(0), c.In(1), c.In(2)
	var out [3]*Array
	for k := range out {
		var err error
		if out[k], err = c.Out(k); err != nil {
			return err
		}
	}
	dims := c.Expr.Args[3].Ints
	mean, sum := make([]float64, out[0].Len()), make([]float64, out[0].Len())
	err := c.eachFolded(avg.Shape, dims, func(i, o int64) {
		if n.I[i] != 0 {
			mean[o] += float64(avg.F[i] * float64(n.I[i]))
			out[2].I[o] += n.I[i]
		}
	})
	if err != nil {
		return err
	}
	for o := range mean {
		mean[o] /= float64(out[2].I[o])
	}
	err = c.eachFolded(avg.Shape, dims, func(i, o int64) {
		if n.I[i] != 0 {
			d := avg.F[i] - mean[o]
			sum[o] += squares.F[i] + float64(float64(n.I[i])*float64(d*d))
		}
	})
	for o := range mean {
		out[0].F[o] = dtype.Round(out[0].Type, mean[o])
		out[1].F[o] = dtype.Round(out[1].Type, sum[o])
	}
	return err
}
