package numerics

import (
	"math"
	"math/cmplx"
)

// Where the functions of complex numbers have branch cuts, signed zeros choose
// the side. Infinities and NaN give what annex G of the C standard asks for, as
// NumPy does (it leaves open some signs of a part whose partner is NaN), except
// where a comment says otherwise.

var (
	nan        = math.NaN()
	inf        = math.Inf(1)
	complexNaN = complex(nan, nan)
)

func isFinite(x float64) bool { return x-x == 0 }

// swap exchanges the parts of z. For an odd function f with f(conj z) = conj
// f(z), and so for all of the hyperbolic functions here but cosh, the
// trigonometric counterpart -i f(iz) is swap(f(swap z)).
func swap(z complex128) complex128 { return complex(imag(z), real(z)) }

// withSigns returns |x| + |y|i with the signs of the parts of z.
func withSigns(x, y float64, z complex128) complex128 {
	return complex(math.Copysign(x, real(z)), math.Copysign(y, imag(z)))
}

// AbsComplex returns the modulus of z.
func AbsComplex(z complex128) float64 { return math.Hypot(real(z), imag(z)) }

// SignComplex returns z / |z|, and 0 for zero. An infinite part gives NaN, as
// in torch.sgn.
func SignComplex(z complex128) complex128 {
	if z == 0 {
		return 0
	}
	r := AbsComplex(z)
	return complex(real(z)/r, imag(z)/r)
}

// ReciprocalComplex returns 1 / z, and (Inf, NaN) for zero, as torch does.
func ReciprocalComplex(z complex128) complex128 { return 1 / z }

// RsqrtComplex returns 1 / sqrt(z), and (Inf, NaN) for zero, as torch does.
func RsqrtComplex(z complex128) complex128 { return 1 / SqrtComplex(z) }

// SqrtComplex returns the square root of z with a real part that is not
// negative.
func SqrtComplex(z complex128) complex128 {
	if real(z) != real(z) && !math.IsInf(imag(z), 0) {
		return complexNaN // cmplx.Sqrt keeps an imaginary zero
	}
	return cmplx.Sqrt(z)
}

// SigmoidComplex returns 1 / (1 + exp(-z)). Near the poles, the odd multiples of
// i pi, the sum loses digits, as it does in torch.
func SigmoidComplex(z complex128) complex128 {
	if real(z) < 0 {
		e := ExpComplex(z)
		return e / (1 + e)
	}
	return 1 / (1 + ExpComplex(-z))
}

// timesExp returns exp(x) * factor where exp(x) alone may overflow.
func timesExp(x, factor float64) float64 {
	if x > 709 {
		half := math.Exp(x / 2)
		return half * factor * half
	}
	return math.Exp(x) * factor
}

// ExpComplex returns e to the power z.
func ExpComplex(z complex128) complex128 {
	x, y := real(z), imag(z)
	switch {
	case y == 0:
		return complex(math.Exp(x), y)
	case math.IsInf(x, -1) && !isFinite(y):
		return complex(0, math.Copysign(0, y))
	case math.IsInf(x, 1) && !isFinite(y):
		return complex(x, nan)
	}
	s, c := math.Sincos(y)
	return complex(timesExp(x, c), timesExp(x, s))
}

// LogComplex returns the principal value of the logarithm of z. Near the unit
// circle the real part is log1p(|z|^2 - 1) / 2 with the difference computed in
// twice the precision, since log |z| would lose it.
func LogComplex(z complex128) complex128 {
	return complex(logAbs(z), Atan2(imag(z), real(z)))
}

func logAbs(z complex128) float64 {
	x, y := math.Abs(real(z)), math.Abs(imag(z))
	square := x*x + y*y
	switch {
	case square > 0.5 && square < 2:
		p, q := x*x, y*y
		s, e := twoSum(p, -1)
		s, f := twoSum(s, q)
		return math.Log1p(s+(e+f+math.FMA(x, x, -p)+math.FMA(y, y, -q))) / 2
	case max(x, y) > 0x1p1022 && max(x, y) <= math.MaxFloat64:
		return math.Log(math.Hypot(x/4, y/4)) + 2*math.Ln2
	}
	return Log(math.Hypot(x, y))
}

// twoSum returns the rounded sum and its error (Knuth, "The art of computer
// programming", volume 2, 4.2.2).
func twoSum(a, b float64) (sum, err float64) {
	sum = a + b
	t := sum - a
	return sum, (a - (sum - t)) + (b - t)
}

