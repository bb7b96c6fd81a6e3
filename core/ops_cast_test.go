package core

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

func TestCastFloats(t *testing.T) {
	n, i := quietNaN, infinity
	x := floats(dtype.Double, 1.75, -1.75, 0, negativeZero, n, i, -i, 3e9, 1e-310)
	require.Equal(t, []int64{1, -1, 0, 0, lowest, lowest, lowest, 3000000000, 0}, resultOf(t, "cast", x, dtype.Int).I)
	require.Equal(t, []int64{1, -1, 0, 0, math.MinInt32, math.MinInt32, math.MinInt32, math.MinInt32, 0}, resultOf(t, "cast", x, dtype.Int32).I)
	require.Equal(t, "110011111", truth(t, resultOf(t, "cast", x, dtype.Bool)))
	requireFloats(t, []float64{1.75, -1.75, 0, negativeZero, n, i, -i, 3e9, 0}, resultOf(t, "cast", x, dtype.Float).F, "to Float")
	requireFloats(t, []float64{1.75, -1.75, 0, negativeZero, n, i, -i, i, 0}, resultOf(t, "cast", x, dtype.Half).F, "to Half")
	requireFloats(t, []float64{1.75, -1.75, 0, negativeZero, n, 448, -448, 448, 0}, resultOf(t, "cast", x, dtype.Float8E4M3FN).F, "to Float8_e4m3fn")
	z := resultOf(t, "cast", x, dtype.ComplexFloat)
	require.Equal(t, complex(1.75, 0), z.C[0])
	// Once from 1 + 2^-8 + 2^-30 to BFloat16, not through Float, where it is a tie.
	require.Equal(t, []float64{1 + 0x1p-7}, resultOf(t, "cast", floats(dtype.Double, 1+0x1p-8+0x1p-30), dtype.BFloat16).F)
	require.Equal(t, []int64{lowest, -1}, resultOf(t, "cast", floats(dtype.Double, 0x1p63, -1), dtype.UInt64).I)
}

func TestCastIntegers(t *testing.T) {
	x := ints(dtype.Int, -1, 1<<32+5, 0, lowest)
	require.Equal(t, []int64{-1, 5, 0, 0}, resultOf(t, "cast", x, dtype.Int32).I)
	require.Equal(t, []int64{-1, 1<<32 + 5, 0, lowest}, resultOf(t, "cast", x, dtype.UInt64).I)
	require.Equal(t, []int64{-1, 1<<32 + 5, 0, lowest}, resultOf(t, "cast", x, dtype.Index).I)
	require.Equal(t, "1101", truth(t, resultOf(t, "cast", x, dtype.Bool)))
	requireFloats(t, []float64{0x1p64, 3}, resultOf(t, "cast", ints(dtype.UInt64, -1, 3), dtype.Double).F, "unsigned")
	requireFloats(t, []float64{1, 0}, resultOf(t, "cast", bools(true, false), dtype.Half).F, "bools")
	// In float64, 2^62 + 2^38 + 1 would be half of a last place of Float above 2^62.
	require.Equal(t, []float64{0x1p62 + 0x1p39}, resultOf(t, "cast", ints(dtype.Int, 1<<62+1<<38+1), dtype.Float).F)
	require.Equal(t, []complex128{0x1p62 + 0x1p39}, resultOf(t, "cast", ints(dtype.Int, 1<<62+1<<38+1), dtype.ComplexFloat).C)
	require.Equal(t, scalar.Value{Type: dtype.Float, Re: 0x1p62 + 0x1p39}, folded(t, "cast", 1<<62+1<<38+1, dtype.Float))
}

func TestCastComplex(t *testing.T) {
	z := complexes(dtype.ComplexDouble, 1.75+2i, 3i, complex(0.1, 0.1))
	require.Equal(t, []float64{1.75, 0, 0.1}, resultOf(t, "cast", z, dtype.Double).F)
	require.Equal(t, []int64{1, 0, 0}, resultOf(t, "cast", z, dtype.Int).I)
	require.Equal(t, "111", truth(t, resultOf(t, "cast", z, dtype.Bool)))
	tenth := float64(float32(0.1))
	require.Equal(t, []complex128{1.75 + 2i, 3i, complex(tenth, tenth)}, resultOf(t, "cast", z, dtype.ComplexFloat).C)
}

// Between any two types a cast has a result of the wanted type.
func TestCastEverything(t *testing.T) {
	for _, from := range dtype.All() {
		for _, to := range dtype.All() {
			if checkCast(from) != nil {
				continue
			}
			a := NewArray(from, []int64{2})
			_, _, _, err := callOn(t, "cast", a, to)
			if to == dtype.Null || to == dtype.Float4E2M1FN || to == dtype.Float4E2M1FNx2 {
				require.IsType(t, &InvalidType{}, err)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, to, resultOf(t, "cast", a, to).Type)
			require.Equal(t, to, folded(t, "cast", scalar.Value{Type: from}, to).Type)
		}
	}
	_, err := Parse("%0 = tensor f32 [4] contiguity=[yes]\n%1 = cast %0 dtype=f4e2m1\noutput %1\n")
	require.ErrorContains(t, err, "not a type to compute with")
	_, err = Parse("$0 = scalar f32\n$1 = cast $0 : f4e2m1\n")
	require.ErrorContains(t, err, "not a type to compute with")
}

// The text form holds the operands of scalar ops to the rules of calls.
func TestScalarTextIsChecked(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"where $1, $0 : f64", "where has 3 operands, got 2"},
		{"where $1, $0, 1:i64 : f64", "where(): y is Int and must be Double"},
		{"exp $1 : f64", "exp(): x is Bool and must be Float"},
		{"bitwise_and $0, $0 : f64", "bitwise_and(): x must be of integer or bool type, got Double"},
		{"clamp $0, $0 : f64", "clamp has 3 operands, got 2"},
		{"exp $0 : f32", "$2 has dtype f64, not f32"},
		{"addcmul $0, $0, $0, $0 : f64", `there is no scalar operation "addcmul"`},
	} {
		_, err := Parse("$0 = scalar f64\n$1 = scalar bool\n$2 = " + c.line + "\n")
		require.ErrorContains(t, err, c.want, c.line)
	}
	const good = "%0 = tensor f64 [4] contiguity=[yes]\n$0 = scalar i64\n$1 = pow $0, 2:i64 : i64\n" +
		"$2 = cast $1 : f64\n$3 = lt $2, 0.5:f64 : bool\n%1 = where $3, %0, $2\noutput %1\n"
	f, err := Parse(good)
	require.NoError(t, err)
	require.Equal(t, good, f.String())
}
