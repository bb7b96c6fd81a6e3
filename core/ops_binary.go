package core

import (
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/numerics"
	"nvfuser_go/core/scalar"
)

// binary fills a row for an elementwise op of two operands whose CUDA text is
// exact.
func binary(name string, p Promotion, m Meaning, cuda Spelling, torch, doc string) OpInfo {
	return OpInfo{Name: name, Group: groupBinary, Class: Elementwise, Signatures: signature(operand("x"), operand("y")),
		Promote: p, Meaning: m, CUDA: cuda, Torch: torch, Doc: doc, Cost: costAdd}
}

// algebra returns i with a meaning for integer scalars of known dtype.
func (i OpInfo) algebra(f func(t *scalar.Table, a, b scalar.ID) scalar.ID) OpInfo {
	i.Scalar = func(t *scalar.Table, a []scalar.ID) scalar.ID { return f(t, a[0], a[1]) }
	return i
}

// commutative returns i as an op that commutes and associates; floats associate
// up to rounding.
func commutative(i OpInfo) OpInfo {
	i.Commutes, i.Associates = true, true
	return i
}

var (
	// ordered: results of the common type of numbers that are ordered.
	ordered = Promotion{Accept: AcceptReal, Compute: Common}
	// numeric: as arithmetic, and bools are integers.
	numeric = Promotion{Accept: AcceptAll, Compute: IntegerOf}
	// numericReal: as ordered, and bools are integers.
	numericReal = Promotion{Accept: AcceptReal, Compute: IntegerOf}
)

