// Package numerics is the arithmetic that the operations of the fusion IR are
// defined by, where Go's packages math and math/cmplx have no function or
// another meaning than torch.
//
// It has no central type: it is functions of float64, int64, complex128 and,
// for loops over many elements, float32 (names that end in 32). Invariants: no
// function panics or traps for any argument; every function returns the same
// for the same argument on every machine that has IEEE arithmetic.
//
// Functions of package math that mean the same in torch (Exp2, Expm1, Log1p,
// Trunc, Erf, Erfinv and others) are not repeated. Rounding to an element type
// is in package dtype.
package numerics

import "math"

// ErfcInv returns the inverse of the complementary error function: +Inf for 0,
// -Inf for 2, NaN outside [0, 2].
//
// From 1/2 on it is Erfinv(1-x), where the difference is exact. Below, equation
// 26.2.23 of Abramowitz and Stegun, "Handbook of mathematical functions", whose
// error is under 4.5e-4, is the start of two of Halley's steps on erfc(y) = x,
// each of which cubes the error.
func ErfcInv(x float64) float64 {
	if !(x > 0 && x < 0.5) {
		if x == 0 {
			return math.Inf(1)
		}
		return math.Erfinv(1 - x)
	}
	t := math.Sqrt(-2 * (math.Log(x) - math.Ln2))
	y := t - (2.515517+t*(0.802853+t*0.010328))/(1+t*(1.432788+t*(0.189269+t*0.001308)))
	y /= math.Sqrt2
	for range 2 {
		step := (math.Erfc(y) - x) / (2 / math.SqrtPi * math.Exp(-y*y))
		y += step / (1 + y*step)
	}
	return y
}

// Lgamma returns the logarithm of the absolute value of the gamma function, +Inf
// for both infinities and at the poles.
func Lgamma(x float64) float64 {
	if math.IsInf(x, -1) {
		return math.Inf(1)
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

// MinimumNaN returns the smaller of x and y, NaN if either is, and x if they
// are equal (so of two zeros the first).
func MinimumNaN(x, y float64) float64 {
	if y < x || y != y {
		return y
	}
	return x
}

// MaximumNaN returns the larger of x and y, NaN if either is, and x if they
// are equal (so of two zeros the first).
func MaximumNaN(x, y float64) float64 {
	if y > x || y != y {
		return y
	}
	return x
}
