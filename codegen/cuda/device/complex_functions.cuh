// Exponentials, logarithms and trigonometry of complex numbers. Signed zeros
// choose the side of a branch cut; infinities and NaN give what annex G of the C
// standard asks for. The methods, and their sources, are those of package
// numerics.

//@ complex.swapped needs Complex
// The parts exchanged. Of an odd function f with f(conj z) = conj f(z), the
// trigonometric counterpart -i f(iz) is swapped(f(swapped(z))).
__device__ inline Complex<double> swapped(Complex<double> z) {
  return {z.im, z.re};
}

// The magnitudes x and y with the signs of the parts of z.
__device__ inline Complex<double> withSigns(double x, double y, Complex<double> z) {
  return {copysign(x, z.re), copysign(y, z.im)};
}

//@ special
__device__ inline double infinity() {
  return __longlong_as_double(0x7ffll << 52);
}

__device__ inline double notANumber() {
  return __longlong_as_double(0x7ff8ll << 48);
}

//@ timesExp
// exp(x) * factor where exp(x) alone may overflow.
__device__ inline double timesExp(double x, double factor) {
  if (!(x > 709)) return exp(x) * factor;
  const double half = exp(x / 2);
  return half * factor * half;
}

//@ complex.exp needs complexAs timesExp special
__device__ inline Complex<double> complexExp(Complex<double> z) {
  if (z.im == 0) return {exp(z.re), z.im};
  if (isinf(z.re) && !isfinite(z.im)) {
    if (z.re < 0) return {0, copysign(0.0, z.im)};
    return {z.re, notANumber()};
  }
  double s, c;
  sincos(z.im, &s, &c);
  return {timesExp(z.re, c), timesExp(z.re, s)};
}

template <class T>
__device__ inline Complex<T> exp(Complex<T> z) {
  return complexAs<T>(complexExp(complexAs<double>(z)));
}

//@ complex.exp2 needs complex.exp
template <class T>
__device__ inline Complex<T> exp2(Complex<T> z) {
  const Complex<double> w = complexAs<double>(z);
  if (w.im == 0) return complexAs<T>(Complex<double>{exp2(w.re), w.im});
  const double ln2 = 0x1.62e42fefa39efp-1;
  return complexAs<T>(complexExp({w.re * ln2, w.im * ln2}));
}

//@ complex.expm1 needs complex.exp
__device__ inline Complex<double> complexExpm1(Complex<double> z) {
  if (z.im == 0) return {expm1(z.re), z.im};
  if (!isfinite(z.re) || !isfinite(z.im) || z.re > 700) {
    const Complex<double> e = complexExp(z);
    return {e.re - 1, e.im};
  }
  const double s = sin(z.im / 2);
  return {expm1(z.re) * cos(z.im) - 2 * s * s, exp(z.re) * sin(z.im)};
}

template <class T>
__device__ inline Complex<T> expm1(Complex<T> z) {
  return complexAs<T>(complexExpm1(complexAs<double>(z)));
}

//@ twoSum
// The rounded sum and its error (D. Knuth, "The art of computer programming",
// volume 2, 4.2.2).
__device__ inline double twoSum(double a, double b, double* error) {
  const double sum = a + b, t = sum - a;
  *error += (a - (sum - t)) + (b - t);
  return sum;
}

//@ complex.log needs complexAs twoSum
// log |z|; near the unit circle by the difference |z|^2 - 1 in twice the
// precision.
__device__ inline double logAbs(Complex<double> z) {
  const double x = fabs(z.re), y = fabs(z.im), square = x * x + y * y;
  if (square > 0.5 && square < 2) {
    const double p = __dmul_rn(x, x), q = __dmul_rn(y, y);
    double error = fma(x, x, -p) + fma(y, y, -q);
    const double s = twoSum(twoSum(p, -1, &error), q, &error);
    return log1p(s + error) / 2;
  }
  const double most = x > y ? x : y;
  if (most > 0x1p1022 && isfinite(most)) return log(hypot(x / 4, y / 4)) + 0x1.62e42fefa39efp+0;
  return log(hypot(x, y));
}

__device__ inline Complex<double> complexLog(Complex<double> z) {
  return {logAbs(z), atan2(z.im, z.re)};
}

template <class T>
__device__ inline Complex<T> log(Complex<T> z) {
  return complexAs<T>(complexLog(complexAs<double>(z)));
}

//@ complex.log2 needs complex.log
template <class T>
__device__ inline Complex<T> log2(Complex<T> z) {
  const Complex<double> w = complexLog(complexAs<double>(z));
  return complexAs<T>(Complex<double>{w.re * 0x1.71547652b82fep+0, w.im * 0x1.71547652b82fep+0});
}