var (
	AddOp = def(commutative(binary("add", arithmetic, Meaning{
		Float:   Kernel[float64]{F2: func(a, b float64) float64 { return a + b }},
		Float32: Kernel[float32]{F2: func(a, b float32) float32 { return a + b }},
		Int:     Kernel[int64]{F2: func(a, b int64) int64 { return a + b }},
		Bool:    Kernel[bool]{F2: or},
		Complex: Kernel[complex128]{F2: func(a, b complex128) complex128 { return a + b }}},
		Spelling{F32: "$0 + $1", Int: "addWrapping($0, $1)", UInt: "$0 + $1", Bool: "$0 || $1", C64: "$0 + $1"}, "torch.add(x, y)",
		"The sum of x and y; of bools, their logical or. Integers wrap.").algebra((*scalar.Table).Add)))
	SubOp = def(binary("sub", Promotion{Accept: AcceptNumber, Compute: Common}, Meaning{
		Float:   Kernel[float64]{F2: func(a, b float64) float64 { return a - b }},
		Float32: Kernel[float32]{F2: func(a, b float32) float32 { return a - b }},
		Int:     Kernel[int64]{F2: func(a, b int64) int64 { return a - b }},
		Complex: Kernel[complex128]{F2: func(a, b complex128) complex128 { return a - b }}},
		Spelling{F32: "$0 - $1", Int: "subWrapping($0, $1)", UInt: "$0 - $1", C64: "$0 - $1"}, "torch.sub(x, y)",
		"The difference x - y. Integers wrap. Bools have none: use logical_not() or bitwise_xor().").algebra((*scalar.Table).Sub))
	MulOp = def(commutative(binary("mul", arithmetic, Meaning{
		Float:   Kernel[float64]{F2: func(a, b float64) float64 { return a * b }},
		Float32: Kernel[float32]{F2: func(a, b float32) float32 { return a * b }},
		Int:     Kernel[int64]{F2: func(a, b int64) int64 { return a * b }},
		Bool:    Kernel[bool]{F2: and},
		Complex: Kernel[complex128]{F2: func(a, b complex128) complex128 { return a * b }}},
		Spelling{F32: "$0 * $1", Int: "mulWrapping($0, $1)", UInt: "$0 * $1", Bool: "$0 && $1", C64: "$0 * $1"}, "torch.mul(x, y)",
		"The product of x and y; of bools, their logical and. Integers wrap.").algebra((*scalar.Table).Mul)))

	DivOp     = def(div("div", numeric))
	TrueDivOp = def(div("truediv", floating))

	FmodOp      = def(fmod("fmod"))
	ModOp       = def(fmod("mod"))
	RemainderOp = def(binary("remainder", numericReal, Meaning{
		Float: Kernel[float64]{F2: numerics.Remainder},
		Int:   Kernel[int64]{F2: numerics.RemainderInt},
		UInt:  Kernel[uint64]{F2: numerics.FmodUint}},
		Spelling{F32: "floorMod($0, $1)", Int: "floorMod($0, $1)", UInt: "floorMod($0, $1)"},
		"torch.remainder(x, y) if x.is_floating_point() else torch.remainder(x, y + (y == 0)) * (y != 0) + x * (y == 0)",
		"The remainder of x / y rounded down, which has the sign of y, as in Python. For y = 0 it is NaN, and x for integers.").
		rated(costRemainder, 1).algebra((*scalar.Table).Mod))

	PowOp = def(binary("pow", numeric, Meaning{
		Float:   Kernel[float64]{F2: numerics.Pow},
		Int:     Kernel[int64]{F2: numerics.IntPow},
		UInt:    Kernel[uint64]{F2: numerics.PowUint},
		Complex: Kernel[complex128]{F2: numerics.PowComplex}},
		Spelling{F32: "powf($0, $1)", F64: "pow($0, $1)", Int: "intPow($0, $1)", UInt: "intPow($0, $1)", C64: "pow($0, $1)"},
		"torch.pow(x, y)",
		"x to the power y. Integers wrap, and to a negative power only 1 and -1 are not 0; bools are integers.").
		rated(costPow, 4, Interval{0, 8}, Interval{-4, 8}))
	Atan2Op = def(binary("atan2", floatingReal, Meaning{Float: Kernel[float64]{F2: numerics.Atan2}},
		Spelling{F32: "atan2f($0, $1)", F64: "atan2($0, $1)"}, "torch.atan2(x, y)",
		"The angle of the point with ordinate x and abscissa y, from -pi to pi. Integers and bools are converted to Float first.").
		rated(costInverse, 3))
	NextAfterOp = def(nextAfter())

	MinimumOp = def(idempotent(commutative(binary("minimum", ordered, Meaning{
		Float:   Kernel[float64]{F2: numerics.MinimumNaN[float64]},
		Float32: Kernel[float32]{F2: numerics.MinimumNaN[float32]},
		Int:     Kernel[int64]{F2: numerics.MinimumNaN[int64]},
		UInt:    Kernel[uint64]{F2: numerics.MinimumNaN[uint64]},
		Bool:    Kernel[bool]{F2: and}},
		Spelling{F32: "minimum($0, $1)", Int: "min($0, $1)", UInt: "min($0, $1)", Bool: "$0 && $1"}, "torch.minimum(x, y)",
		"The smaller of x and y; NaN if one of them is. Of bools, their logical and.").algebra((*scalar.Table).Min))))
	MaximumOp = def(idempotent(commutative(binary("maximum", ordered, Meaning{
		Float:   Kernel[float64]{F2: numerics.MaximumNaN[float64]},
		Float32: Kernel[float32]{F2: numerics.MaximumNaN[float32]},
		Int:     Kernel[int64]{F2: numerics.MaximumNaN[int64]},
		UInt:    Kernel[uint64]{F2: numerics.MaximumNaN[uint64]},
		Bool:    Kernel[bool]{F2: or}},
		Spelling{F32: "maximum($0, $1)", Int: "max($0, $1)", UInt: "max($0, $1)", Bool: "$0 || $1"}, "torch.maximum(x, y)",
		"The larger of x and y; NaN if one of them is. Of bools, their logical or.").algebra((*scalar.Table).Max))))

	GcdOp = def(commutative(binary("gcd", shifting, Meaning{
		Int:  Kernel[int64]{F2: numerics.Gcd},
		UInt: Kernel[uint64]{F2: numerics.GcdUint}},
		Spelling{Int: "gcd($0, $1)", UInt: "gcd($0, $1)"}, "torch.gcd(x, y)",
		"The greatest common divisor of the integers x and y, not negative; 0 for two zeros.").
		rated(costLgamma, 0, Interval{-1000, 1000}, Interval{-1000, 1000})))

	// ComplexOp takes parts of one floating type.
	ComplexOp = def(func() OpInfo {
		i := binary("complex", Promotion{Accept: AcceptReal, Compute: FloatOf, Result: ToComplex},
			Meaning{Any: func(t dtype.Type, a []scalar.Value) scalar.Value {
				return scalar.Value{Type: t, Re: a[0].Re, Im: a[1].Re}
			}},
			Spelling{F32: "makeComplex($0, $1)"}, "torch.complex(real, imag)",
			"The complex number of the given parts: ComplexDouble if their common type is Double, else ComplexFloat.")
		i.Signatures = signature(operand("real"), operand("imag"))
		return i
	}())
)