// PowComplex returns x to the power y, the principal value exp(y log x). Any x
// to the power 0 is 1, as in NumPy (torch: NaN for 0); a power of 0 is 0 if
// the real part of y is positive, (Inf, NaN) if negative, and NaN otherwise.
func PowComplex(x, y complex128) complex128 {
	if y == 0 {
		return 1
	}
	if x == 0 {
		switch {
		case real(y) > 0:
			return 0
		case real(y) < 0:
			return complex(inf, nan)
		}
		return complexNaN
	}
	log := LogComplex(x)
	if imag(y) == 0 {
		r := Pow(AbsComplex(x), real(y))
		angle := real(y) * imag(log)
		if angle == 0 {
			return complex(r, angle)
		}
		s, c := math.Sincos(angle)
		return complex(r*c, r*s)
	}
	return ExpComplex(y * log)
}

// SinhComplex returns the hyperbolic sine of z.
func SinhComplex(z complex128) complex128 {
	x, y := real(z), imag(z)
	switch {
	case y == 0:
		return complex(math.Sinh(x), y)
	case !isFinite(y) && (x == 0 || math.IsInf(x, 0)):
		return complex(x, nan)
	}
	s, c := math.Sincos(y)
	if math.Abs(x) > 709 {
		return complex(math.Copysign(1, x)*timesExp(math.Abs(x), c/2), timesExp(math.Abs(x), s/2))
	}
	return complex(math.Sinh(x)*c, math.Cosh(x)*s)
}

// CoshComplex returns the hyperbolic cosine of z.
func CoshComplex(z complex128) complex128 {
	x, y := real(z), imag(z)
	switch {
	case y == 0:
		return complex(math.Cosh(x), math.Copysign(1, x)*y)
	case !isFinite(y) && x == 0:
		return complex(nan, x)
	case !isFinite(y) && math.IsInf(x, 0):
		return complex(inf, nan)
	}
	s, c := math.Sincos(y)
	if math.Abs(x) > 709 {
		return complex(timesExp(math.Abs(x), c/2), math.Copysign(1, x)*timesExp(math.Abs(x), s/2))
	}
	return complex(math.Cosh(x)*c, math.Sinh(x)*s)
}

// TanhComplex returns the hyperbolic tangent of z.
//
// Source: W. Kahan, "Branch cuts for complex elementary functions", 1987,
// procedure CTANH, which is accurate near the poles too.
func TanhComplex(z complex128) complex128 {
	x, y := real(z), imag(z)
	switch {
	case math.IsInf(x, 0) && !isFinite(y):
		return withSigns(1, 0, z)
	case !isFinite(y) && x == 0:
		return complex(x, nan)
	case x != x && y == 0:
		return z
	case math.Abs(x) > 20:
		// 1 - |tanh x| is below half of the last place.
		s, c := math.Sincos(y)
		return complex(math.Copysign(1, x), 4*s*c*math.Exp(-2*math.Abs(x)))
	}
	t := math.Tan(y)
	beta := 1 + t*t
	s := math.Sinh(x)
	rho := math.Sqrt(1 + s*s)
	d := 1 + beta*s*s
	return complex(beta*rho*s/d, t/d)
}

// SinComplex returns the sine of z.
func SinComplex(z complex128) complex128 { return swap(SinhComplex(swap(z))) }

// CosComplex returns the cosine of z.
func CosComplex(z complex128) complex128 { return CoshComplex(complex(-imag(z), real(z))) }

// TanComplex returns the tangent of z.
func TanComplex(z complex128) complex128 { return swap(TanhComplex(swap(z))) }

// AsinComplex returns the principal value of the inverse sine of z.
func AsinComplex(z complex128) complex128 {
	re, _, im := inverseSine(z)
	return withSigns(re, im, z)
}

// AcosComplex returns the principal value of the inverse cosine of z.
func AcosComplex(z complex128) complex128 {
	_, re, im := inverseSine(z)
	if math.Signbit(real(z)) {
		re = math.Pi - re
	}
	return complex(re, math.Copysign(im, -imag(z)))
}

// AsinhComplex returns the principal value of the inverse hyperbolic sine of z.
func AsinhComplex(z complex128) complex128 { return swap(AsinComplex(swap(z))) }

// AcoshComplex returns the principal value of the inverse hyperbolic cosine of
// z, with a real part that is not negative.
func AcoshComplex(z complex128) complex128 {
	w := AcosComplex(z)
	return complex(math.Abs(imag(w)), math.Copysign(real(w), imag(z)))
}

// AtanComplex returns the principal value of the inverse tangent of z.
func AtanComplex(z complex128) complex128 { return swap(AtanhComplex(swap(z))) }

