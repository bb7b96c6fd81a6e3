package numerics

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	lowest  = math.MinInt64
	highest = math.MaxInt64
)

var negativeZero = math.Copysign(0, -1)

// requireSame is equality that tells zeros apart and takes NaN for itself.
func requireSame(t *testing.T, want, got float64, message string, args ...any) {
	t.Helper()
	if want != want && got != got || math.Float64bits(want) == math.Float64bits(got) {
		return
	}
	require.Failf(t, "wrong value", message+": want %g, got %g", append(args, want, got)...)
}

// The values are those of torch on a CPU.
func TestSpecialReal(t *testing.T) {
	for _, c := range []struct {
		name    string
		f       func(float64) float64
		x, want float64
	}{
		{"Log", Log, 0, -inf}, {"Log", Log, -1, nan}, {"Log", Log, inf, inf}, {"Log", Log, 1, 0},
		{"Log2", Log2, 0, -inf}, {"Log2", Log2, -1, nan}, {"Log2", Log2, 0x1p-1074, -1074}, {"Log2", Log2, 8, 3},
		{"Log2", Log2, inf, inf}, {"Log10", Log10, 0, -inf}, {"Log10", Log10, nan, nan},
		{"Asin", Asin, negativeZero, negativeZero}, {"Asin", Asin, 1, math.Pi / 2}, {"Asin", Asin, 1.1, nan},
		{"Acos", Acos, 1, 0}, {"Acos", Acos, -1, math.Pi}, {"Acos", Acos, -inf, nan}, {"Acos", Acos, 0, math.Pi / 2},
		{"ErfcInv", ErfcInv, 0, inf}, {"ErfcInv", ErfcInv, 2, -inf}, {"ErfcInv", ErfcInv, 1, 0},
		{"ErfcInv", ErfcInv, -1e-9, nan}, {"ErfcInv", ErfcInv, -0x1p-1074, nan}, {"ErfcInv", ErfcInv, 2.1, nan}, {"ErfcInv", ErfcInv, nan, nan},
		{"Lgamma", Lgamma, 0, inf}, {"Lgamma", Lgamma, negativeZero, inf}, {"Lgamma", Lgamma, -2, inf},
		{"Lgamma", Lgamma, -inf, inf}, {"Lgamma", Lgamma, inf, inf}, {"Lgamma", Lgamma, nan, nan}, {"Lgamma", Lgamma, 2, 0},
		{"Round", Round, 0.5, 0}, {"Round", Round, 1.5, 2}, {"Round", Round, 2.5, 2}, {"Round", Round, -0.5, negativeZero},
		{"Round", Round, inf, inf}, {"Round", Round, 0.49999999999999994, 0},
		{"Frac", Frac, 1.5, 0.5}, {"Frac", Frac, -1.5, -0.5}, {"Frac", Frac, inf, nan}, {"Frac", Frac, negativeZero, 0},
		{"Frac", Frac, -2, 0}, {"Frac", Frac, nan, nan},
		{"Sign", Sign, -3, -1}, {"Sign", Sign, 5e-324, 1}, {"Sign", Sign, nan, 0}, {"Sign", Sign, negativeZero, 0},
		{"Sign", Sign, -inf, -1},
		{"Sigmoid", Sigmoid, -inf, 0}, {"Sigmoid", Sigmoid, inf, 1}, {"Sigmoid", Sigmoid, 0, 0.5}, {"Sigmoid", Sigmoid, nan, nan},
		{"Silu", Silu, -inf, nan}, {"Silu", Silu, inf, inf}, {"Silu", Silu, negativeZero, negativeZero},
		{"Silu", Silu, -1000, negativeZero},
	} {
		requireSame(t, c.want, c.f(c.x), "%s(%g)", c.name, c.x)
	}
}

func TestAtan2(t *testing.T) {
	for _, c := range []struct{ y, x, want float64 }{
		{1, -1, 3 * math.Pi / 4}, {-1, -1, -3 * math.Pi / 4}, {0, -1, math.Pi}, {negativeZero, -1, -math.Pi}, {0, 1, 0}, {negativeZero, 1, negativeZero},
		{-0x1p-1074, -1e300, -math.Pi}, {0x1p-1074, -1e300, math.Pi}, {-0x1p-1074, 1e300, negativeZero},
		{inf, -inf, 3 * math.Pi / 4}, {-inf, 1, -math.Pi / 2}, {nan, 1, nan}, {1, nan, nan},
	} {
		requireSame(t, c.want, Atan2(c.y, c.x), "Atan2(%g, %g)", c.y, c.x)
	}
	require.Equal(t, -math.Pi, imag(LogComplex(complex(-1e300, -0x1p-1074))))
}