// div fills the rows of the two divisions, which differ in what p makes of
// integers.
func div(name string, p Promotion) OpInfo {
	i := binary(name, p, Meaning{
		Float:   Kernel[float64]{F2: func(a, b float64) float64 { return a / b }},
		Float32: Kernel[float32]{F2: func(a, b float32) float32 { return a / b }},
		Complex: Kernel[complex128]{F2: func(a, b complex128) complex128 { return a / b }}},
		Spelling{F32: "$0 / $1", C64: "$0 / $1"}, "torch.true_divide(x, y)",
		"The quotient x / y. Integers and bools are converted to Float first.").rated(costDivide, 0).
		approximated("approximateDivide($0, $1)", approxDivide)
	if p.Compute == FloatOf {
		return i
	}
	i.Meaning.Int.F2, i.Meaning.UInt.F2 = numerics.TruncDiv, numerics.TruncDivUint
	i.CUDA.Int, i.CUDA.UInt = "truncDiv($0, $1)", "truncDiv($0, $1)"
	i.Torch = "torch.true_divide(x, y) if x.is_floating_point() or x.is_complex() else " +
		"torch.div(x, y + (y == 0), rounding_mode='trunc') * (y != 0)"
	i.Doc = "The quotient x / y; of integers, rounded to zero, and 0 for y = 0. Bools are integers. A division of sizes by 0 is an error."
	return i.algebra((*scalar.Table).TruncDiv)
}

// fmod fills the rows of the two names of C's remainder: nvFuser has mod for
// integers and fmod for floats.
func fmod(name string) OpInfo {
	return binary(name, numericReal, Meaning{
		Float: Kernel[float64]{F2: numerics.Fmod},
		Int:   Kernel[int64]{F2: numerics.FmodInt},
		UInt:  Kernel[uint64]{F2: numerics.FmodUint}},
		Spelling{F32: "fmodf($0, $1)", F64: "fmod($0, $1)", Int: "truncMod($0, $1)", UInt: "truncMod($0, $1)"},
		"torch.fmod(x, y) if x.is_floating_point() else torch.fmod(x, y + (y == 0)) * (y != 0) + x * (y == 0)",
		"The remainder of x / y rounded to zero, which has the sign of x, as in C; mod and fmod are the same. "+
			"For y = 0 it is NaN, and x for integers.").
		rated(costRemainder, 0).algebra((*scalar.Table).Rem)
}

func nextAfter() OpInfo {
	i := binary("nextafter", Promotion{Accept: AcceptFloat, Compute: Common}, Meaning{
		Float:   Kernel[float64]{F2: numerics.NextAfter64},
		Float32: Kernel[float32]{F2: numerics.NextAfter32}},
		Spelling{F32: "nextafterf($0, $1)", F64: "nextafter($0, $1)"}, "torch.nextafter(x, y)",
		"The number next to x in the direction of y, or y if they are equal. Tensors must be Float or Double.").rated(8, 0)
	i.Expand = func(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
		for k, a := range args {
			if t, _ := f.operandType(a); t.IsReducedFloat() {
				return nil, invalidType("%s(): %s must be of Float or Double type, got %v; the neighbours of a converted number are not its own",
					op.Name, op.Params()[k].Name, t)
			}
		}
		return expandElementwise(f, op, args)
	}
	return i
}
