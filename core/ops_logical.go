package core

import (
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/numerics"
	"nvfuser_go/core/scalar"
)

var (
	// logical: both operands converted to Bool.
	logical = Promotion{Accept: AcceptAll, Compute: BoolOperands}
	// bitwise: of integers and bools, in their common type.
	bitwise = Promotion{Accept: AcceptIntegral, Compute: Common}
	// shifting: as bitwise, and bools are integers.
	shifting = Promotion{Accept: AcceptIntegral, Compute: IntegerOf}
)

// combining fills a row for a binary op of groupLogical that commutes and
// associates. b is its meaning for bools, n for integers (nil: none); for UInt64
// it acts on the bits, so n serves too.
func combining(name, sign string, p Promotion, b func(a, b bool) bool, n func(a, b int64) int64, doc string) OpInfo {
	text := "$0 " + sign + " $1"
	i := binary(name, p, Meaning{Bool: Kernel[bool]{F2: b}, Int: Kernel[int64]{F2: n}},
		Spelling{Bool: text}, "torch."+name+"(x, y)", doc)
	if n != nil {
		i.CUDA.Int, i.CUDA.UInt = text, text
	}
	i.Group, i.Commutes, i.Associates = groupLogical, true, true
	return i
}

// idempotent returns i as an op for which op(x, x) is x.
func idempotent(i OpInfo) OpInfo {
	i.Idempotent = true
	return i
}

func and(a, b bool) bool { return a && b }
func or(a, b bool) bool  { return a || b }

var (
	LogicalAndOp = def(idempotent(combining("logical_and", "&&", logical, and, nil,
		"Whether neither x nor y is 0, a Bool; NaN is not 0.")))
	LogicalOrOp = def(idempotent(combining("logical_or", "||", logical, or, nil,
		"Whether one of x and y is not 0, a Bool; NaN is not 0.")))
	LogicalNotOp = def(not(unary("logical_not", logical, Meaning{Bool: Kernel[bool]{F1: func(a bool) bool { return !a }}},
		Spelling{Bool: "!$0"}, "torch.logical_not(x)",
		"Whether x is 0, a Bool; NaN is not 0.")))

	BitwiseAndOp = def(idempotent(combining("bitwise_and", "&", bitwise, and, func(a, b int64) int64 { return a & b },
		"The bits that are set in x and in y; of bools, their logical and.")))
	BitwiseOrOp = def(idempotent(combining("bitwise_or", "|", bitwise, or, func(a, b int64) int64 { return a | b },
		"The bits that are set in x or in y; of bools, their logical or.")))
	BitwiseXorOp = def(combining("bitwise_xor", "^", bitwise, different[bool], func(a, b int64) int64 { return a ^ b },
		"The bits that are set in one of x and y; of bools, whether they differ."))
	BitwiseNotOp = def(not(unary("bitwise_not", bitwise, Meaning{
		Int:  Kernel[int64]{F1: func(a int64) int64 { return ^a }},
		Bool: Kernel[bool]{F1: func(a bool) bool { return !a }}},
		Spelling{Int: "~$0", UInt: "~$0", Bool: "!$0"}, "torch.bitwise_not(x)",
		"The bits that are not set in x; of a bool, its negation.")))
)

func not(i OpInfo) OpInfo {
	i.Group = groupLogical
	return i
}

// shift fills a row for a shift. The device functions give for a count out of
// range what Go's operators and package numerics do.
func shift(name, function string, m Meaning, torch, doc string) OpInfo {
	text := function + "($0, $1)"
	i := binary(name, shifting, m, Spelling{Int: text, UInt: text}, torch,
		doc+" A count that is negative or not less than the width of the type shifts every bit out.")
	i.Group = groupLogical
	return i.rated(2, 0, Interval{-1000, 1000}, Interval{0, 40})
}

var (
	BitwiseLeftShiftOp = def(shift("bitwise_left_shift", "shiftLeft", Meaning{
		Int:  Kernel[int64]{F2: numerics.ShiftLeft},
		UInt: Kernel[uint64]{F2: func(a, n uint64) uint64 { return a << n }}},
		"torch.bitwise_left_shift(x, y)",
		"x shifted to the left by y bits."))
	BitwiseRightShiftOp = def(shift("bitwise_right_shift", "shiftRight", Meaning{
		Int:  Kernel[int64]{F2: numerics.ShiftRight},
		UInt: Kernel[uint64]{F2: func(a, n uint64) uint64 { return a >> n }}},
		"torch.bitwise_right_shift(x, y)",
		"x shifted to the right by y bits; copies of the sign bit come in from the left."))
	// The meaning of logical_right_shift depends on the width of the type.
	LogicalRightShiftOp = def(shift("logical_right_shift", "logicalShiftRight", Meaning{
		Any: func(t dtype.Type, a []scalar.Value) scalar.Value {
			return scalar.Value{Type: t, I: numerics.LogicalShiftRight(a[0].I, a[1].I, t.Bits())}
		}},
		"torch.where((y < 0) | (y >= torch.iinfo(x.dtype).bits), 0, (x >> y) & ~(-1 << (torch.iinfo(x.dtype).bits - y)))",
		"x shifted to the right by y bits; zeros come in from the left."))
)
