package dtype

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// A layout is the definition of a format by its fields, apart from the
// constants of the implementation.
type layout struct {
	typ                Type
	exponent, mantissa int // bits; the bias is the usual 2^(exponent-1) - 1
	infinity           int // code, or -1
	largest            int // code of the largest finite value
	widen              func([]float32, []uint16)
	narrow             func([]uint16, []float32)
}

// of8 makes the conversions of a type of 8 bits into ones of 16.
func of8(widen func([]float32, []uint8), narrow func([]uint8, []float32)) (func([]float32, []uint16), func([]uint16, []float32)) {
	return func(dst []float32, src []uint16) {
			codes := make([]uint8, len(src))
			for i, c := range src {
				codes[i] = uint8(c)
			}
			widen(dst, codes)
		}, func(dst []uint16, src []float32) {
			codes := make([]uint8, len(src))
			narrow(codes, src)
			for i, c := range codes {
				dst[i] = uint16(c)
			}
		}
}

var layouts = func() []layout {
	e4m3Widen, e4m3Narrow := of8(WidenFloat8E4M3FN, NarrowFloat8E4M3FN)
	e5m2Widen, e5m2Narrow := of8(WidenFloat8E5M2, NarrowFloat8E5M2)
	return []layout{
		{Half, 5, 10, 0x7c00, 0x7bff, WidenHalf, NarrowHalf},
		{BFloat16, 8, 7, 0x7f80, 0x7f7f, WidenBFloat16, NarrowBFloat16},
		{Float8E4M3FN, 4, 3, -1, 0x7e, e4m3Widen, e4m3Narrow},
		{Float8E5M2, 5, 2, 0x7c, 0x7b, e5m2Widen, e5m2Narrow},
	}
}()

func (l layout) sign() int { return 1 << (l.exponent + l.mantissa) }

// value returns the value of a code by the definition of IEEE 754.
func (l layout) value(code int) float64 {
	magnitude := code &^ l.sign()
	bias := 1<<(l.exponent-1) - 1
	e, f := magnitude>>l.mantissa, float64(magnitude&(1<<l.mantissa-1))/float64(int(1)<<l.mantissa)
	v := 0.0
	switch {
	case magnitude == l.infinity:
		v = math.Inf(1)
	case magnitude > l.largest:
		return math.NaN()
	case e == 0:
		v = f * math.Pow(2, float64(1-bias))
	default:
		v = (1 + f) * math.Pow(2, float64(e-bias))
	}
	if code&l.sign() != 0 {
		v = -v
	}
	return v
}

// requireSame is equality of numbers that tells zeros apart and takes NaN for
// itself.
func requireSame(t *testing.T, want, got float64, message string, args ...any) {
	t.Helper()
	if want != want && got != got || math.Float64bits(want) == math.Float64bits(got) {
		return
	}
	require.Failf(t, "wrong value", message+": want %g, got %g", append(args, want, got)...)
}

// requireRounds checks every way from x to a value of the type.
func (l layout) requireRounds(t *testing.T, x, want float64) {
	t.Helper()
	requireSame(t, want, Round(l.typ, x), "Round(%s, %b)", l.typ, x)
	b := make([]byte, 2)
	StoreFloat(l.typ, b, x)
	requireSame(t, want, LoadFloat(l.typ, b), "stored %s of %b", l.typ, x)
	if float64(float32(x)) == x || x != x {
		code, wide := []uint16{0}, []float32{0}
		l.narrow(code, []float32{float32(x)})
		l.widen(wide, code)
		requireSame(t, want, float64(wide[0]), "narrowed to %s %b", l.typ, x)
	}
}

func TestEveryCode(t *testing.T) {
	for _, l := range layouts {
		codes, wide := make([]uint16, 2*l.sign()), make([]float32, 2*l.sign())
		for c := range codes {
			codes[c] = uint16(c)
		}
		l.widen(wide, codes)
		back := make([]uint16, len(codes))
		l.narrow(back, wide)
		for c := range codes {
			want := l.value(c)
			requireSame(t, want, float64(wide[c]), "widened %s %#x", l.typ, c)
			requireSame(t, want, LoadFloat(l.typ, []byte{byte(c), byte(c >> 8)}), "loaded %s %#x", l.typ, c)
			stored := make([]byte, 2)
			StoreFloat(l.typ, stored, want)
			if want == want {
				require.Equal(t, uint16(c), back[c], "narrowed %s %g", l.typ, want)
				require.Equal(t, uint16(c), uint16(stored[0])|uint16(stored[1])<<8, "stored %s %g", l.typ, want)
			} else {
				require.True(t, l.value(int(back[c])) != l.value(int(back[c])))
			}
			if !math.IsInf(want, 0) || l.infinity >= 0 {
				requireSame(t, want, Round(l.typ, want), "Round(%s, %g)", l.typ, want)
			}
		}
	}
}

// TestNearest rounds the middle between every two neighbours, and the numbers
// next to it in float64 and in float32.
func TestNearest(t *testing.T) {
	for _, l := range layouts {
		for c := range l.largest {
			low, high := l.value(c), l.value(c+1)
			middle := low + (high-low)/2
			even := low
			if c%2 != 0 {
				even = high
			}
			for _, s := range []float64{1, -1} {
				l.requireRounds(t, s*middle, s*even)
				l.requireRounds(t, s*math.Nextafter(middle, 0), s*low)
				l.requireRounds(t, s*math.Nextafter(middle, high), s*high)
				l.requireRounds(t, s*float64(math.Nextafter32(float32(middle), 0)), s*low)
				l.requireRounds(t, s*float64(math.Nextafter32(float32(middle), float32(high))), s*high)
			}
		}
	}
}

