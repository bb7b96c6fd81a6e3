// Package scalar is the algebra of scalars: extents, positions and the values
// that a fusion computes on the host.
//
// Its central types are [Table], an append-only interner, and [ID], a dense
// handle into it. Two expressions that are equal after simplification have the
// same ID, so equality is ==. Expressions of type Index carry [Facts]: an
// interval and a divisor, computed once when the expression is made.
//
// An expression of type Index is an integer, of any size: it is an error if its
// value is asked for and does not fit in 64 bits ([ErrOverflow]), whatever the
// sums and products on the way. So the rules of the integers hold, and no rule
// asks whether something fits. Those of the other integer types wrap, and are
// only brought into a normal form.
//
// Invariants: an expression never changes; IDs are never reused; simplification
// preserves the value for every assignment of the symbols that satisfies their
// facts (tested by enumeration), and that it does not fit. A division by zero is
// an error as long as the division is there: operands that cancel are not
// evaluated, so (a*b)/b is a.
//
// It knows a closed set of integer operations ([Add] to [Select]); any other
// operation is opaque to it: a code and operands given by package core, which
// also folds constants for those.
package scalar

import "nvfuser_go/core/dtype"

// An ID names an expression of one Table.
type ID uint32

// None is the absent expression.
const None = ID(1<<32 - 1)

// An Op is the operation of an expression node. Values from [FirstOpaque] on
// are opaque codes chosen by package core.
type Op uint16

const (
	Const    Op = iota // a value
	Symbol             // a name that is bound at run time
	Add                // a + b
	Mul                // a * b
	FloorDiv           // a / b rounded down; b != 0
	Mod                // a - b*FloorDiv(a, b)
	TruncDiv           // a / b rounded to zero, as C does; b != 0
	Rem                // a - b*TruncDiv(a, b)
	Min                // the smaller
	Max                // the larger
	Xor                // the bits in which a and b differ, in two's complement
	Lt                 // a < b, a Bool
	Le                 // a <= b, a Bool
	Eq                 // a == b, a Bool
	Select             // b if a, else c

	FirstOpaque Op = 64
)

// A Value is a number of some dtype. Bool, integer and index values are in I
// (UInt64 as its bits), floating ones in Re, complex ones in Re and Im.
type Value struct {
	Type   dtype.Type
	I      int64
	Re, Im float64
}

// A Tag says what a symbol stands for. Val is a value id of the fusion; Dim is
// the axis of an extent, or -1 where the symbol is the scalar value itself.
type Tag struct {
	Val uint32
	Dim int32
}

// Facts is what is known of an integer expression for every legal binding. The
// value of an Index need not fit in 64 bits: where Lo is the least int64 there is
// no lower bound, and where Hi is the largest there is no upper one.
type Facts struct {
	Lo, Hi  int64 // Lo <= value <= Hi
	Divisor int64 // value is a multiple of it; 1 = nothing known, 0 = the value is 0
}
