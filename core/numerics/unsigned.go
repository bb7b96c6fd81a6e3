package numerics

// The functions of this file are those of integer.go for UInt64, where the sign
// bit is a digit: TruncDivUint and [FmodUint] by 0 are 0 and the dividend.

// TruncDivUint returns a / b rounded down.
func TruncDivUint(a, b uint64) uint64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// FmodUint returns the remainder of [TruncDivUint].
func FmodUint(a, b uint64) uint64 {
	if b == 0 {
		return a
	}
	return a % b
}

// PowUint returns a to the power n, wrapped.
func PowUint(a, n uint64) uint64 {
	p := uint64(1)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			p *= a
		}
		a *= a
	}
	return p
}

// GcdUint returns the greatest common divisor. GcdUint(0, 0) is 0.
func GcdUint(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
