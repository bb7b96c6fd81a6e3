package core

import (
	"slices"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/numerics"
	"nvfuser_go/core/scalar"
)

// ternary fills a row for an elementwise op of three operands.
func ternary(name string, p Promotion, params []Param, m Meaning, cuda Spelling, torch, doc string) OpInfo {
	return OpInfo{Name: name, Group: groupTernary, Class: Elementwise, Signatures: signature(params...),
		Promote: p, Meaning: m, CUDA: cuda, Torch: torch, Doc: doc, Cost: costAdd}
}

var (
	WhereOp = def(func() OpInfo {
		const text = "$0 ? $1 : $2"
		i := ternary("where", Promotion{Accept: AcceptAll, Compute: Common, Skip: 1},
			[]Param{operand("cond"), operand("x"), operand("y")},
			Meaning{Any: func(_ dtype.Type, a []scalar.Value) scalar.Value {
				if a[0].I != 0 {
					return a[1]
				}
				return a[2]
			}},
			Spelling{F32: text, Int: text, UInt: text, Bool: text, C64: text}, "torch.where(cond, x, y)",
			"x where cond is True, else y, of the common type of x and y. cond is a Bool or an integer, which is True if it is not 0. "+
				"Numbers for x and y have the type that they would have beside a tensor: Float, not Double.")
		i.Scalar = func(t *scalar.Table, a []scalar.ID) scalar.ID { return t.Select(a[0], a[1], a[2]) }
		return i
	}())

	ClampOp = def(func() OpInfo {
		bound := func(name string) Param { return Param{Name: name, Kind: Operand, Optional: true} }
		i := ternary("clamp", numericReal, []Param{operand("x"), bound("min"), bound("max")},
			Meaning{
				Float:   Kernel[float64]{F3: clamp[float64]},
				Float32: Kernel[float32]{F3: clamp[float32]},
				Int:     Kernel[int64]{F3: clamp[int64]},
				UInt:    Kernel[uint64]{F3: clamp[uint64]}},
			Spelling{F32: "minimum(maximum($0, $1), $2)", Int: "min(max($0, $1), $2)", UInt: "min(max($0, $1), $2)"},
			"torch.clamp(x, min, max)",
			"x, or min where it is less, or max where it is greater; max where min is greater than max, NaN where one of the three is. "+
				"One bound may be left out. Bools are integers.").rated(2, 0)
		i.Expand, i.Infer = expandClamp, inferClamp
		i.Scalar = func(t *scalar.Table, a []scalar.ID) scalar.ID { return t.Min(t.Max(a[0], a[1]), a[2]) }
		return i
	}())

	ThresholdOp = def(ternary("threshold", numericReal, []Param{operand("x"), operand("thr"), operand("value")},
		Meaning{
			Float:   Kernel[float64]{F3: threshold[float64]},
			Float32: Kernel[float32]{F3: threshold[float32]},
			Int:     Kernel[int64]{F3: threshold[int64]},
			UInt:    Kernel[uint64]{F3: threshold[uint64]}},
		Spelling{F32: "$0 <= $1 ? $2 : $0", Int: "$0 <= $1 ? $2 : $0", UInt: "$0 <= $1 ? $2 : $0"}, "torch.where(x <= thr, value, x)",
		"value where x is at most thr, else x; NaN stays NaN. Bools are integers.").rated(2, 0))

	LerpOp = def(ternary("lerp", floating, []Param{operand("start"), operand("end"), operand("weight")},
		Meaning{Float: Kernel[float64]{F3: numerics.Lerp}, Complex: Kernel[complex128]{F3: numerics.LerpComplex}},
		Spelling{F32: "lerp($0, $1, $2)", C64: "lerp($0, $1, $2)"}, "torch.lerp(start, end, weight)",
		"start + weight * (end - start), computed from the nearer end, so that it is exact for the weights 0 and 1. "+
			"Integers and bools are converted to Float first.").rated(4, 2, Interval{-10, 10}, Interval{-10, 10}, Interval{-1, 2}))

	AddcmulOp = def(OpInfo{Name: "addcmul", Group: groupTernary, Class: Composite,
		Signatures: signature(operand("x"), operand("y"), operand("z"), operand("value")),
		Promote:    numeric, Expand: expandAddcmul, Torch: "x + value * y * z", Cost: 3,
		Doc: "x + value * y * z, in the common type of the four. Bools are integers."})
)

func clamp[T numerics.Real](x, low, high T) T {
	return numerics.MinimumNaN(numerics.MaximumNaN(x, low), high)
}

func threshold[T numerics.Real](x, thr, value T) T {
	if x <= thr {
		return value
	}
	return x
}

// expandClamp makes a clamp with one bound a minimum or maximum, which
// propagate NaN as well. Bools are promoted as in clamp.
func expandClamp(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
	low, high := args[1].Kind != NoArg, args[2].Kind != NoArg
	if low && high {
		return expandElementwise(f, op, args)
	}
	if !low && !high {
		return nil, invalidArgument("clamp(): min and max are both None; give one of them")
	}
	args, err := f.promoted(op, args)
	if err != nil {
		return nil, err
	}
	if low {
		return f.Apply(MaximumOp, args[0], args[1])
	}
	return f.Apply(MinimumOp, args[0], args[2])
}

func inferClamp(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	if args[1].Kind == NoArg || args[2].Kind == NoArg {
		return Inference{}, invalidArgument("clamp(): min and max must both be given; with one bound it is minimum() or maximum()")
	}
	return inferElementwise(f, op, args)
}

func expandAddcmul(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
	args, err := f.promoted(op, args)
	if err != nil {
		return nil, err
	}
	product, err := f.apply1(MulOp, args[3], args[1])
	if err == nil {
		product, err = f.apply1(MulOp, f.operand(product), args[2])
	}
	if err != nil {
		return nil, err
	}
	return f.Apply(AddOp, args[0], f.operand(product))
}

// promoted returns args with the tensors converted to the type that op computes
// in; without a tensor, the scalars. Scalars beside a tensor do not change the
// type of what they are combined with, and print as the caller wrote them.
func (f *Fusion) promoted(op *OpInfo, args []Arg) ([]Arg, error) {
	t, err := f.promote(op, args)
	if err != nil {
		return nil, err
	}
	args = slices.Clone(args)
	anyTensor := slices.ContainsFunc(args, func(a Arg) bool { return a.Kind == TensorArg })
	for i := range args {
		switch {
		case args[i].Kind == TensorArg:
			if args[i].Tensor, err = f.Cast(args[i].Tensor, t); err != nil {
				return nil, err
			}
		case args[i].Kind == ScalarArg && !anyTensor:
			args[i].Scalar = f.castScalar(args[i].Scalar, t)
		}
	}
	return args, nil
}

// operand returns v as an argument.
func (f *Fusion) operand(v ValID) Arg {
	if x := &f.vals[v]; !x.Tensor {
		return ScalarOf(x.Scalar)
	}
	return TensorOf(v)
}
