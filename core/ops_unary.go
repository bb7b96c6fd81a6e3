package core

import (
	"math"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// Headings of the documentation page.
const (
	groupUnary     = "Elementwise, one operand"
	groupBinary    = "Elementwise, two operands"
	groupCompare   = "Comparisons"
	groupLogical   = "Logical and bitwise"
	groupTernary   = "Elementwise, three operands"
	groupCast      = "Casts and copies"
	groupReduction = "Reductions"
	groupScan      = "Scans"
	groupView      = "Shapes"
	groupResize    = "Slice, pad, cat"
	groupIndexing  = "Indexing"
	groupSort      = "Ordering"
	groupFactory   = "Factories"
	groupRandom    = "Random numbers"
	groupGemm      = "Matrix products and attention"
)

func signature(params ...Param) []Signature { return []Signature{{params}} }

func operand(name string) Param { return Param{Name: name, Kind: Operand} }

// unary fills a row for an elementwise op of one operand.
func unary(name string, p Promotion, m Meaning, cuda Spelling, torch, doc string) OpInfo {
	return OpInfo{Name: name, Group: groupUnary, Class: Elementwise, Signatures: signature(operand("x")),
		Promote: p, Meaning: m, CUDA: cuda, Torch: torch, Doc: doc, Cost: 1, ULP: 1}
}

var (
	// floating: results of transcendental functions.
	floating = Promotion{Accept: AcceptAll, Compute: FloatOf}
	// arithmetic: results of the operands' common type.
	arithmetic = Promotion{Accept: AcceptAll, Compute: Common}
	// keeping: results of the operand's own type, reduced floats not widened.
	keeping = Promotion{Accept: AcceptAll, Compute: Keep}
)

var ExpOp = def(unary("exp", floating,
	Meaning{Float: Kernel[float64]{F1: math.Exp}},
	Spelling{F32: "expf($0)", F64: "exp($0)", C64: "exp($0)"}, "torch.exp(x)",
	"e to the power x."))

// CastOp converts; see ConvertScalar.
var CastOp = def(OpInfo{Name: "cast", Group: groupCast, Class: Elementwise,
	Signatures: signature(operand("arg"), Param{Name: "dtype", Kind: Dtype}),
	Expand:     expandCast, Infer: inferCast,
	Meaning: Meaning{Any: func(t dtype.Type, a []scalar.Value) scalar.Value { return ConvertScalar(t, a[0]) }},
	Torch:   "arg.to(dtype)", Cost: 1,
	Doc: "arg converted to dtype. Floats become integers by truncation; any non-zero number becomes True; the imaginary part of a complex number is dropped."})

func expandCast(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
	t := args[1].DType()
	if t == dtype.Null || t.Size() == 0 || t == dtype.Float4E2M1FNx2 {
		return nil, invalidType("cast(): dtype is %v, which is not a type to compute with", t)
	}
	if args[0].Kind == ScalarArg {
		return []ValID{f.ScalarVal(f.castScalar(args[0].Scalar, t))}, nil
	}
	return f.appendExpr(op, args)
}

func inferCast(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	axes, err := f.elementwiseAxes(&inf, op, args)
	if err == nil {
		inf.add(args[1].DType(), axes)
	}
	return inf, err
}