func TestOverflow(t *testing.T) {
	for _, l := range layouts {
		largest := l.value(l.largest)
		over := math.Inf(1)
		if l.typ == Float8E4M3FN {
			over = 448
		}
		limit := largest + (largest-l.value(l.largest-1))/2 // where IEEE 754 begins to overflow
		for _, s := range []float64{1, -1} {
			l.requireRounds(t, s*math.Nextafter(limit, 0), s*largest)
			l.requireRounds(t, s*float64(math.Nextafter32(float32(limit), 0)), s*largest)
			for _, x := range []float64{limit, 2 * limit, math.MaxFloat32, math.MaxFloat64, math.Inf(1)} {
				l.requireRounds(t, s*x, s*over)
			}
			for _, x := range []float64{0x1p-149, math.SmallestNonzeroFloat64, 0} {
				l.requireRounds(t, s*x, math.Copysign(0, s))
			}
		}
		l.requireRounds(t, math.NaN(), math.NaN())
		l.requireRounds(t, math.Copysign(math.NaN(), -1), math.NaN())
	}
}

// TestNarrowIsRound visits float32 numbers of every exponent.
func TestNarrowIsRound(t *testing.T) {
	for i := uint64(0); i < 1<<32; i += 9973 {
		x := float64(math.Float32frombits(uint32(i)))
		for _, l := range layouts {
			l.requireRounds(t, x, Round(l.typ, x))
		}
	}
}

func TestRoundOnce(t *testing.T) {
	requireSame(t, 1+0x1p-7, Round(BFloat16, 1+0x1p-8+0x1p-40), "just above a middle")
	requireSame(t, 1, Round(BFloat16, 1+0x1p-8), "middle")
	requireSame(t, 65504, Round(Half, 65520-0x1p-20), "just below overflow")
	requireSame(t, 1, Round(Float8E8M0FNU, 1.5-0x1p-40), "just below a middle")
	requireSame(t, math.Inf(1), Round(Float, 1e39), "Float")
	requireSame(t, float64(float32(0.1)), Round(Float, 0.1), "Float")
	requireSame(t, 0.1, Round(Double, 0.1), "Double")
	require.Equal(t, complex(1, float64(float32(0.1))), RoundComplex(ComplexFloat, complex(1+1e-10, 0.1)))
	require.Equal(t, complex(1, 0.1), RoundComplex(ComplexDouble, complex(1, 0.1)))
}

// The values are those of torch's cast from float32.
func TestFloat8E8M0(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	check := func(x, want float64) {
		t.Helper()
		requireSame(t, want, Round(Float8E8M0FNU, x), "Round(%b)", x)
		b := []byte{0}
		StoreFloat(Float8E8M0FNU, b, x)
		requireSame(t, want, LoadFloat(Float8E8M0FNU, b), "stored %b", x)
		if float64(float32(x)) == x || x != x {
			code, wide := []uint8{0}, []float32{0}
			NarrowFloat8E8M0FNU(code, []float32{float32(x)})
			WidenFloat8E8M0FNU(wide, code)
			requireSame(t, want, float64(wide[0]), "narrowed %b", x)
		}
	}
	for c := range 0xff {
		v := math.Pow(2, float64(c-127))
		requireSame(t, v, LoadFloat(Float8E8M0FNU, []byte{byte(c)}), "code %#x", c)
		check(v, v)
		check(-v, v)
		if c > 0 && c < 0xfe {
			check(1.5*v, 2*v)
			check(math.Nextafter(1.5*v, 0), v)
			check(float64(math.Nextafter32(float32(1.5*v), 0)), v)
			check(float64(math.Nextafter32(float32(1.5*v), float32(2*v))), 2*v)
			check(float64(math.Nextafter32(float32(v), float32(2*v))), v)
			check(math.Nextafter(2*v, 0), 2*v)
		}
	}
	for _, x := range []float64{0, math.Copysign(0, -1), 0x1p-149, 0.5 * 0x1p-127, 0x1.fffffep-128} {
		check(x, 0x1p-127)
	}
	for _, x := range []float64{0x1.000004p-127, 1.25 * 0x1p-127, 1.5 * 0x1p-127, 1.75 * 0x1p-127} {
		check(x, 0x1p-126)
	}
	check(0x1.7ffffep127, 0x1p127)
	for _, x := range []float64{0x1.8p127, -0x1.8p127, math.MaxFloat32, 0x1p128, math.MaxFloat64, inf, -inf, nan} {
		check(x, nan)
	}
}

func BenchmarkConvert(b *testing.B) {
	const n = 4096
	wide, half := make([]float32, n), make([]uint16, n)
	for i := range wide {
		_, u := math.Modf(float64(i) * 0.6180339887498949)
		wide[i] = float32(u*8 - 4)
	}
	perElement := func(f func()) func(*testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				f()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/element")
		}
	}
	for _, l := range layouts[:2] {
		b.Run("Narrow"+l.typ.String(), perElement(func() { l.narrow(half, wide) }))
		b.Run("Widen"+l.typ.String(), perElement(func() { l.widen(wide, half) }))
	}
	bytes := make([]uint8, n)
	b.Run("NarrowFloat8E4M3FN", perElement(func() { NarrowFloat8E4M3FN(bytes, wide) }))
	b.Run("WidenFloat8E4M3FN", perElement(func() { WidenFloat8E4M3FN(wide, bytes) }))
	b.Run("Round", perElement(func() {
		for i, x := range wide {
			wide[i] = float32(Round(Half, float64(x)))
		}
	}))
}
