package core

import (
	"math"
	"math/cmplx"
)

// predicate fills a row for a question about the kind of number that x is.
// Integers and bools all give integer.
func predicate(name string, accept Accept, f func(float64) bool, integer bool, c func(complex128) bool, cuda Spelling, doc string) OpInfo {
	m := Meaning{
		FloatTest: Test[float64]{T1: f},
		IntTest:   Test[int64]{T1: func(int64) bool { return integer }},
		UIntTest:  Test[uint64]{T1: func(uint64) bool { return integer }},
		BoolTest:  Test[bool]{T1: func(bool) bool { return integer }},
	}
	m.ComplexTest.T1 = c
	constant := "false"
	if integer {
		constant = "true"
	}
	cuda.Int, cuda.UInt, cuda.Bool = constant, constant, constant
	return unary(name, Promotion{Accept: accept, Compute: Keep, Result: ToBool}, m, cuda, "torch."+name+"(x)", doc)
}

func isFinite(a float64) bool { return a-a == 0 }

var (
	IsFiniteOp = def(predicate("isfinite", AcceptAll, isFinite, true,
		func(a complex128) bool { return isFinite(real(a)) && isFinite(imag(a)) },
		Spelling{F32: "isfinite($0)", C64: "isfinite($0)"},
		"Whether x is neither infinite nor NaN, a Bool. A complex number is finite if both parts are."))
	IsInfOp = def(predicate("isinf", AcceptAll, func(a float64) bool { return math.IsInf(a, 0) }, false, cmplx.IsInf,
		Spelling{F32: "isinf($0)", C64: "isinf($0)"},
		"Whether x is infinite, a Bool. A complex number is infinite if one of its parts is."))
	IsNaNOp = def(predicate("isnan", AcceptAll, math.IsNaN, false,
		func(a complex128) bool { return math.IsNaN(real(a)) || math.IsNaN(imag(a)) },
		Spelling{F32: "isnan($0)", C64: "isnan($0)"},
		"Whether x is NaN, a Bool. A complex number is NaN if one of its parts is."))
	IsNegInfOp = def(predicate("isneginf", AcceptReal, func(a float64) bool { return math.IsInf(a, -1) }, false, nil,
		Spelling{F32: "isinf($0) && $0 < 0"},
		"Whether x is -inf, a Bool."))
	IsPosInfOp = def(predicate("isposinf", AcceptReal, func(a float64) bool { return math.IsInf(a, 1) }, false, nil,
		Spelling{F32: "isinf($0) && $0 > 0"},
		"Whether x is inf, a Bool."))
	IsRealOp = def(predicate("isreal", AcceptAll, func(float64) bool { return true }, true,
		func(a complex128) bool { return imag(a) == 0 },
		Spelling{F32: "true", C64: "imag($0) == 0"},
		"Whether the imaginary part of x is 0, a Bool. Numbers that are not complex are real, NaN too."))
	SignbitOp = def(signbit())
)

func signbit() OpInfo {
	i := predicate("signbit", AcceptReal, math.Signbit, false, nil, Spelling{F32: "signbit($0)"},
		"Whether x is negative, a Bool. -0.0 is, and so is a NaN whose sign bit is set.")
	i.Meaning.IntTest.T1 = func(a int64) bool { return a < 0 }
	i.CUDA.Int = "$0 < 0"
	return i
}