// The values are those of torch on a CPU.
func TestRemainders(t *testing.T) {
	for _, c := range []struct{ x, y, remainder, fmod float64 }{
		{5, 3, 2, 2}, {-5, 3, 1, -2}, {5, -3, -1, 2}, {-5, -3, -2, -2},
		{5, 0, nan, nan}, {inf, 3, nan, nan}, {nan, 3, nan, nan}, {1, nan, nan, nan},
		{0, 3, 0, 0}, {negativeZero, 3, negativeZero, negativeZero}, {negativeZero, -3, negativeZero, negativeZero},
		{1, inf, 1, 1}, {-1, inf, inf, -1}, {3, -inf, -inf, 3}, {-3, -inf, -3, -3},
		{-1e-20, 3, 3, -1e-20}, {1e-20, -3, -3, 1e-20},
		{6, 3, 0, 0}, {-6, 3, negativeZero, negativeZero}, {6, -3, 0, 0}, {-6, -3, negativeZero, negativeZero},
	} {
		requireSame(t, c.remainder, Remainder(c.x, c.y), "Remainder(%g, %g)", c.x, c.y)
		requireSame(t, c.fmod, Fmod(c.x, c.y), "Fmod(%g, %g)", c.x, c.y)
	}
}

func TestMinimumMaximum(t *testing.T) {
	for _, c := range []struct{ x, y, minimum, maximum float64 }{
		{1, 2, 1, 2}, {2, 1, 1, 2}, {nan, 1, nan, nan}, {1, nan, nan, nan}, {nan, nan, nan, nan},
		{-inf, nan, nan, nan}, {-inf, inf, -inf, inf},
		{0, negativeZero, negativeZero, 0}, {negativeZero, 0, negativeZero, 0}, {0, 0, 0, 0}, {negativeZero, negativeZero, negativeZero, negativeZero},
	} {
		requireSame(t, c.minimum, MinimumNaN(c.x, c.y), "MinimumNaN(%g, %g)", c.x, c.y)
		requireSame(t, c.maximum, MaximumNaN(c.x, c.y), "MaximumNaN(%g, %g)", c.x, c.y)
	}
}

func TestNextAfter(t *testing.T) {
	requireSame(t, negativeZero, NextAfter64(0, negativeZero), "zeros")
	requireSame(t, 0, NextAfter64(negativeZero, 0), "zeros")
	requireSame(t, 1+0x1p-52, NextAfter64(1, 2), "up")
	requireSame(t, math.MaxFloat64, NextAfter64(inf, 0), "from infinity")
	requireSame(t, nan, NextAfter64(1, nan), "NaN")
	requireSame(t, 1+0x1p-23, float64(NextAfter32(1, 2)), "up")
	requireSame(t, -0x1p-149, float64(NextAfter32(0, -1)), "down from zero")
	requireSame(t, inf, float64(NextAfter32(math.MaxFloat32, float32(inf))), "to infinity")
	requireSame(t, negativeZero, float64(NextAfter32(0, float32(negativeZero))), "zeros")
	requireSame(t, nan, float64(NextAfter32(float32(nan), 1)), "NaN")
}

// wrap returns x modulo 2^64 as an int64.
func wrap(x *big.Int) int64 {
	low := new(big.Int).And(x, new(big.Int).SetUint64(math.MaxUint64))
	return int64(low.Uint64())
}

var integers = []int64{0, 1, -1, 2, -2, 3, -3, 7, -7, 12, -18, 63, 64, 100, -100, 1 << 31, -1 << 31, 1<<32 + 1, highest, highest - 1, lowest, lowest + 1}

// TestDivisions compares with integers that do not overflow.
func TestDivisions(t *testing.T) {
	for _, a := range integers {
		for _, b := range integers {
			q, r := TruncDiv(a, b), FmodInt(a, b)
			f, m := FloorDiv(a, b), RemainderInt(a, b)
			require.Equal(t, a, b*q+r, "%d, %d", a, b)
			require.Equal(t, a, b*f+m, "%d, %d", a, b)
			if b == 0 {
				require.Equal(t, []int64{0, a, 0, a}, []int64{q, r, f, m})
				continue
			}
			x, y := big.NewInt(a), big.NewInt(b)
			require.Equal(t, wrap(new(big.Int).Quo(x, y)), q, "%d / %d", a, b)
			require.Equal(t, new(big.Int).Rem(x, y).Int64(), r, "%d fmod %d", a, b)
			floor, remainder := new(big.Int).DivMod(x, new(big.Int).Abs(y), new(big.Int))
			if b < 0 { // floor(a / b) is floor(-a / -b)
				floor, remainder = floor.DivMod(new(big.Int).Neg(x), new(big.Int).Neg(y), remainder)
				remainder.Neg(remainder)
			}
			require.Equal(t, wrap(floor), f, "floor of %d / %d", a, b)
			require.Equal(t, remainder.Int64(), m, "%d remainder %d", a, b)
		}
	}
}

