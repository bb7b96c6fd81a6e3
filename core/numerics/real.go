// Package numerics is the arithmetic that the operations of the fusion IR are
// defined by, where Go's packages math and math/cmplx have no function or
// another meaning than torch.
//
// It has no central type: it is functions of float64, int64, complex128 and,
// for loops over many elements, float32 (names that end in 32). Invariants: no
// function panics or traps for any argument; every function returns the same
// for the same argument on every machine that has IEEE arithmetic.
//
// Functions of package math that mean the same in torch and are accurate to 4
// units of the last place or nearly (Exp, Exp2, Expm1, Log1p, Trunc, Erf, Erfc,
// Erfinv, Tanh and others) are not repeated. Rounding to an
// element type is in package dtype.
package numerics

import "math"

// Log returns the natural logarithm of x. On amd64 that of package math (Go
// 1.26) takes subnormal numbers for 2^-1023.
func Log(x float64) float64 {
	if x > 0 && x < 0x1p-1022 {
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

// Log2 returns the binary logarithm of x. That of package math takes the
// exponent of x off first and so loses all digits just above 1.
func Log2(x float64) float64 {
	if x > 0.5 && x < 2 {
		return math.Log(x) * (1 / math.Ln2)
	}
	return math.Log2(x)
}

// Log10 returns the decimal logarithm of x.
func Log10(x float64) float64 { return Log(x) * (1 / math.Ln10) }

// Atan2 returns the angle of the point (x, y), with the sign of y. That of
// package math has the other sign where y/x underflows and x is negative.
func Atan2(y, x float64) float64 { return math.Copysign(math.Atan2(y, x), y) }

// Asin returns the inverse sine of x. Next to 1 that of package math loses half
// of the digits to the difference 1 - x*x.
func Asin(x float64) float64 { return math.Atan2(x, math.Sqrt((1-x)*(1+x))) }

// Acos returns the inverse cosine of x, for the reason given at [Asin].
func Acos(x float64) float64 { return math.Atan2(math.Sqrt((1-x)*(1+x)), x) }

// ErfcInv returns the inverse of the complementary error function: +Inf for 0,
// -Inf for 2, NaN outside [0, 2].
//
// From 1/2 on it is Erfinv(1-x), where the difference is exact. Below, equation
// 26.2.23 of Abramowitz and Stegun, "Handbook of mathematical functions", whose
// error is under 4.5e-4, is the start of two of Halley's steps on erfc(y) = x,
// each of which cubes the error. Where erfc would be subnormal and short of
// digits, the steps invert the asymptotic series 7.1.23 of the same book
// instead, which gain a factor of 1400 each.
func ErfcInv(x float64) float64 {
	if !(x > 0 && x < 0.5) {
		switch {
		case x == 0:
			return inf
		case x < 0: // however small: 1 - x may round to 1
			return math.NaN()
		}
		return math.Erfinv(1 - x)
	}
	log := Log(x)
	t := math.Sqrt(-2 * (log - math.Ln2))
	y := t - (2.515517+t*(0.802853+t*0.010328))/(1+t*(1.432788+t*(0.189269+t*0.001308)))
	y /= math.Sqrt2
	if x < 0x1p-1000 {
		for range 5 {
			s := 1 / (2 * y * y)
			y = math.Sqrt(math.Log1p(-s*(1-3*s*(1-5*s*(1-7*s)))) - log - math.Log(y*math.SqrtPi))
		}
		return y
	}
	for range 2 {
		step := (math.Erfc(y) - x) / (2 / math.SqrtPi * math.Exp(-y*y))
		y += step / (1 - y*step)
	}
	return y
}

// Lgamma returns the logarithm of the absolute value of the gamma function, +Inf
// for both infinities and at the poles.
func Lgamma(x float64) float64 {
	switch {
	case math.IsInf(x, -1):
		return math.Inf(1)
	case math.Abs(x) < 0x1p-1022: // |gamma(x)| is 1/|x|, see [Log]
		return -Log(math.Abs(x))
	}
	y, _ := math.Lgamma(x)
	return y
}

// Round returns the integer nearest to x, ties to even.
func Round(x float64) float64 { return math.RoundToEven(x) }

// Frac returns x minus its integer part: it has the sign of x, is 0 for
// integers and NaN for infinities.
func Frac(x float64) float64 { return x - math.Trunc(x) }

// Sign returns -1, 0 or 1, and 0 for NaN.
func Sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

// Fmod returns the remainder of the division of x by y rounded to zero, as C
// does: it has the sign of x, and is NaN if y is zero.
func Fmod(x, y float64) float64 { return math.Mod(x, y) }

// Remainder returns the remainder of the division of x by y rounded down, as
// Python does: it has the sign of y unless it is zero, and is NaN if y is zero.
func Remainder(x, y float64) float64 {
	r := math.Mod(x, y)
	if r != 0 && (r < 0) != (y < 0) {
		r += y
	}
	return r
}

// NextAfter32 returns the float32 next to x towards y, and y if they are equal,
// so that the sign of a zero is that of y.
func NextAfter32(x, y float32) float32 {
	if x == y {
		return y
	}
	return math.Nextafter32(x, y)
}

// NextAfter64 is [NextAfter32] for float64.
func NextAfter64(x, y float64) float64 {
	if x == y {
		return y
	}
	return math.Nextafter(x, y)
}

// Sigmoid returns 1 / (1 + exp(-x)).
func Sigmoid(x float64) float64 {
	if x < 0 {
		e := math.Exp(x)
		return e / (1 + e)
	}
	return 1 / (1 + math.Exp(-x))
}

// Silu returns x * Sigmoid(x); so it is NaN for -Inf, as in torch.
func Silu(x float64) float64 { return x * Sigmoid(x) }

// Real are the types of numbers that are ordered.
type Real interface {
	int64 | uint64 | float32 | float64
}

// MinimumNaN returns the smaller of x and y, of zeros a negative one, and NaN if either is
// NaN: whatever the order of x and y.
func MinimumNaN[T Real](x, y T) T {
	switch {
	case x == 0 && y == 0:
		return -(-x - y)
	case y < x || y != y:
		return y
	}
	return x
}

// MaximumNaN returns the larger of x and y, of zeros a positive one, and NaN if either is
// NaN: whatever the order of x and y.
func MaximumNaN[T Real](x, y T) T {
	switch {
	case x == 0 && y == 0:
		return x + y
	case y > x || y != y:
		return y
	}
	return x
}