// AtanhComplex returns the principal value of the inverse hyperbolic tangent
// of z, log((1 + z) / (1 - z)) / 2 taken apart so that nothing cancels or
// overflows.
func AtanhComplex(z complex128) complex128 {
	x, y := math.Abs(real(z)), math.Abs(imag(z))
	var re, im float64
	switch {
	case math.IsInf(y, 0):
		re, im = 0, math.Pi/2
	case math.IsInf(x, 0):
		re, im = 0, math.Pi/2
		if y != y {
			im = nan
		}
	case x != x || y != y:
		re, im = nan, nan
		if x == 0 {
			re = 0
		}
	case x > 0x1p500 || y > 0x1p500:
		r := math.Hypot(x/2, y/2)
		re, im = x/2/r/r/2, math.Pi/2
	case x == 1 && y == 0:
		re, im = inf, 0
	case x == 1 && y < 0x1p-500:
		re, im = (math.Ln2-Log(y))/2, math.Pi/4
	default:
		re = math.Log1p(4*x/((1-x)*(1-x)+y*y)) / 4
		im = math.Atan2(2*y, (1-x)*(1+x)-y*y) / 2
	}
	return withSigns(re, im, z)
}

// inverseSine returns, for x + iy with the absolute values of the parts of z,
// the real part of the inverse sine, that of the inverse cosine, and the
// imaginary part of the former, which is minus that of the latter.
//
// Source: T. Hull, T. Fairgrieve, P. Tang, "Implementing the complex arcsine
// and arccosine functions using exception handling", 1997.
func inverseSine(z complex128) (sine, cosine, im float64) {
	x, y := math.Abs(real(z)), math.Abs(imag(z))
	switch {
	case x != x || y != y:
		return inverseSineNaN(x, y)
	case math.IsInf(x, 0) || math.IsInf(y, 0):
		return math.Atan2(x, y), math.Atan2(y, x), inf
	}
	const tiny, huge = 0x1p-509, 0x1p509
	if x < tiny || y < tiny || x > huge || y > huge {
		return inverseSineExtreme(x, y, tiny)
	}
	const crossover = 0.6417
	r, s := math.Hypot(x+1, y), math.Hypot(x-1, y)
	a := (r + s) / 2
	p := y * y / (r + x + 1) // r - (x + 1) without cancellation
	if b := x / a; b <= crossover {
		sine, cosine = math.Asin(b), math.Acos(b)
	} else {
		var d float64 // sqrt(a*a - x*x)
		if x <= 1 {
			d = math.Sqrt((a + x) / 2 * (p + (s + (1 - x))))
		} else {
			d = y * math.Sqrt((a+x)/2*(1/(r+x+1)+1/(s+(x-1))))
		}
		sine, cosine = math.Atan2(x, d), math.Atan2(d, x)
	}
	if a > 1.5 {
		return sine, cosine, math.Log(a + math.Sqrt(a*a-1))
	}
	var q float64 // s - |1 - x| or s + |1 - x|: 2(a - 1) is p + q
	if x < 1 {
		q = y * y / (s + (1 - x))
	} else {
		q = s + (x - 1)
	}
	m := (p + q) / 2
	return sine, cosine, math.Log1p(m + math.Sqrt(m*(a+1)))
}

func inverseSineNaN(x, y float64) (sine, cosine, im float64) {
	switch {
	case math.IsInf(x, 0) || math.IsInf(y, 0):
		return nan, nan, inf
	case x == 0:
		return 0, math.Pi / 2, nan
	}
	return nan, nan, nan
}

// inverseSineExtreme is inverseSine where squares of x or y would underflow or
// overflow: there the first term of a series is exact to the last place.
func inverseSineExtreme(x, y, tiny float64) (sine, cosine, im float64) {
	const epsilon = 0x1p-53
	switch {
	case y < epsilon*math.Abs(x-1) && x < 1:
		return Asin(x), Acos(x), y / math.Sqrt((1-x)*(1+x))
	case y < epsilon*math.Abs(x-1):
		im = math.Log(x) + math.Ln2
		if x < 0x1p500 {
			im = math.Log1p((x - 1) + math.Sqrt((x-1)*(x+1)))
		}
		return math.Pi / 2, y / math.Sqrt(x-1) / math.Sqrt(x+1), im
	case y < tiny: // x is 1
		root := math.Sqrt(y)
		return math.Pi / 2, root, root
	case epsilon*y-1 >= x:
		return x / y, math.Pi / 2, math.Ln2 + math.Log(y)
	case x > 1:
		return math.Atan(x / y), math.Atan(y / x), math.Ln2 + math.Log(y) + math.Log1p((x/y)*(x/y))/2
	}
	a := math.Sqrt(1 + y*y)
	return x / a, math.Pi / 2, math.Log1p(2*y*(y+a)) / 2
}
