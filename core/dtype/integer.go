package dtype

// FloatToInt returns x truncated towards zero. NaN and whatever does not fit
// give the smallest int64. This is what torch gives on an x86 CPU; Go leaves
// the conversion undefined there.
func FloatToInt(x float64) int64 {
	if x >= -0x1p63 && x < 0x1p63 {
		return int64(x)
	}
	return -1 << 63
}

// FloatToInt32 is [FloatToInt] for Int32: NaN and whatever does not fit give
// the smallest int32, which is not what wrapping the result of FloatToInt
// gives.
func FloatToInt32(x float64) int32 {
	if x > -0x1p31-1 && x < 0x1p31 {
		return int32(x)
	}
	return -1 << 31
}

// FloatToUint returns x truncated towards zero, modulo 2^64 if x is negative
// and its truncation fits an int64. Of the other values NaN and those below
// give 2^63, and those from 2^64 on give 0. This is what torch gives on an x86
// CPU, whose instruction converts to int64 only.
func FloatToUint(x float64) uint64 {
	if x >= 0x1p63 {
		return uint64(FloatToInt(x-0x1p63)) ^ 1<<63
	}
	return uint64(FloatToInt(x))
}

// WrapInt returns x modulo the range of the integer type t (UInt64 as its
// bits), and for Bool whether x is not zero, as 0 or 1. It panics for any other
// type.
func WrapInt(t Type, x int64) int64 {
	switch t {
	case Bool:
		if x != 0 {
			return 1
		}
		return 0
	case Int32:
		return int64(int32(x))
	case Int, UInt64, Index:
		return x
	}
	panic("dtype: WrapInt to " + t.String())
}

// IntToFloat returns x rounded once to the floating type t: a float64 in
// between would round twice.
func IntToFloat(t Type, x int64) float64 {
	if t == Double {
		return float64(x)
	}
	return Round(t, roundToOdd(x>>11, x))
}

// UintToFloat is [IntToFloat] for UInt64.
func UintToFloat(t Type, x uint64) float64 {
	if t == Double {
		return float64(x)
	}
	return Round(t, roundToOdd(int64(x>>11), int64(x)))
}

// roundToOdd returns the number with upper bits high and lower bits those of x,
// of which 11 are below: if a float64 cannot hold it, the neighbour with an odd
// last bit, from which a narrower type rounds as from the number itself
// (S. Boldo, G. Melquiond, "When double rounding is odd", 2005).
func roundToOdd(high, x int64) float64 {
	if -1<<53 < x && x < 1<<53 && high == x>>11 {
		return float64(x)
	}
	if x&(1<<11-1) != 0 {
		high |= 1
	}
	return float64(high) * (1 << 11)
}
