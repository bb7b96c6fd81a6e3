package kir

import (
	"math"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// OrderType returns the type of an Order of elements of type t, and of how many bits it
// needs: its values are those of signed integers of so many. Zeros have one Order, and so
// have NaNs, which is the greatest.
func OrderType(t dtype.Type) (of dtype.Type, bits int) {
	switch {
	case t.IsBool():
		return dtype.Int32, 2
	case t == dtype.BFloat16:
		return dtype.Int32, 16
	case t == dtype.Int32 || t.IsFloat() && t != dtype.Double:
		return dtype.Int32, 32
	}
	return dtype.Int, 64
}

// OrderOf returns the Order of v.
func OrderOf(v scalar.Value) int64 {
	switch t := v.Type; {
	case t == dtype.UInt64:
		return v.I ^ math.MinInt64
	case !t.IsFloat():
		return v.I
	case t == dtype.Double:
		return orderOf(int64(math.Float64bits(v.Re)), v.Re, math.MaxInt64)
	default:
		code := orderOf(int64(int32(math.Float32bits(float32(v.Re)))), v.Re, math.MaxInt32)
		if t == dtype.BFloat16 { // the rest is that of a Float
			code >>= 16
		}
		return code
	}
}

// orderOf returns the Order of x, whose bits are code, in an integer up to most.
func orderOf(code int64, x float64, most int64) int64 {
	switch {
	case x != x:
		return most
	case x == 0:
		return 0
	case code < 0: // greater in magnitude is less
		return code ^ most
	}
	return code
}
