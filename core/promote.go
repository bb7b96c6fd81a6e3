package core

import "nvfuser_go/core/dtype"

// A Promotion is how the operand types of an elementwise op give its compute
// type and its result type.
//
// The common type follows torch.result_type: tensors with dimensions count
// before 0-dimensional tensors, those before scalars, and a later group
// matters only if its class (bool < integer < floating < complex) is higher.
// Differences, as in nvFuser: a floating type narrower than Float counts as
// Float, and scalars alone keep Double.
type Promotion struct {
	Accept  Accept
	Compute Compute
	Result  Result
	Skip    int // leading operands that do not take part: the condition of where
}

// Accept is the set of operand classes that an op takes.
type Accept uint8

const (
	AcceptBool Accept = 1 << iota
	AcceptInt
	AcceptFloat
	AcceptComplex

	AcceptReal     = AcceptBool | AcceptInt | AcceptFloat
	AcceptAll      = AcceptReal | AcceptComplex
	AcceptIntegral = AcceptBool | AcceptInt
	AcceptNumber   = AcceptInt | AcceptFloat | AcceptComplex
)

// Compute is the rule for the compute type.
type Compute uint8

const (
	Common       Compute = iota // the common type
	FloatOf                     // the common type; integers and bools become Float
	Keep                        // the operand's own type, not widened (abs, relu, set)
	BoolOperands                // Bool
	IntegerOf                   // the common type; bools become Int
)

// Result is the rule for the result type.
type Result uint8

const (
	AsCompute Result = iota
	ToBool
	ToReal    // the type of the parts of a complex compute type
	ToComplex // the complex type with parts of the compute type
)

func accepts(a Accept, t dtype.Type) bool {
	switch t.Class() {
	case dtype.ClassBool:
		return a&AcceptBool != 0
	case dtype.ClassInt, dtype.ClassUInt:
		return a&AcceptInt != 0
	case dtype.ClassFloat:
		return a&AcceptFloat != 0
	case dtype.ClassComplex:
		return a&AcceptComplex != 0
	}
	return false
}

func (a Accept) String() string {
	switch a {
	case AcceptBool:
		return "bool"
	case AcceptFloat:
		return "floating-point"
	case AcceptIntegral:
		return "integer or bool"
	case AcceptInt:
		return "integer"
	case AcceptReal:
		return "real"
	case AcceptNumber:
		return "numeric, not bool"
	case AcceptFloat | AcceptComplex:
		return "floating-point or complex"
	case AcceptInt | AcceptFloat:
		return "real, not bool"
	case AcceptComplex:
		return "complex"
	}
	return "any"
}

// widen returns t, or Float for the floating types that arithmetic widens.
func widen(t dtype.Type) dtype.Type {
	if t.IsReducedFloat() {
		return dtype.Float
	}
	return t
}

// join returns the common type of two operands of equal standing.
func join(a, b dtype.Type) (dtype.Type, bool) {
	switch {
	case a == dtype.Null || a == b:
		return b, true
	case b == dtype.Null:
		return a, true
	}
	if a.Class() > b.Class() {
		a, b = b, a
	}
	switch ca, cb := a.Class(), b.Class(); {
	case ca == dtype.ClassBool:
		return b, true
	case cb == dtype.ClassUInt && ca == dtype.ClassInt:
		return dtype.Null, false // as in torch: no type holds both
	case cb == dtype.ClassInt:
		if a == dtype.Int32 && b == dtype.Int32 {
			return a, true
		}
		if a == dtype.Index || b == dtype.Index {
			return dtype.Index, true
		}
		return dtype.Int, true
	case cb == dtype.ClassFloat:
		if ca != dtype.ClassFloat {
			return b, true
		}
		if a == dtype.Double || b == dtype.Double {
			return dtype.Double, true
		}
		return dtype.Float, true
	default: // complex
		if a == dtype.Double || a == dtype.ComplexDouble || b == dtype.ComplexDouble {
			return dtype.ComplexDouble, true
		}
		return dtype.ComplexFloat, true
	}
}

// standing of an operand in promotion, strongest first.
const (
	dimensioned = iota
	zeroDim
	plainScalar
	numStandings
)

func category(t dtype.Type) int {
	switch t.Class() {
	case dtype.ClassBool:
		return 1
	case dtype.ClassInt, dtype.ClassUInt:
		return 2
	case dtype.ClassFloat:
		return 3
	case dtype.ClassComplex:
		return 4
	}
	return 0
}

// weak is the type that scalars of type t bring to an operation on tensors.
func weak(t dtype.Type) dtype.Type {
	switch t.Class() {
	case dtype.ClassFloat:
		return dtype.Float
	case dtype.ClassComplex:
		return dtype.ComplexFloat
	case dtype.ClassInt, dtype.ClassUInt:
		return dtype.Int
	}
	return t
}

// commonType applies the rule of [Promotion] to the operands' types. standing[i]
// is one of the constants above.
func commonType(op *OpInfo, types []dtype.Type, standing []int) (dtype.Type, error) {
	var group [numStandings]dtype.Type
	anyTensor := false
	for i, t := range types {
		s := standing[i]
		anyTensor = anyTensor || s != plainScalar
		j, ok := join(group[s], t)
		if !ok {
			return dtype.Null, invalidType("%s(): %v and %v have no common type; cast one of them", op.Name, group[s], t)
		}
		group[s] = j
	}
	if !anyTensor {
		return group[plainScalar], nil
	}
	result := group[dimensioned]
	for s, t := range group[zeroDim:] {
		if category(t) <= category(result) {
			continue
		}
		if s+zeroDim == plainScalar {
			t = weak(t)
		}
		if t.IsComplex() && (result == dtype.Double) {
			t = dtype.ComplexDouble
		}
		result = t
	}
	return result, nil
}

// computeType returns the type that op computes in.
func (p Promotion) computeType(op *OpInfo, types []dtype.Type, standing []int) (dtype.Type, error) {
	if p.Compute == BoolOperands {
		return dtype.Bool, nil
	}
	t, err := commonType(op, types, standing)
	if err != nil {
		return t, err
	}
	if p.Compute != Keep {
		t = widen(t)
	}
	switch {
	case p.Compute == FloatOf && category(t) < 3:
		t = dtype.Float
	case p.Compute == IntegerOf && t == dtype.Bool:
		t = dtype.Int
	}
	return t, nil
}

// resultType returns the type of the result for compute type t.
func (p Promotion) resultType(t dtype.Type) dtype.Type {
	switch p.Result {
	case ToBool:
		return dtype.Bool
	case ToReal:
		return t.Real()
	case ToComplex:
		return t.Complex()
	}
	return t
}