//@ complex.log10 needs complex.log
template <class T>
__device__ inline Complex<T> log10(Complex<T> z) {
  const Complex<double> w = complexLog(complexAs<double>(z));
  return complexAs<T>(Complex<double>{w.re * 0x1.bcb7b1526e50ep-2, w.im * 0x1.bcb7b1526e50ep-2});
}

//@ complex.log1p needs complex.log
__device__ inline Complex<double> complexLog1p(Complex<double> z) {
  const double x = z.re, y = z.im;
  if (!(fabs(x) < 0.5 && fabs(y) < 1)) return complexLog({1 + x, y});
  const double p = __dmul_rn(x, x), q = __dmul_rn(y, y);
  double error = fma(x, x, -p) + fma(y, y, -q);
  const double s = twoSum(twoSum(2 * x, p, &error), q, &error);
  return {log1p(s + error) / 2, atan2(y, 1 + x)};
}

template <class T>
__device__ inline Complex<T> log1p(Complex<T> z) {
  return complexAs<T>(complexLog1p(complexAs<double>(z)));
}

//@ complex.pow needs complex.exp complex.log complex.operators
// The principal value exp(y log x). Any x to the power 0 is 1; a power of 0 is
// 0, (inf, NaN) or NaN, by the sign of the real part of y.
__device__ inline Complex<double> complexPow(Complex<double> x, Complex<double> y) {
  if (y.re == 0 && y.im == 0) return {1, 0};
  if (x.re == 0 && x.im == 0) {
    if (y.re > 0) return {0, 0};
    return {y.re < 0 ? infinity() : notANumber(), notANumber()};
  }
  const Complex<double> l = complexLog(x);
  if (y.im != 0) return complexExp(y * l);
  const double r = pow(hypot(x.re, x.im), y.re), angle = y.re * l.im;
  if (angle == 0) return {r, angle};
  double s, c;
  sincos(angle, &s, &c);
  return {r * c, r * s};
}

template <class T>
__device__ inline Complex<T> pow(Complex<T> x, Complex<T> y) {
  return complexAs<T>(complexPow(complexAs<double>(x), complexAs<double>(y)));
}

//@ complex.sqrt needs complexAs special
// The root with a real part that is not negative. Numbers whose squares would
// overflow or underflow are scaled.
__device__ inline Complex<double> complexSqrt(Complex<double> z) {
  if (isinf(z.im)) return {infinity(), z.im};
  if (isnan(z.re)) return {notANumber(), notANumber()};
  if (isinf(z.re)) {
    const double other = isnan(z.im) ? z.im : 0.0;
    if (z.re > 0) return {z.re, copysign(other, z.im)};
    return {other, copysign(infinity(), z.im)};
  }
  if (isnan(z.im)) return {z.im, z.im};
  if (z.re == 0 && z.im == 0) return {0, z.im};
  const double most = fmax(fabs(z.re), fabs(z.im));
  double scale = 1, root = 1;
  if (most > 0x1p1000) {
    scale = 0x1p-54;
    root = 0x1p27;
  } else if (most < 0x1p-900) {
    scale = 0x1p108;
    root = 0x1p-54;
  }
  const double x = fabs(z.re) * scale, y = z.im * scale, t = sqrt((x + hypot(x, y)) / 2);
  if (z.re >= 0) return {t * root, y / (2 * t) * root};
  return {fabs(y) / (2 * t) * root, copysign(t * root, z.im)};
}

template <class T>
__device__ inline Complex<T> sqrt(Complex<T> z) {
  return complexAs<T>(complexSqrt(complexAs<double>(z)));
}

//@ complex.rsqrt needs complex.sqrt complex.divide
template <class T>
__device__ inline Complex<T> rsqrt(Complex<T> z) {
  return complexAs<T>(complexDivide({1, 0}, complexSqrt(complexAs<double>(z))));
}

//@ complex.sigmoid needs complex.exp complex.divide
__device__ inline Complex<double> complexSigmoid(Complex<double> z) {
  if (z.re < 0) {
    const Complex<double> e = complexExp(z);
    return complexDivide(e, {1 + e.re, e.im});
  }
  const Complex<double> e = complexExp({-z.re, -z.im});
  return complexDivide({1, 0}, {1 + e.re, e.im});
}

template <class T>
__device__ inline Complex<T> sigmoid(Complex<T> z) {
  return complexAs<T>(complexSigmoid(complexAs<double>(z)));
}

