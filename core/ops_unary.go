package core

import (
	"math"

	"nvfuser_go/core/numerics"
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

// Cost of an element computed in Float, as a number of additions: estimates
// from the instructions that the CUDA functions take. Comparing, selecting,
// converting and copying count as an addition.
const (
	costAdd       = 1
	costDivide    = 8 // and square roots
	costExp       = 4 // and logarithms
	costTrig      = 15
	costInverse   = 12 // inverse trigonometric and hyperbolic functions
	costTanh      = 8  // and the other hyperbolic functions
	costErf       = 16
	costPow       = 16
	costRemainder = 20 // also of integers, which have no division instruction
	costLgamma    = 40
)

func signature(params ...Param) []Signature { return []Signature{{params}} }

func operand(name string) Param { return Param{Name: name, Kind: Operand} }

var (
	// floating: results of transcendental functions.
	floating = Promotion{Accept: AcceptAll, Compute: FloatOf}
	// floatingReal: those that have no complex form here.
	floatingReal = Promotion{Accept: AcceptReal, Compute: FloatOf}
	// arithmetic: results of the operands' common type.
	arithmetic = Promotion{Accept: AcceptAll, Compute: Common}
	// keeping: results of the operand's own type, reduced floats not widened.
	keeping = Promotion{Accept: AcceptAll, Compute: Keep}
	// rounding: keeping, of numbers that are ordered.
	rounding = Promotion{Accept: AcceptInt | AcceptFloat, Compute: Keep}
)

// unary fills a row for an elementwise op of one operand whose CUDA text is
// exact.
func unary(name string, p Promotion, m Meaning, cuda Spelling, torch, doc string) OpInfo {
	return OpInfo{Name: name, Group: groupUnary, Class: Elementwise, Signatures: signature(operand("x")),
		Promote: p, Meaning: m, CUDA: cuda, Torch: torch, Doc: doc, Cost: costAdd}
}

// rated returns i with a cost, an error bound and the intervals of its operands.
func (i OpInfo) rated(cost, ulp float64, domain ...Interval) OpInfo {
	i.Cost, i.ULP, i.Domain = cost, ulp, domain
	return i
}

// function fills a row for a function that torch has under the same name, and
// CUDA too, with an f appended in Float. If c, its meaning for complex numbers,
// is nil, it takes real ones only.
func function(name string, f func(float64) float64, c func(complex128) complex128, doc string) OpInfo {
	i := unary(name, floatingReal, Meaning{Float: Kernel[float64]{F1: f}},
		Spelling{F32: name + "f($0)", F64: name + "($0)"}, "torch."+name+"(x)",
		doc+" Integers and bools are converted to Float first.")
	if c != nil {
		i.Promote = floating
		i.Meaning.Complex.F1 = c
		i.CUDA.C64 = name + "($0)"
	}
	return i
}

// fast returns i with a function for Float.
func (i OpInfo) fast(f func(float32) float32) OpInfo {
	i.Meaning.Float32.F1 = f
	return i
}

// approximated returns i with a cheaper text for results of at most 16 bits.
func (i OpInfo) approximated(cuda string, error float64) OpInfo {
	i.Approx = Approximation{cuda, error}
	return i
}

// Bounds of approximations, from the bounds of the instructions (PTX ISA, "Floating
// Point Instructions": ex2.approx 2 units in the last place, rcp.approx and
// sqrt.approx 1). The argument of exp is multiplied by log2(e) first: that rounds by
// up to 2^-24 of it, which is up to 150, and so counts for more than the instruction.
const (
	approxExp    = 1.0 / (1 << 17)
	approxExp2   = 1.0 / (1 << 20)
	approxDivide = 1.0 / (1 << 21)
	approxErf    = 2.22e-5 // of 1 + erf: with a sigmoid, less than maxApproximation
)

// plusOne returns i with the op that computes 1 more.
func (i OpInfo) plusOne(op *OpInfo) OpInfo {
	i.PlusOne = op
	return i
}

// The error bounds are those of the CUDA C++ programming guide, "Mathematical
// functions".
var (
	AcosOp = def(function("acos", numerics.Acos, numerics.AcosComplex,
		"The inverse cosine of x, from 0 to pi; NaN outside [-1, 1].").
		rated(costInverse, 2, Interval{-1, 1}))
	AcoshOp = def(function("acosh", math.Acosh, numerics.AcoshComplex,
		"The inverse hyperbolic cosine of x, not negative; NaN below 1.").
		rated(costInverse, 4, Interval{1, 100}))
	AsinOp = def(function("asin", numerics.Asin, numerics.AsinComplex,
		"The inverse sine of x, from -pi/2 to pi/2; NaN outside [-1, 1].").
		rated(costInverse, 2, Interval{-1, 1}))
	AsinhOp = def(function("asinh", math.Asinh, numerics.AsinhComplex,
		"The inverse hyperbolic sine of x.").
		rated(costInverse, 3, Interval{-100, 100}))
	AtanOp = def(function("atan", math.Atan, numerics.AtanComplex,
		"The inverse tangent of x, from -pi/2 to pi/2.").
		rated(costInverse, 2, Interval{-100, 100}))
	AtanhOp = def(function("atanh", math.Atanh, numerics.AtanhComplex,
		"The inverse hyperbolic tangent of x; infinite at -1 and 1, NaN outside.").
		rated(costInverse, 3, Interval{-0.999, 0.999}))

	CosOp = def(function("cos", math.Cos, numerics.CosComplex,
		"The cosine of x in radians; NaN for infinities.").
		fast(numerics.Cos32).rated(costTrig, 2, Interval{-100, 100}))
	CoshOp = def(function("cosh", numerics.Cosh, numerics.CoshComplex,
		"The hyperbolic cosine of x.").
		rated(costTanh, 2, Interval{-80, 80}))
	SinOp = def(function("sin", math.Sin, numerics.SinComplex,
		"The sine of x in radians; NaN for infinities.").
		fast(numerics.Sin32).rated(costTrig, 2, Interval{-100, 100}))
	SinhOp = def(function("sinh", numerics.Sinh, numerics.SinhComplex,
		"The hyperbolic sine of x.").
		rated(costTanh, 3, Interval{-80, 80}))
	TanOp = def(function("tan", numerics.Tan, numerics.TanComplex,
		"The tangent of x in radians; NaN for infinities.").
		rated(costTrig, 4, Interval{-1.5, 1.5}))
	TanhOp = def(function("tanh", math.Tanh, numerics.TanhComplex,
		"The hyperbolic tangent of x.").
		fast(numerics.Tanh32).rated(costTanh, 2, Interval{-10, 10}).plusOne(&tanhPlusOne))

	ExpOp = def(function("exp", math.Exp, numerics.ExpComplex,
		"e to the power x.").
		fast(numerics.Exp32).rated(costExp, 2, Interval{-80, 80}).approximated("approximateExp($0)", approxExp))
	Exp2Op = def(function("exp2", math.Exp2, numerics.Exp2Complex,
		"2 to the power x.").
		rated(costExp, 2, Interval{-120, 120}).approximated("approximateExp2($0)", approxExp2))
	Expm1Op = def(function("expm1", math.Expm1, numerics.Expm1Complex,
		"e to the power x, minus 1, accurate also where x is near 0.").
		rated(costExp, 1, Interval{-20, 80}))
	LogOp = def(function("log", numerics.Log, numerics.LogComplex,
		"The natural logarithm of x; -inf for 0, NaN for negative numbers.").
		fast(numerics.Log32).rated(costExp, 1, Interval{0, 100}))
	Log10Op = def(function("log10", numerics.Log10, numerics.Log10Complex,
		"The decimal logarithm of x; -inf for 0, NaN for negative numbers.").
		rated(costExp, 2, Interval{0, 100}))
	Log1pOp = def(function("log1p", math.Log1p, numerics.Log1pComplex,
		"The natural logarithm of 1 + x, accurate also where x is near 0; -inf for -1, NaN below.").
		rated(costExp, 1, Interval{-1, 100}))
	Log2Op = def(function("log2", numerics.Log2, numerics.Log2Complex,
		"The binary logarithm of x; -inf for 0, NaN for negative numbers.").
		rated(costExp, 1, Interval{0, 100}))

	ErfOp = def(function("erf", math.Erf, nil,
		"The error function of x.").
		fast(numerics.Erf32).rated(costErf, 2, Interval{-4, 4}).plusOne(&erfPlusOne))
	ErfcOp = def(function("erfc", math.Erfc, nil,
		"The complementary error function of x, 1 - erf(x).").
		rated(costErf, 4, Interval{-4, 9}))
	ErfinvOp = def(function("erfinv", math.Erfinv, nil,
		"The inverse error function of x; infinite at -1 and 1, NaN outside.").
		rated(costErf, 2, Interval{-0.999, 0.999}))
	ErfcinvOp = def(erfcinv())
	LgammaOp  = def(function("lgamma", numerics.Lgamma, nil,
		"The logarithm of the absolute value of the gamma function of x; inf at 0 and the negative integers.").
		rated(costLgamma, 6, Interval{0.05, 30})) // the bound does not hold around the zeros in [-10, -2.3]

	SqrtOp = def(function("sqrt", math.Sqrt, numerics.SqrtComplex,
		"The square root of x; NaN for negative numbers.").
		fast(func(a float32) float32 { return float32(math.Sqrt(float64(a))) }).rated(costDivide, 0, Interval{0, 100}).approximated("approximateSqrt($0)", approxDivide))
	RsqrtOp = def(function("rsqrt", func(a float64) float64 { return 1 / math.Sqrt(a) }, numerics.RsqrtComplex,
		"The reciprocal of the square root of x; infinite for 0, NaN for negative numbers.").
		rated(costDivide, 2, Interval{0, 100}))
	ReciprocalOp = def(unary("reciprocal", floating, Meaning{
		Float:   Kernel[float64]{F1: func(a float64) float64 { return 1 / a }},
		Float32: Kernel[float32]{F1: func(a float32) float32 { return 1 / a }},
		Complex: Kernel[complex128]{F1: numerics.ReciprocalComplex}},
		Spelling{F32: "1 / $0", C64: "reciprocal($0)"}, "torch.reciprocal(x)",
		"1 / x; infinite for 0.").rated(costDivide, 0).approximated("approximateReciprocal($0)", approxDivide))

	SigmoidOp = def(unary("sigmoid", floating, Meaning{
		Float:   Kernel[float64]{F1: numerics.Sigmoid},
		Float32: Kernel[float32]{F1: numerics.Sigmoid32},
		Complex: Kernel[complex128]{F1: numerics.SigmoidComplex}},
		Spelling{F32: "sigmoid($0)", C64: "sigmoid($0)"}, "torch.sigmoid(x)",
		"The logistic function of x, 1 / (1 + exp(-x)).").rated(costExp+costDivide, 4, Interval{-104, 104}).approximated("approximateSigmoid($0)", approxExp+approxDivide))
	SiluOp = def(unary("silu", floating, Meaning{
		Float:   Kernel[float64]{F1: numerics.Silu},
		Complex: Kernel[complex128]{F1: numerics.SiluComplex}},
		Spelling{F32: "$0 * sigmoid($0)", C64: "$0 * sigmoid($0)"}, "torch.nn.functional.silu(x)",
		"x * sigmoid(x); NaN for -inf.").rated(costExp+costDivide, 5, Interval{-87, 104}).approximated("$0 * approximateSigmoid($0)", approxExp+approxDivide))
)

// erfcinv has no function in torch: the inverse of the normal distribution is
// its counterpart.
func erfcinv() OpInfo {
	i := function("erfcinv", numerics.ErfcInv, nil,
		"The inverse complementary error function of x; inf for 0, -inf for 2, NaN outside.").
		rated(costErf, 4, Interval{0, 2})
	i.Torch = "torch.where(x < 0, torch.nan, torch.special.ndtri(x / 2) * -(0.5 ** 0.5))"
	return i
}

func same[T any](a T) T { return a }

// exact fills a row whose result is one that the operand's own type holds.
func exact(name string, f func(float64) float64, cuda32, cuda64, doc string) OpInfo {
	return unary(name, rounding, Meaning{
		Float: Kernel[float64]{F1: f},
		Int:   Kernel[int64]{F1: same[int64]}},
		Spelling{F32: cuda32, F64: cuda64, Int: "$0", UInt: "$0"}, "torch."+name+"(x)", doc)
}

func magnitude(a int64) int64 { return max(a, -a) }

func sign(a int64) int64 {
	switch {
	case a > 0:
		return 1
	case a < 0:
		return -1
	}
	return 0
}

func relu[T numerics.Real](a T) T {
	if a <= 0 {
		return 0
	}
	return a // NaN too
}

var (
	CeilOp = def(exact("ceil", math.Ceil, "ceilf($0)", "ceil($0)",
		"x rounded up to an integer; integers are returned as they are. The dtype is that of x."))
	FloorOp = def(exact("floor", math.Floor, "floorf($0)", "floor($0)",
		"x rounded down to an integer; integers are returned as they are. The dtype is that of x."))
	RoundOp = def(exact("round", numerics.Round, "rintf($0)", "rint($0)",
		"x rounded to the nearest integer, halves to the even one; integers are returned as they are. The dtype is that of x."))
	TruncOp = def(exact("trunc", math.Trunc, "truncf($0)", "trunc($0)",
		"x rounded to an integer towards zero; integers are returned as they are. The dtype is that of x."))
	FracOp = def(frac())

	AbsOp = def(unary("abs", Promotion{Accept: AcceptNumber, Compute: Keep, Result: ToReal}, Meaning{
		Float:   Kernel[float64]{F1: math.Abs},
		Float32: Kernel[float32]{F1: func(a float32) float32 { return math.Float32frombits(math.Float32bits(a) &^ (1 << 31)) }},
		Int:     Kernel[int64]{F1: magnitude},
		UInt:    Kernel[uint64]{F1: same[uint64]},
		Complex: Kernel[complex128]{F1: func(a complex128) complex128 { return complex(numerics.AbsComplex(a), 0) }}},
		Spelling{F32: "fabsf($0)", F64: "fabs($0)", Int: "absWrapping($0)", UInt: "$0", C64: "abs($0)"}, "torch.abs(x)",
		"The absolute value of x, of its own dtype; of complex numbers a real one. That of the smallest integer wraps to itself."))
	NegOp  = def(neg())
	SignOp = def(unary("sign", keeping, Meaning{
		Float:   Kernel[float64]{F1: numerics.Sign},
		Int:     Kernel[int64]{F1: sign},
		UInt:    Kernel[uint64]{F1: func(a uint64) uint64 { return min(a, 1) }},
		Bool:    Kernel[bool]{F1: same[bool]},
		Complex: Kernel[complex128]{F1: numerics.SignComplex}},
		Spelling{F32: "sign($0)", Int: "sign($0)", UInt: "$0 != 0", Bool: "$0", C64: "sign($0)"}, "torch.sgn(x)",
		"The sign of x, -1, 0 or 1, in its own dtype; 0 for NaN. Of a complex number, x / abs(x), and 0 for 0.").
		rated(2, 4)) // of a complex number; of real ones it is exact
	ReluOp = def(unary("relu", rounding, Meaning{
		Float:   Kernel[float64]{F1: relu[float64]},
		Float32: Kernel[float32]{F1: relu[float32]},
		Int:     Kernel[int64]{F1: relu[int64]},
		UInt:    Kernel[uint64]{F1: same[uint64]}},
		Spelling{F32: "$0 <= 0 ? 0 : $0", Int: "$0 <= 0 ? 0 : $0", UInt: "$0"}, "torch.relu(x)",
		"x, or 0 where it is negative, in its own dtype; NaN stays NaN."))

	RealOp = def(unary("real", Promotion{Accept: AcceptAll, Compute: Keep, Result: ToReal}, identity(),
		Spelling{F32: "$0", Int: "$0", UInt: "$0", Bool: "$0", C64: "real($0)"}, "torch.real(x)",
		"The real part of x, of the dtype of its parts; a real x as it is."))
	ImagOp = def(unary("imag", Promotion{Accept: AcceptComplex, Compute: Keep, Result: ToReal},
		Meaning{Complex: Kernel[complex128]{F1: func(a complex128) complex128 { return complex(imag(a), 0) }}},
		Spelling{C64: "imag($0)"}, "torch.imag(x)",
		"The imaginary part of x, of the dtype of its parts. x must be complex."))
)

func identity() Meaning {
	return Meaning{
		Float:   Kernel[float64]{F1: same[float64]},
		Int:     Kernel[int64]{F1: same[int64]},
		Bool:    Kernel[bool]{F1: same[bool]},
		Complex: Kernel[complex128]{F1: same[complex128]},
	}
}

// frac of integers is 0: torch has it for floats only.
func frac() OpInfo {
	i := exact("frac", numerics.Frac, "$0 - truncf($0)", "$0 - trunc($0)",
		"The fractional part of x, x - trunc(x), in its own dtype; it has the sign of x, and is NaN for infinities.")
	i.Meaning.Int.F1 = func(int64) int64 { return 0 }
	i.CUDA.Int, i.CUDA.UInt = "0", "0"
	i.Torch, i.Cost = "x - torch.trunc(x)", 2
	return i
}

func neg() OpInfo {
	i := unary("neg", Promotion{Accept: AcceptNumber, Compute: Common}, Meaning{
		Float:   Kernel[float64]{F1: func(a float64) float64 { return -a }},
		Float32: Kernel[float32]{F1: func(a float32) float32 { return -a }},
		Int:     Kernel[int64]{F1: func(a int64) int64 { return -a }},
		Complex: Kernel[complex128]{F1: func(a complex128) complex128 { return -a }}},
		Spelling{F32: "-$0", Int: "negWrapping($0)", UInt: "-$0", C64: "-$0"}, "torch.neg(x)",
		"The negation of x; integers wrap. Bools have none: use logical_not().")
	i.Scalar = func(t *scalar.Table, a []scalar.ID) scalar.ID { return t.Neg(a[0]) }
	return i
}
