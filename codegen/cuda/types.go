package cuda

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A cppType is how elements of a type are written in C++.
type cppType struct {
	stored   string // in memory
	computed string // in expressions: float for the narrow floating types
	section  string // that declares stored
	convert  string // function and section that make stored of a float
}

var cppTypes = map[dtype.Type]cppType{
	dtype.Bool:          {stored: "unsigned char", computed: "bool"},
	dtype.Int32:         {stored: "int", computed: "int"},
	dtype.Int:           {stored: "long long", computed: "long long"},
	dtype.Index:         {stored: "long long", computed: "long long"},
	dtype.UInt64:        {stored: "unsigned long long", computed: "unsigned long long"},
	dtype.Half:          {"Half", "float", "Half", "toHalf"},
	dtype.BFloat16:      {"BFloat16", "float", "BFloat16", "toBFloat16"},
	dtype.Float:         {stored: "float", computed: "float"},
	dtype.Double:        {stored: "double", computed: "double"},
	dtype.Float8E4M3FN:  {"Float8E4M3", "float", "Float8E4M3", "toFloat8E4M3"},
	dtype.Float8E5M2:    {"Float8E5M2", "float", "Float8E5M2", "toFloat8E5M2"},
	dtype.Float8E8M0FNU: {"Float8E8M0", "float", "Float8E8M0", "toFloat8E8M0"},
	dtype.ComplexFloat:  {stored: "Complex<float>", computed: "Complex<float>", section: "Complex"},
	dtype.ComplexDouble: {stored: "Complex<double>", computed: "Complex<double>", section: "Complex"},
}

// literal returns the constant v of its computed type, exactly.
func literal(v scalar.Value) string {
	switch v.Type.Class() {
	case dtype.ClassBool:
		return strconv.FormatBool(v.I != 0)
	case dtype.ClassUInt:
		return strconv.FormatUint(uint64(v.I), 10) + "ull"
	case dtype.ClassInt:
		if v.Type == dtype.Int32 {
			return integerLiteral(v.I, dtype.Int32)
		}
		return integerLiteral(v.I, dtype.Int)
	case dtype.ClassFloat:
		return realLiteral(v.Re, v.Type == dtype.Double)
	}
	part, double := "float", v.Type == dtype.ComplexDouble
	if double {
		part = "double"
	}
	return fmt.Sprintf("Complex<%s>{%s, %s}", part, realLiteral(v.Re, double), realLiteral(v.Im, double))
}

// integerLiteral returns n of type Int32 or Int. The least integer has no
// literal of its own: the minus is an operator.
func integerLiteral(n int64, t dtype.Type) string {
	suffix, least := "ll", int64(math.MinInt64)
	if t == dtype.Int32 {
		suffix, least = "", math.MinInt32
	}
	if n == least {
		return fmt.Sprintf("(%d%s - 1)", n+1, suffix)
	}
	return strconv.FormatInt(n, 10) + suffix
}

// plainEighths bounds the numbers that are written in decimals: multiples of
// 1/8 have few of them.
const plainEighths = 1 << 20

func realLiteral(x float64, double bool) string {
	suffix, bits := "f", 32
	if double {
		suffix, bits = "", 64
	}
	switch {
	case x-x != 0 && double:
		return fmt.Sprintf("__longlong_as_double(0x%016xll)", math.Float64bits(x))
	case x-x != 0:
		return fmt.Sprintf("__uint_as_float(0x%08xu)", math.Float32bits(float32(x)))
	case math.Abs(x) < plainEighths && x*8 == math.Trunc(x*8):
		text := strconv.FormatFloat(x, 'f', -1, 64)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		return text + suffix
	}
	return strconv.FormatFloat(x, 'x', -1, bits) + suffix
}
