package core

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// PythonLiteral prints v as Python source that gives the same value: True, 3,
// 0.500000, float("nan"), (1+2j). Floats have six significant digits, as
// nvFuser prints them, or more where six do not give the value back.
func PythonLiteral(v scalar.Value) string {
	switch v.Type.Class() {
	case dtype.ClassBool:
		if v.I != 0 {
			return "True"
		}
		return "False"
	case dtype.ClassUInt:
		return strconv.FormatUint(uint64(v.I), 10)
	case dtype.ClassInt:
		return strconv.FormatInt(v.I, 10)
	case dtype.ClassComplex:
		return fmt.Sprintf("complex(%s, %s)", pythonFloat(v.Re), pythonFloat(v.Im))
	}
	return pythonFloat(v.Re)
}

func pythonFloat(x float64) string {
	switch {
	case math.IsNaN(x):
		return `float("nan")`
	case math.IsInf(x, 1):
		return `float("inf")`
	case math.IsInf(x, -1):
		return `float("-inf")`
	}
	s := sixDigits(x)
	if y, err := strconv.ParseFloat(s, 64); err == nil && y == x {
		return s
	}
	s = strconv.FormatFloat(x, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// sixDigits is C's %#.6g.
func sixDigits(x float64) string {
	exponent := 0
	if x != 0 {
		e := strconv.FormatFloat(x, 'e', 5, 64)
		exponent, _ = strconv.Atoi(e[strings.IndexByte(e, 'e')+1:])
	}
	if exponent < -4 || exponent >= 6 {
		return strconv.FormatFloat(x, 'e', 5, 64)
	}
	s := strconv.FormatFloat(x, 'f', 5-exponent, 64)
	if !strings.Contains(s, ".") {
		s += "."
	}
	return s
}
