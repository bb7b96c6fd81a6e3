package dtype

import "math"

// A format describes an IEEE-like format narrower than Float: its values are
// the multiples of a quantum that is fixed below the smallest normal number and
// doubles with the exponent above it.
type format struct {
	mantissa int     // explicit bits
	emin     int     // exponent of the smallest normal number
	max      float64 // largest finite value
	over     float64 // what a magnitude that rounds past max becomes
}

var (
	formatHalf       = format{10, -14, 65504, math.Inf(1)}
	formatBFloat16   = format{7, -126, 0x1.fep127, math.Inf(1)}
	formatFloat8E4M3 = format{3, -6, 448, 448}
	formatFloat8E5M2 = format{2, -14, 57344, math.Inf(1)}
)

// Round returns the value of the floating type t that is nearest to x, ties to
// the one with an even mantissa, by a single rounding. Zeros keep their sign,
// NaN stays NaN.
//
// Beyond the largest finite value Half, BFloat16, Float and Float8E5M2 give an
// infinity where IEEE 754 does. Float8E4M3FN has none: it saturates to ±448,
// infinities included. Float8E8M0FNU has neither sign nor zero: it holds the
// nearest power of two of |x|, ties upwards, 2^-127 for anything smaller,
// 2^-126 for anything strictly between these two, and NaN from 1.5 * 2^127.
// These are the values of torch's casts from float32 (torch 2.15 on a CPU).
// From float64 torch rounds twice, through float32; Round does not.
//
// Round panics if t is not a floating type that memory holds: Float4E2M1FN and
// its pairs have no arithmetic.
func Round(t Type, x float64) float64 {
	switch t {
	case Double:
		return x
	case Float:
		return float64(float32(x))
	case Half:
		return formatHalf.round(x)
	case BFloat16:
		return formatBFloat16.round(x)
	case Float8E4M3FN:
		return formatFloat8E4M3.round(x)
	case Float8E5M2:
		return formatFloat8E5M2.round(x)
	case Float8E8M0FNU:
		return roundFloat8E8M0(x)
	}
	panic("dtype: Round to " + t.String())
}

// RoundComplex rounds both parts of x to the parts of the complex type t. It
// panics if t is not complex.
func RoundComplex(t Type, x complex128) complex128 {
	switch t {
	case ComplexDouble:
		return x
	case ComplexFloat:
		return complex128(complex64(x))
	}
	panic("dtype: RoundComplex to " + t.String())
}

// round adds a power of two whose last bit is the quantum of x, so that the
// addition rounds there, and takes it away again.
func (f *format) round(x float64) float64 {
	e := int(math.Float64bits(x)>>52)&0x7ff - 1023
	if e == 1024 && x != x {
		return x
	}
	quantum := max(e, f.emin) - f.mantissa
	r := math.Abs(x)
	if r <= f.max {
		shift := math.Float64frombits(uint64(quantum+52+1023) << 52)
		r = (r + shift) - shift
	} else if r >= f.max+math.Float64frombits(uint64(quantum-1+1023)<<52) {
		r = f.over
	} else {
		r = f.max
	}
	return math.Copysign(r, x)
}

func roundFloat8E8M0(x float64) float64 {
	r := math.Abs(x)
	switch {
	case r <= 0x1p-127:
		return 0x1p-127
	case r <= 0x1p-126:
		return 0x1p-126
	case r < 0x1.8p127:
		// Half of the last place of a significand of one bit, then cut.
		return math.Float64frombits((math.Float64bits(r) + 1<<51) &^ (1<<52 - 1))
	}
	return math.NaN()
}
