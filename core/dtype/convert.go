package dtype

import "math"

// A narrowing holds the constants that turn the bits of a binary32 into those
// of a narrower format.
type narrowing struct {
	shift     uint32 // mantissa bits that are dropped
	rebias    uint32 // difference of the exponent biases, in place
	minNormal uint32 // bits of the smallest normal number
	magic     uint32 // bits of the power of two whose last place is the smallest subnormal
	overflow  uint32 // bits of the smallest magnitude that rounds past the largest finite
	over      uint32 // code of such a magnitude
	nan       uint32 // code of the NaN
	sign      uint32 // code of the sign
}

var (
	narrowHalf       = narrowing{13, 112 << 23, 0x38800000, 0x3f000000, 0x477ff000, 0x7c00, 0x7e00, 0x8000}
	narrowFloat8E4M3 = narrowing{20, 120 << 23, 0x3c800000, 0x46800000, 0x43e00001, 0x7e, 0x7f, 0x80}
	narrowFloat8E5M2 = narrowing{21, 112 << 23, 0x38800000, 0x43000000, 0x47700000, 0x7c, 0x7f, 0x80}
)

// code returns the code of the value nearest to the binary32 of bits x, ties to
// even. A NaN keeps its sign and nothing else.
func (n *narrowing) code(x uint32) uint32 {
	a := x & 0x7fffffff
	var c uint32
	switch {
	case a >= n.overflow:
		c = n.over
		if a > 0x7f800000 {
			c = n.nan
		}
	case a >= n.minNormal:
		s := n.shift & 31
		c = (a - n.rebias + 1<<((s-1)&31) - 1 + a>>s&1) >> s
	default:
		c = math.Float32bits(math.Float32frombits(a)+math.Float32frombits(n.magic)) - n.magic
	}
	if x>>31 != 0 {
		c |= n.sign
	}
	return c
}

func narrow[T uint8 | uint16](dst []T, src []float32, n narrowing) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(n.code(math.Float32bits(x)))
	}
}

func widen8(dst []float32, src []uint8, table *[256]float32) {
	dst = dst[:len(src)]
	for i, c := range src {
		dst[i] = table[c]
	}
}

// The slice conversions below convert every element of src into dst, which must
// be at least as long. Narrowing gives the code of [Round] of the element;
// widening is exact.

// WidenHalf converts the bits of Half to Float.
func WidenHalf(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	for i, h := range src {
		dst[i] = halfToFloat(h)
	}
}

// NarrowHalf converts Float to the bits of Half.
func NarrowHalf(dst []uint16, src []float32) { narrow(dst, src, narrowHalf) }

// WidenBFloat16 converts the bits of BFloat16 to Float.
func WidenBFloat16(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	for i, b := range src {
		dst[i] = math.Float32frombits(uint32(b) << 16)
	}
}

// NarrowBFloat16 converts Float to the bits of BFloat16.
func NarrowBFloat16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = codeBFloat16(math.Float32bits(x))
	}
}

// WidenFloat8E4M3FN converts the bits of Float8E4M3FN to Float.
func WidenFloat8E4M3FN(dst []float32, src []uint8) { widen8(dst, src, &tableFloat8E4M3) }

// NarrowFloat8E4M3FN converts Float to the bits of Float8E4M3FN.
func NarrowFloat8E4M3FN(dst []uint8, src []float32) { narrow(dst, src, narrowFloat8E4M3) }

// WidenFloat8E5M2 converts the bits of Float8E5M2 to Float.
func WidenFloat8E5M2(dst []float32, src []uint8) { widen8(dst, src, &tableFloat8E5M2) }

// NarrowFloat8E5M2 converts Float to the bits of Float8E5M2.
func NarrowFloat8E5M2(dst []uint8, src []float32) { narrow(dst, src, narrowFloat8E5M2) }

// WidenFloat8E8M0FNU converts the bits of Float8E8M0FNU to Float.
func WidenFloat8E8M0FNU(dst []float32, src []uint8) { widen8(dst, src, &tableFloat8E8M0) }

// NarrowFloat8E8M0FNU converts Float to the bits of Float8E8M0FNU.
func NarrowFloat8E8M0FNU(dst []uint8, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = codeFloat8E8M0(math.Float32bits(x))
	}
}

// codeBFloat16 adds half of the last place that stays: the exponent is that of
// a binary32, so subnormals and overflow need no more. The general
// narrowing would be 2.6 times as slow (1.76 ns an element).
func codeBFloat16(x uint32) uint16 {
	if x&0x7fffffff > 0x7f800000 {
		return uint16(x>>16&0x8000 | 0x7fc0)
	}
	return uint16((x + 0x7fff + x>>16&1) >> 16)
}

// codeFloat8E8M0 follows roundFloat8E8M0: in the bits of a binary32 adding half
// an exponent rounds normal numbers to the nearest power of two, ties upwards.
func codeFloat8E8M0(x uint32) uint8 {
	a := x & 0x7fffffff
	switch {
	case a <= 0x00400000: // 2^-127
		return 0
	case a < 0x7f400000: // 1.5 * 2^127
		return uint8((a + 0x00400000) >> 23)
	}
	return 0xff
}

// halfToFloat avoids a subnormal intermediate, which a thread that flushes them
// would lose.
func halfToFloat(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	a := uint32(h & 0x7fff)
	switch {
	case a >= 0x7c00:
		return math.Float32frombits(sign | 0x7f800000 | a<<13)
	case a >= 0x0400:
		return math.Float32frombits(sign | (a<<13 + 112<<23))
	}
	return math.Float32frombits(sign | math.Float32bits(float32(a)*0x1p-24))
}

var (
	tableFloat8E4M3 = table8(3, -6, func(c int) bool { return c == 0x7f }, nil)
	tableFloat8E5M2 = table8(2, -14, func(c int) bool { return c > 0x7c }, func(c int) bool { return c == 0x7c })
	tableFloat8E8M0 = tablePowers()
)

// table8 lists the values of a signed 8-bit format; nan and inf tell by the
// code without its sign.
func table8(mantissa, emin int, nan, inf func(int) bool) (table [256]float32) {
	for c := range 0x80 {
		exponent, fraction := c>>mantissa, float64(c&(1<<mantissa-1))
		value := math.Ldexp(fraction, emin-mantissa)
		if exponent > 0 {
			value = math.Ldexp(fraction+float64(int(1)<<mantissa), emin-mantissa+exponent-1)
		}
		if nan(c) {
			value = math.NaN()
		} else if inf != nil && inf(c) {
			value = math.Inf(1)
		}
		table[c] = float32(value)
		table[c|0x80] = float32(math.Copysign(value, -1))
	}
	return table
}

func tablePowers() (table [256]float32) {
	for c := range 0xff {
		table[c] = float32(math.Ldexp(1, c-127))
	}
	table[0xff] = float32(math.NaN())
	return table
}
