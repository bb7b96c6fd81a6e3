package dtype

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIntElements(t *testing.T) {
	b := make([]byte, 8)
	for _, x := range []int64{0, 1, -1, math.MaxInt32, math.MaxInt32 + 1, math.MinInt32 - 1, math.MaxInt64, math.MinInt64} {
		for _, typ := range []Type{Bool, Int32, Int, UInt64, Index} {
			StoreInt(typ, b, x)
			require.Equal(t, WrapInt(typ, x), LoadInt(typ, b), "%s %d", typ, x)
		}
	}
	StoreInt(Int32, b, 0x7_8000_0001)
	require.Equal(t, []byte{1, 0, 0, 0x80}, b[:4])
	require.Equal(t, int64(math.MinInt32+1), LoadInt(Int32, b))
	StoreInt(Int, b, -2)
	require.Equal(t, []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, b)
	require.Equal(t, int64(1), LoadInt(Bool, []byte{7}))
	require.Equal(t, int64(1), WrapInt(Bool, 256))
	require.Equal(t, int64(-1<<31), WrapInt(Int32, 1<<31))
}

func TestFloatElements(t *testing.T) {
	b := make([]byte, 16)
	StoreFloat(Float, b, 0.1)
	require.Equal(t, []byte{0xcd, 0xcc, 0xcc, 0x3d}, b[:4])
	require.Equal(t, float64(float32(0.1)), LoadFloat(Float, b))
	StoreFloat(Double, b, 0.1)
	require.Equal(t, []byte{0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9, 0x3f}, b[:8])
	require.Equal(t, 0.1, LoadFloat(Double, b))
	StoreComplex(ComplexFloat, b, complex(0.1, -2))
	require.Equal(t, []byte{0xcd, 0xcc, 0xcc, 0x3d, 0, 0, 0, 0xc0}, b[:8])
	require.Equal(t, complex(float64(float32(0.1)), -2), LoadComplex(ComplexFloat, b))
	StoreComplex(ComplexDouble, b, complex(0.1, -2))
	require.Equal(t, complex(0.1, -2), LoadComplex(ComplexDouble, b))
}

func TestWrongClassPanics(t *testing.T) {
	b := make([]byte, 16)
	for _, typ := range All() {
		held := typ.Size() > 0 && typ != Float4E2M1FNx2
		float, complex := typ.IsFloat() && held, typ.IsComplex()
		integer := typ.IsInt() || typ.IsBool()
		for _, access := range []struct {
			allowed bool
			f       func()
		}{
			{float, func() { Round(typ, 1) }},
			{float, func() { LoadFloat(typ, b) }},
			{float, func() { StoreFloat(typ, b, 1) }},
			{integer, func() { LoadInt(typ, b) }},
			{integer, func() { StoreInt(typ, b, 1) }},
			{integer, func() { WrapInt(typ, 1) }},
			{complex, func() { LoadComplex(typ, b) }},
			{complex, func() { StoreComplex(typ, b, 1) }},
			{complex, func() { RoundComplex(typ, 1) }},
		} {
			if access.allowed {
				require.NotPanics(t, access.f, typ)
			} else {
				require.Panics(t, access.f, typ)
			}
		}
	}
}

// The values are those of torch on an x86 CPU.
func TestFloatToInteger(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		x   float64
		i64 int64
		i32 int32
		u64 uint64
	}{
		{1.9, 1, 1, 1},
		{-1.5, -1, -1, math.MaxUint64},
		{-0.5, 0, 0, 0},
		{2147483647.5, 2147483647, 2147483647, 2147483647},
		{-2147483648.5, -2147483648, math.MinInt32, 1<<64 - 1<<31},
		{3e9, 3e9, math.MinInt32, 3e9},
		{-3e9, -3e9, math.MinInt32, 1<<64 - 3e9},
		{1e19, math.MinInt64, math.MinInt32, 1e19},
		{-1e19, math.MinInt64, math.MinInt32, 1 << 63},
		{0x1p63, math.MinInt64, math.MinInt32, 1 << 63},
		{-0x1p63, math.MinInt64, math.MinInt32, 1 << 63},
		{0x1.fffffffffffffp62, 0x7ffffffffffffc00, math.MinInt32, 0x7ffffffffffffc00},
		{0x1p64, math.MinInt64, math.MinInt32, 0},
		{1e30, math.MinInt64, math.MinInt32, 0},
		{nan, math.MinInt64, math.MinInt32, 1 << 63},
		{inf, math.MinInt64, math.MinInt32, 0},
		{-inf, math.MinInt64, math.MinInt32, 1 << 63},
	} {
		require.Equal(t, c.i64, FloatToInt(c.x), "FloatToInt(%g)", c.x)
		require.Equal(t, c.i32, FloatToInt32(c.x), "FloatToInt32(%g)", c.x)
		require.Equal(t, c.u64, FloatToUint(c.x), "FloatToUint(%g)", c.x)
	}
}
