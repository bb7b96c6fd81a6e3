package core

import (
	"nvfuser_go/core/numerics"
	"nvfuser_go/core/scalar"
)

// compare fills a row for a comparison. sign is its operator in CUDA and in
// Python, hook its meaning for integer scalars.
func compare(name, sign string, accept Accept, m Meaning, hook func(t *scalar.Table, a, b scalar.ID) scalar.ID, doc string) OpInfo {
	text := "$0 " + sign + " $1"
	i := OpInfo{Name: name, Group: groupCompare, Class: Elementwise, Signatures: signature(operand("x"), operand("y")),
		Promote: Promotion{Accept: accept, Compute: Common, Result: ToBool}, Meaning: m,
		CUDA:  Spelling{F32: text, Int: text, UInt: text, Bool: text},
		Torch: "x " + sign + " y", Cost: costAdd, Doc: doc,
		Scalar: func(t *scalar.Table, a []scalar.ID) scalar.ID { return hook(t, a[0], a[1]) }}
	if m.ComplexTest.T2 != nil {
		i.CUDA.C64 = text
	}
	return i
}

// symmetric returns i as a comparison whose operands may be exchanged.
func symmetric(i OpInfo) OpInfo {
	i.Commutes = true
	return i
}

func equal[T comparable](a, b T) bool      { return a == b }
func different[T comparable](a, b T) bool  { return a != b }
func less[T numerics.Real](a, b T) bool    { return a < b }
func notMore[T numerics.Real](a, b T) bool { return a <= b }
func greater[T numerics.Real](a, b T) bool { return a > b }
func notLess[T numerics.Real](a, b T) bool { return a >= b }

var (
	EqOp = def(symmetric(compare("eq", "==", AcceptAll, Meaning{
		FloatTest:   Test[float64]{T2: equal[float64]},
		IntTest:     Test[int64]{T2: equal[int64]},
		UIntTest:    Test[uint64]{T2: equal[uint64]},
		BoolTest:    Test[bool]{T2: equal[bool]},
		ComplexTest: Test[complex128]{T2: equal[complex128]}},
		(*scalar.Table).Eq,
		"Whether x and y are equal, a Bool; NaN equals nothing.")))
	NeOp = def(symmetric(compare("ne", "!=", AcceptAll, Meaning{
		FloatTest:   Test[float64]{T2: different[float64]},
		IntTest:     Test[int64]{T2: different[int64]},
		UIntTest:    Test[uint64]{T2: different[uint64]},
		BoolTest:    Test[bool]{T2: different[bool]},
		ComplexTest: Test[complex128]{T2: different[complex128]}},
		func(t *scalar.Table, a, b scalar.ID) scalar.ID { return t.Not(t.Eq(a, b)) },
		"Whether x and y differ, a Bool; NaN differs from everything.")))
	LtOp = def(compare("lt", "<", AcceptReal, Meaning{
		FloatTest: Test[float64]{T2: less[float64]},
		IntTest:   Test[int64]{T2: less[int64]},
		UIntTest:  Test[uint64]{T2: less[uint64]},
		BoolTest:  Test[bool]{T2: func(a, b bool) bool { return !a && b }}},
		(*scalar.Table).Lt,
		"Whether x is less than y, a Bool; False if one is NaN. Of bools, False is less than True."))
	LeOp = def(compare("le", "<=", AcceptReal, Meaning{
		FloatTest: Test[float64]{T2: notMore[float64]},
		IntTest:   Test[int64]{T2: notMore[int64]},
		UIntTest:  Test[uint64]{T2: notMore[uint64]},
		BoolTest:  Test[bool]{T2: func(a, b bool) bool { return !a || b }}},
		(*scalar.Table).Le,
		"Whether x is at most y, a Bool; False if one is NaN. Of bools, False is less than True."))
	GtOp = def(compare("gt", ">", AcceptReal, Meaning{
		FloatTest: Test[float64]{T2: greater[float64]},
		IntTest:   Test[int64]{T2: greater[int64]},
		UIntTest:  Test[uint64]{T2: greater[uint64]},
		BoolTest:  Test[bool]{T2: func(a, b bool) bool { return a && !b }}},
		func(t *scalar.Table, a, b scalar.ID) scalar.ID { return t.Lt(b, a) },
		"Whether x is greater than y, a Bool; False if one is NaN. Of bools, False is less than True."))
	GeOp = def(compare("ge", ">=", AcceptReal, Meaning{
		FloatTest: Test[float64]{T2: notLess[float64]},
		IntTest:   Test[int64]{T2: notLess[int64]},
		UIntTest:  Test[uint64]{T2: notLess[uint64]},
		BoolTest:  Test[bool]{T2: func(a, b bool) bool { return a || !b }}},
		func(t *scalar.Table, a, b scalar.ID) scalar.ID { return t.Le(b, a) },
		"Whether x is at least y, a Bool; False if one is NaN. Of bools, False is less than True."))
)
