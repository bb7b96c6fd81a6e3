package numerics

import (
	"math"
	"math/big"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

// The special cases of Pow are those of package math, which are those of C.
func TestPowSpecial(t *testing.T) {
	for _, x := range []float64{0, negativeZero, 1, -1, 2, -2, 0.5, inf, -inf, nan, -0.3, 5e-324, math.MaxFloat64} {
		for _, y := range []float64{0, negativeZero, 1, -1, 2, 3, -3, 0.5, -0.5, 1.5, inf, -inf, nan, 1e300, -1e300, 1<<53 + 2, 0x1p52 + 1} {
			want := math.Pow(x, y)
			got := Pow(x, y)
			if got == got && want == want && math.Signbit(got) != math.Signbit(want) {
				t.Errorf("Pow(%g, %g) = %g, want the sign of %g", x, y, got, want)
			}
			if math.Abs(got-want) <= 1e-12*math.Abs(want) {
				continue
			}
			requireSame(t, want, got, "Pow(%g, %g)", x, y)
		}
	}
}

// Integer powers that a float64 holds are exact.
func TestPowExact(t *testing.T) {
	for x := int64(2); x < 100; x++ {
		for n := int64(1); n < 64; n++ {
			p := new(big.Int).Exp(big.NewInt(x), big.NewInt(n), nil)
			if p.BitLen()-int(p.TrailingZeroBits()) > 53 {
				break
			}
			want, _ := new(big.Float).SetInt(p).Float64()
			require.Equal(t, want, Pow(float64(x), float64(n)), "%d ** %d", x, n)
			require.Equal(t, 1/want, Pow(float64(x), float64(-n)), "%d ** -%d", x, n)
			require.Equal(t, math.Copysign(want, 1-2*float64(n%2)), Pow(float64(-x), float64(n)), "(-%d) ** %d", x, n)
		}
	}
}

// Small integer powers are those of big.Float, rounded once.
func TestPowRoundsOnce(t *testing.T) {
	for i := range 50 {
		x := 0.5 + float64(i)*0.0713
		p := new(big.Float).SetPrec(4000).SetInt64(1)
		for n := 1; n <= maxMultiply; n++ {
			p.Mul(p, new(big.Float).SetFloat64(x))
			want, _ := p.Float64()
			require.Equal(t, want, Pow(x, float64(n)), "%v ** %d", x, n)
			want, _ = new(big.Float).SetPrec(200).Quo(big.NewFloat(1), p).Float64()
			require.Equal(t, want, Pow(x, float64(-n)), "%v ** -%d", x, n)
		}
	}
}

func TestElementarySpecial(t *testing.T) {
	for _, c := range []struct {
		name    string
		f       func(float64) float64
		x, want float64
	}{
		{"Tan", Tan, negativeZero, negativeZero}, {"Tan", Tan, inf, nan}, {"Tan", Tan, nan, nan}, {"Tan", Tan, 5e-324, 5e-324},
		{"Sinh", Sinh, -inf, -inf}, {"Sinh", Sinh, -711, -inf}, {"Sinh", Sinh, negativeZero, negativeZero}, {"Sinh", Sinh, nan, nan},
		{"Cosh", Cosh, -inf, inf}, {"Cosh", Cosh, 711, inf}, {"Cosh", Cosh, nan, nan},
	} {
		requireSame(t, c.want, c.f(c.x), "%s(%g)", c.name, c.x)
	}
}

func TestLerp(t *testing.T) {
	require.Equal(t, 1.5, Lerp(1, 3, 0.25))
	require.Equal(t, -0.5, Lerp(1, 3, -0.75))
	require.Equal(t, 0.3, Lerp(1e17, 0.3, 1), "the end is exact")
	require.Equal(t, 2+1i, LerpComplex(1, 3+2i, 0.5))
	require.Equal(t, 0i, LerpComplex(1, 2, 1i)-(1+1i))
}

func TestComplexAgreesWithReal(t *testing.T) {
	for _, x := range []float64{0.3, 2, 5, 1e-8} {
		require.Equal(t, complex(math.Exp2(x), 0), Exp2Complex(complex(x, 0)))
		require.InEpsilon(t, Log2(x), real(Log2Complex(complex(x, 0))), 1e-15)
		require.InEpsilon(t, Log10(x), real(Log10Complex(complex(x, 0))), 1e-15)
		require.InEpsilon(t, Silu(x), real(SiluComplex(complex(x, 0))), 1e-15)
		require.Equal(t, complex(math.Expm1(x), 0), Expm1Complex(complex(x, 0)))
	}
	require.InDelta(t, real(Exp2Complex(1+2i)), 2*math.Cos(2*math.Ln2), 1e-15)
}

func TestUnsigned(t *testing.T) {
	for _, a := range integers {
		for _, b := range integers {
			x, y := uint64(a), uint64(b)
			q, r := TruncDivUint(x, y), FmodUint(x, y)
			if y == 0 {
				require.Equal(t, []uint64{0, x}, []uint64{q, r})
			} else {
				high, low := bits.Mul64(q, y)
				require.Equal(t, [2]uint64{0, x - r}, [2]uint64{high, low}, "%d / %d", x, y)
				require.Less(t, r, y)
			}
			bx, by := new(big.Int).SetUint64(x), new(big.Int).SetUint64(y)
			require.Equal(t, new(big.Int).GCD(nil, nil, bx, by).Uint64(), GcdUint(x, y), "%d, %d", x, y)
			p := new(big.Int).Exp(bx, by, new(big.Int).Lsh(big.NewInt(1), 64))
			require.Equal(t, p.Uint64(), PowUint(x, y), "%d ** %d", x, y)
		}
	}
}