//@ complex.sinh needs complexAs timesExp special
__device__ inline Complex<double> complexSinh(Complex<double> z) {
  const double x = z.re, y = z.im;
  if (y == 0) return {sinh(x), y};
  if (!isfinite(y) && (x == 0 || isinf(x))) return {x, notANumber()};
  double s, c;
  sincos(y, &s, &c);
  if (fabs(x) > 709) return {copysign(1.0, x) * timesExp(fabs(x), c / 2), timesExp(fabs(x), s / 2)};
  return {sinh(x) * c, cosh(x) * s};
}

template <class T>
__device__ inline Complex<T> sinh(Complex<T> z) {
  return complexAs<T>(complexSinh(complexAs<double>(z)));
}

//@ complex.cosh needs complexAs timesExp special
__device__ inline Complex<double> complexCosh(Complex<double> z) {
  const double x = z.re, y = z.im;
  if (y == 0) return {cosh(x), copysign(1.0, x) * y};
  if (!isfinite(y) && x == 0) return {notANumber(), x};
  if (!isfinite(y) && isinf(x)) return {infinity(), notANumber()};
  double s, c;
  sincos(y, &s, &c);
  if (fabs(x) > 709) return {timesExp(fabs(x), c / 2), copysign(1.0, x) * timesExp(fabs(x), s / 2)};
  return {cosh(x) * c, sinh(x) * s};
}

template <class T>
__device__ inline Complex<T> cosh(Complex<T> z) {
  return complexAs<T>(complexCosh(complexAs<double>(z)));
}

//@ complex.tanh needs complexAs complex.swapped special
// W. Kahan, "Branch cuts for complex elementary functions", 1987.
__device__ inline Complex<double> complexTanh(Complex<double> z) {
  const double x = z.re, y = z.im;
  if (isinf(x) && !isfinite(y)) return withSigns(1, 0, z);
  if (!isfinite(y) && x == 0) return {x, notANumber()};
  if (isnan(x) && y == 0) return z;
  if (fabs(x) > 20) {  // 1 - |tanh x| is below half of the last place
    double s, c;
    sincos(y, &s, &c);
    return {copysign(1.0, x), 4 * s * c * exp(-2 * fabs(x))};
  }
  const double t = tan(y), beta = 1 + t * t, s = sinh(x), rho = sqrt(1 + s * s), d = 1 + beta * s * s;
  return {beta * rho * s / d, t / d};
}

template <class T>
__device__ inline Complex<T> tanh(Complex<T> z) {
  return complexAs<T>(complexTanh(complexAs<double>(z)));
}

//@ complex.sin needs complex.sinh complex.swapped
template <class T>
__device__ inline Complex<T> sin(Complex<T> z) {
  return complexAs<T>(swapped(complexSinh(swapped(complexAs<double>(z)))));
}

//@ complex.cos needs complex.cosh
template <class T>
__device__ inline Complex<T> cos(Complex<T> z) {
  return complexAs<T>(complexCosh({-(double)z.im, (double)z.re}));
}

//@ complex.tan needs complex.tanh complex.swapped
template <class T>
__device__ inline Complex<T> tan(Complex<T> z) {
  return complexAs<T>(swapped(complexTanh(swapped(complexAs<double>(z)))));
}

//@ complex.inverseSine needs special
struct InverseSine {
  double sine, cosine, im;
};

// inverseSine where squares of x or y would underflow or overflow: the first
// term of a series is exact to the last place.
__device__ inline InverseSine inverseSineExtreme(double x, double y, double tiny) {
  const double epsilon = 0x1p-53, ln2 = 0x1.62e42fefa39efp-1, halfPi = 0x1.921fb54442d18p+0;
  if (y < epsilon * fabs(x - 1) && x < 1) return {asin(x), acos(x), y / sqrt((1 - x) * (1 + x))};
  if (y < epsilon * fabs(x - 1)) {
    const double im = x < 0x1p500 ? log1p((x - 1) + sqrt((x - 1) * (x + 1))) : log(x) + ln2;
    return {halfPi, y / sqrt(x - 1) / sqrt(x + 1), im};
  }
  if (y < tiny) return {halfPi, sqrt(y), sqrt(y)};  // x is 1
  if (epsilon * y - 1 >= x) return {x / y, halfPi, ln2 + log(y)};
  if (x > 1) return {atan(x / y), atan(y / x), ln2 + log(y) + log1p((x / y) * (x / y)) / 2};
  const double a = sqrt(1 + y * y);
  return {x / a, halfPi, log1p(2 * y * (y + a)) / 2};
}

