package core

import (
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// CastOp converts; see ConvertScalar.
var CastOp = def(OpInfo{Name: "cast", Group: groupCast, Class: Elementwise,
	Signatures: signature(operand("arg"), Param{Name: "dtype", Kind: Dtype}),
	Promote:    keeping,
	Expand:     expandCast, Infer: inferCast,
	Meaning: Meaning{Any: func(t dtype.Type, a []scalar.Value) scalar.Value { return ConvertScalar(t, a[0]) }},
	Torch:   "arg.to(dtype)", TorchCall: "rows.cast(arg, dtype)", Cost: costAdd,
	Doc: "arg converted to dtype. Floats become integers by truncation; any number that is not 0, NaN too, becomes True; " +
		"integers wrap; the imaginary part of a complex number is dropped. A cast to the dtype of arg is a copy."})

func expandCast(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
	t := args[1].DType()
	if err := checkCast(t); err != nil {
		return nil, err
	}
	if args[0].Kind == ScalarArg {
		return []ValID{f.ScalarVal(f.castScalar(args[0].Scalar, t))}, nil
	}
	return f.appendExpr(op, args)
}

// checkCast fails if elements cannot be converted to t one by one.
func checkCast(t dtype.Type) error {
	if !t.Computes() {
		return invalidType("cast(): dtype is %v, which is not a type to compute with", t)
	}
	return nil
}

func inferCast(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	if err := checkCast(args[1].DType()); err != nil {
		return inf, err
	}
	axes, err := f.elementwiseAxes(&inf, op, args)
	if err == nil {
		inf.add(args[1].DType(), axes)
	}
	return inf, err
}

// A copy fills a row for an identity, of tensors that may have any dtype.
func copying(name, doc string) OpInfo {
	return OpInfo{Name: name, Group: groupCast, Class: Elementwise, Signatures: signature(operand("x")),
		Promote: keeping,
		Expand: func(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
			if args[0].Kind == ScalarArg {
				return []ValID{f.ScalarVal(args[0].Scalar)}, nil
			}
			return f.appendExpr(op, args)
		},
		Meaning: Meaning{Any: func(_ dtype.Type, a []scalar.Value) scalar.Value { return a[0] }},
		CUDA:    Spelling{F32: "$0", Int: "$0", UInt: "$0", Bool: "$0", C64: "$0"},
		Torch:   "x", Cost: costAdd, Doc: doc}
}

var (
	SetOp        = def(copying("set", "A copy of x, of its own dtype."))
	SegmentSetOp = def(copying("segment_set", "A copy of x, of its own dtype; what reads it is computed by another kernel than what it reads."))
)
