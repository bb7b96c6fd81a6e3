package numerics

// Integers are two's complement and wrap. The quotients and remainders here are
// defined for every pair of operands and satisfy a = b*quotient + remainder,
// wrapped: a quotient by 0 is 0, its remainder is a, and the smallest int64
// divided by -1 is itself, with remainder 0. Torch raises an error for a
// division by 0 on a CPU and leaves it undefined on a GPU.

// TruncDiv returns a / b rounded to zero.
func TruncDiv(a, b int64) int64 {
	if b == 0 {
		return 0
	}
	return a / b // Go defines the smallest int64 / -1
}

// FmodInt returns the remainder of [TruncDiv], which has the sign of a.
func FmodInt(a, b int64) int64 {
	if b == 0 {
		return a
	}
	return a % b
}

// FloorDiv returns a / b rounded down.
func FloorDiv(a, b int64) int64 {
	q := TruncDiv(a, b)
	if b != 0 && a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// RemainderInt returns the remainder of [FloorDiv], which has the sign of b
// where b is not 0.
func RemainderInt(a, b int64) int64 {
	r := FmodInt(a, b)
	if b != 0 && r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r
}

// IntPow returns a to the power n, wrapped. For a negative n it is 1 or -1
// where a is, and otherwise 0 (also for a = 0), as torch's power of two tensors
// is.
func IntPow(a, n int64) int64 {
	if n < 0 {
		switch {
		case a == 1 || a == -1 && n%2 == 0:
			return 1
		case a == -1:
			return -1
		}
		return 0
	}
	p := int64(1)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			p *= a
		}
		a *= a
	}
	return p
}

// Gcd returns the greatest common divisor, which is not negative except where
// it is 2^63, which wraps. Gcd(0, 0) is 0.
func Gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	if a < 0 {
		return -a
	}
	return a
}

// A shift count out of range, negative or at least the width of the type, moves
// every bit out: this is what torch gives on a CPU, and C leaves undefined. For
// an Int32 operand, sign-extended, [ShiftLeft] (once wrapped) and
// [ShiftRight] are those of 32 bits.

// ShiftLeft returns a * 2^n, wrapped; 0 for a count out of range.
func ShiftLeft(a, n int64) int64 {
	if n < 0 {
		return 0
	}
	return a << uint64(n)
}

// ShiftRight returns a / 2^n rounded down: for a count out of range 0 or -1, by
// the sign of a.
func ShiftRight(a, n int64) int64 {
	if n < 0 {
		n = 63
	}
	return a >> uint64(n)
}

// LogicalShiftRight shifts the low width bits of a (32 or 64) to the right,
// filling with zeros, and returns the result as a signed integer of that width;
// 0 for a count out of range.
func LogicalShiftRight(a, n int64, width int) int64 {
	switch {
	case n < 0:
		return 0
	case width == 32:
		return int64(int32(uint32(a) >> uint64(n)))
	}
	return int64(uint64(a) >> uint64(n))
}