// For z in the first quadrant, the real part of the inverse sine, that of the
// inverse cosine, and the imaginary part of the former, which is minus that of
// the latter (T. Hull, T. Fairgrieve, P. Tang, "Implementing the complex arcsine
// and arccosine functions using exception handling", 1997).
__device__ inline InverseSine inverseSine(double x, double y) {
  const double tiny = 0x1p-509, huge = 0x1p509, crossover = 0.6417;
  if (isnan(x) || isnan(y)) {
    if (isinf(x) || isinf(y)) return {notANumber(), notANumber(), infinity()};
    if (x == 0) return {0, 0x1.921fb54442d18p+0, notANumber()};
    return {notANumber(), notANumber(), notANumber()};
  }
  if (isinf(x) || isinf(y)) return {atan2(x, y), atan2(y, x), infinity()};
  if (x < tiny || y < tiny || x > huge || y > huge) return inverseSineExtreme(x, y, tiny);
  const double r = hypot(x + 1, y), s = hypot(x - 1, y), a = (r + s) / 2;
  const double p = y * y / (r + x + 1);  // r - (x + 1) without cancellation
  InverseSine w;
  if (x / a <= crossover) {
    w = {asin(x / a), acos(x / a), 0};
  } else {
    // sqrt(a * a - x * x)
    const double d = x <= 1 ? sqrt((a + x) / 2 * (p + (s + (1 - x)))) : y * sqrt((a + x) / 2 * (1 / (r + x + 1) + 1 / (s + (x - 1))));
    w = {atan2(x, d), atan2(d, x), 0};
  }
  if (a > 1.5) {
    w.im = log(a + sqrt(a * a - 1));
    return w;
  }
  const double q = x < 1 ? y * y / (s + (1 - x)) : s + (x - 1);
  const double m = (p + q) / 2;  // a - 1
  w.im = log1p(m + sqrt(m * (a + 1)));
  return w;
}

//@ complex.asin needs complex.inverseSine complex.swapped complexAs
__device__ inline Complex<double> complexAsin(Complex<double> z) {
  const InverseSine w = inverseSine(fabs(z.re), fabs(z.im));
  return withSigns(w.sine, w.im, z);
}

template <class T>
__device__ inline Complex<T> asin(Complex<T> z) {
  return complexAs<T>(complexAsin(complexAs<double>(z)));
}

//@ complex.acos needs complex.inverseSine complexAs
__device__ inline Complex<double> complexAcos(Complex<double> z) {
  const InverseSine w = inverseSine(fabs(z.re), fabs(z.im));
  const double re = signbit(z.re) ? 0x1.921fb54442d18p+1 - w.cosine : w.cosine;
  return {re, copysign(w.im, -z.im)};
}

template <class T>
__device__ inline Complex<T> acos(Complex<T> z) {
  return complexAs<T>(complexAcos(complexAs<double>(z)));
}

//@ complex.asinh needs complex.asin
template <class T>
__device__ inline Complex<T> asinh(Complex<T> z) {
  return complexAs<T>(swapped(complexAsin(swapped(complexAs<double>(z)))));
}

//@ complex.acosh needs complex.acos
template <class T>
__device__ inline Complex<T> acosh(Complex<T> z) {
  const Complex<double> w = complexAcos(complexAs<double>(z));
  return complexAs<T>(Complex<double>{fabs(w.im), copysign(w.re, (double)z.im)});
}

//@ complex.atanh needs complexAs complex.swapped special
// log((1 + z) / (1 - z)) / 2 taken apart so that nothing cancels or overflows.
__device__ inline Complex<double> complexAtanh(Complex<double> z) {
  const double x = fabs(z.re), y = fabs(z.im), halfPi = 0x1.921fb54442d18p+0;
  double re, im;
  if (isinf(x) || isinf(y)) {
    re = 0;
    im = !isinf(y) && isnan(y) ? y : halfPi;
  } else if (isnan(x) || isnan(y)) {
    re = x == 0 ? 0 : notANumber();
    im = notANumber();
  } else if (x > 0x1p500 || y > 0x1p500) {
    const double r = hypot(x / 2, y / 2);
    re = x / 2 / r / r / 2;
    im = halfPi;
  } else if (x == 1 && y == 0) {
    re = infinity();
    im = 0;
  } else if (x == 1 && y < 0x1p-500) {
    re = (0x1.62e42fefa39efp-1 - log(y)) / 2;
    im = halfPi / 2;
  } else {
    re = log1p(4 * x / ((1 - x) * (1 - x) + y * y)) / 4;
    im = atan2(2 * y, (1 - x) * (1 + x) - y * y) / 2;
  }
  return withSigns(re, im, z);
}

template <class T>
__device__ inline Complex<T> atanh(Complex<T> z) {
  return complexAs<T>(complexAtanh(complexAs<double>(z)));
}

//@ complex.atan needs complex.atanh
template <class T>
__device__ inline Complex<T> atan(Complex<T> z) {
  return complexAs<T>(swapped(complexAtanh(swapped(complexAs<double>(z)))));
}
