package dtype

import "math"

// A format describes an IEEE-like format narrower than Float: its values are
// the multiples of a quantum that is fixed below the smallest normal number and
// doubles with the exponent above it.
type format struct {
	drop      uint    // bits of a float64 mantissa that it lacks
	minNormal uint64  // bits of the smallest normal number
	magic     float64 // power of two whose last place is the smallest subnormal
	max       uint64  // bits of the largest finite value
	over      uint64  // bits of what a magnitude that rounds past max becomes
}

func makeFormat(mantissa, emin int, max, over float64) format {
	return format{
		drop:      uint(52 - mantissa),
		minNormal: math.Float64bits(math.Ldexp(1, emin)),
		magic:     math.Ldexp(1, emin-mantissa+52),
		max:       math.Float64bits(max),
		over:      math.Float64bits(over),
	}
}

var (
	formatHalf       = makeFormat(10, -14, 65504, math.Inf(1))
	formatBFloat16   = makeFormat(7, -126, 0x1.fep127, math.Inf(1))
	formatFloat8E4M3 = makeFormat(3, -6, 448, 448)
	formatFloat8E5M2 = makeFormat(2, -14, 57344, math.Inf(1))
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

// round adds half of the last place to the bits and cuts them; of a subnormal
// the last place is fixed, and adding a power of two rounds there.
func (f *format) round(x float64) float64 {
	const sign = 1 << 63
	bits := math.Float64bits(x)
	a := bits &^ sign
	switch {
	case a > 0x7ff<<52:
		return x
	case a >= f.minNormal:
		drop := f.drop & 63
		a += 1<<((drop-1)&63) - 1 + a>>drop&1
		a &^= 1<<drop - 1
		if a > f.max {
			a = f.over
		}
	default:
		a = math.Float64bits(math.Float64frombits(a) + f.magic - f.magic)
	}
	return math.Float64frombits(a | bits&sign)
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