func TestGcd(t *testing.T) {
	for _, a := range integers {
		for _, b := range integers {
			x, y := new(big.Int).Abs(big.NewInt(a)), new(big.Int).Abs(big.NewInt(b))
			require.Equal(t, wrap(new(big.Int).GCD(nil, nil, x, y)), Gcd(a, b), "%d, %d", a, b)
		}
	}
}

func TestIntPow(t *testing.T) {
	modulus := new(big.Int).Lsh(big.NewInt(1), 64)
	for _, a := range integers {
		for _, n := range integers {
			if n < 0 {
				continue
			}
			positive := new(big.Int).Mod(big.NewInt(a), modulus)
			require.Equal(t, wrap(positive.Exp(positive, big.NewInt(n), modulus)), IntPow(a, n), "%d ** %d", a, n)
		}
	}
	for _, c := range [][3]int64{{2, -1, 0}, {1, -1, 1}, {-1, -1, -1}, {-1, -2, 1}, {0, -1, 0}, {-1, lowest, 1}, {-1, lowest + 1, -1}, {5, lowest, 0}} {
		require.Equal(t, c[2], IntPow(c[0], c[1]), "%d ** %d", c[0], c[1])
	}
}

// TestShifts compares with shifts by one, repeated.
func TestShifts(t *testing.T) {
	for _, a := range integers {
		left, right, logical, logical32 := a, a, uint64(a), uint32(a)
		for n := int64(0); n < 70; n++ {
			require.Equal(t, left, ShiftLeft(a, n), "%d << %d", a, n)
			require.Equal(t, right, ShiftRight(a, n), "%d >> %d", a, n)
			require.Equal(t, int64(logical), LogicalShiftRight(a, n, 64), "%d >>> %d", a, n)
			require.Equal(t, int64(int32(logical32)), LogicalShiftRight(a, n, 32), "%d >>> %d", int32(a), n)
			left, right, logical, logical32 = left*2, right>>1, logical/2, logical32/2
		}
		for _, n := range []int64{-1, -64, lowest, highest, 1000} {
			require.Equal(t, int64(0), ShiftLeft(a, n))
			require.Equal(t, a>>63, ShiftRight(a, n))
			require.Equal(t, int64(0), LogicalShiftRight(a, n, 64))
			require.Equal(t, int64(0), LogicalShiftRight(a, n, 32))
		}
	}
}

func TestComplexOddments(t *testing.T) {
	same := func(want, got complex128) {
		t.Helper()
		requireSame(t, real(want), real(got), "real part of %v", got)
		requireSame(t, imag(want), imag(got), "imaginary part of %v", got)
	}
	requireSame(t, 5, AbsComplex(3-4i), "modulus")
	requireSame(t, inf, AbsComplex(complex(nan, inf)), "modulus")
	requireSame(t, math.Sqrt2*1e308, AbsComplex(1e308+1e308i), "modulus")
	same(0, SignComplex(0))
	same(0.6+0.8i, SignComplex(3+4i))
	same(complex(nan, 0), SignComplex(complex(inf, 0)))
	same(complex(nan, nan), SignComplex(complex(nan, 0)))
	same(complex(inf, nan), ReciprocalComplex(0))
	same(0.12-0.16i, ReciprocalComplex(3+4i))
	same(complex(inf, nan), RsqrtComplex(0))
	same(0.4-0.2i, RsqrtComplex(3+4i))
	same(0.5, SigmoidComplex(0))
	require.Equal(t, complex(1, 0), SigmoidComplex(complex(inf, 0)))
	require.Equal(t, complex(0, 0), SigmoidComplex(complex(-inf, inf)))
	same(1, PowComplex(0, 0))
	same(1, PowComplex(complex(nan, 1), 0))
	same(0, PowComplex(0, 2-1i))
	same(complex(inf, nan), PowComplex(0, -1))
	same(complexNaN, PowComplex(0, 1i))
	same(complexNaN, PowComplex(0, complex(nan, 0)))
	same(complex(inf, 0), PowComplex(complex(inf, 0), 2))
	same(8, PowComplex(2, 3))
}
