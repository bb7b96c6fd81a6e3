// Complex numbers. The functions of ComplexFloat are computed in double
// precision, so that nothing overflows on the way, and rounded once.

//@ complexAs needs Complex
template <class To, class From>
__device__ inline Complex<To> complexAs(Complex<From> z) {
  return {(To)z.re, (To)z.im};
}

//@ makeComplex needs Complex
template <class T>
__device__ inline Complex<T> makeComplex(T re, T im) {
  return {re, im};
}

//@ complex.operators needs Complex
template <class T>
__device__ inline Complex<T> operator+(Complex<T> a, Complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
__device__ inline Complex<T> operator-(Complex<T> a, Complex<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class T>
__device__ inline Complex<T> operator-(Complex<T> a) {
  return {-a.re, -a.im};
}
template <class T>
__device__ inline Complex<T> operator*(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T>
__device__ inline bool operator==(Complex<T> a, Complex<T> b) {
  return a.re == b.re && a.im == b.im;
}
template <class T>
__device__ inline bool operator!=(Complex<T> a, Complex<T> b) {
  return !(a == b);
}

//@ complex.divide needs complex.operators complexAs
__device__ inline double oneIfInfinite(double x) {
  return copysign(isinf(x) ? 1.0 : 0.0, x);
}

// Where both parts come out as NaN, infinities and zeros are recovered as annex
// G of the C standard asks for (R. Smith, "Algorithm 116: Complex division",
// 1962, for the rest).
__device__ inline Complex<double> complexDivide(Complex<double> n, Complex<double> m) {
  Complex<double> q;
  if (fabs(m.re) >= fabs(m.im)) {
    const double ratio = m.im / m.re, scale = m.re + ratio * m.im;
    q = {(n.re + n.im * ratio) / scale, (n.im - n.re * ratio) / scale};
  } else {
    const double ratio = m.re / m.im, scale = m.im + ratio * m.re;
    q = {(n.re * ratio + n.im) / scale, (n.im * ratio - n.re) / scale};
  }
  if (!isnan(q.re) || !isnan(q.im)) return q;
  const double inf = __longlong_as_double(0x7ffll << 52);
  if (m.re == 0 && m.im == 0 && (!isnan(n.re) || !isnan(n.im)))
    return {copysign(inf, m.re) * n.re, copysign(inf, m.re) * n.im};
  if ((isinf(n.re) || isinf(n.im)) && isfinite(m.re) && isfinite(m.im)) {
    const double a = oneIfInfinite(n.re), b = oneIfInfinite(n.im);
    return {inf * (a * m.re + b * m.im), inf * (b * m.re - a * m.im)};
  }
  if ((isinf(m.re) || isinf(m.im)) && isfinite(n.re) && isfinite(n.im)) {
    const double c = oneIfInfinite(m.re), d = oneIfInfinite(m.im);
    return {0 * (n.re * c + n.im * d), 0 * (n.im * c - n.re * d)};
  }
  return q;
}

template <class T>
__device__ inline Complex<T> operator/(Complex<T> a, Complex<T> b) {
  return complexAs<T>(complexDivide(complexAs<double>(a), complexAs<double>(b)));
}

//@ complex.reciprocal needs complex.divide
template <class T>
__device__ inline Complex<T> reciprocal(Complex<T> z) {
  return Complex<T>{1, 0} / z;
}

//@ complex.real needs Complex
template <class T>
__device__ inline T real(Complex<T> z) {
  return z.re;
}

//@ complex.imag needs Complex
template <class T>
__device__ inline T imag(Complex<T> z) {
  return z.im;
}

//@ complex.abs needs Complex
template <class T>
__device__ inline T abs(Complex<T> z) {
  return (T)hypot((double)z.re, (double)z.im);
}

//@ complex.isfinite needs Complex
template <class T>
__device__ inline bool isfinite(Complex<T> z) {
  return isfinite(z.re) && isfinite(z.im);
}

//@ complex.isinf needs Complex
template <class T>
__device__ inline bool isinf(Complex<T> z) {
  return isinf(z.re) || isinf(z.im);
}

//@ complex.isnan needs Complex
template <class T>
__device__ inline bool isnan(Complex<T> z) {
  return isnan(z.re) || isnan(z.im);
}

//@ complex.sign needs Complex
// z / |z|, and 0 for 0.
template <class T>
__device__ inline Complex<T> sign(Complex<T> z) {
  if (z.re == 0 && z.im == 0) return {0, 0};
  const double r = hypot((double)z.re, (double)z.im);
  return {T(z.re / r), T(z.im / r)};
}

//@ complex.lerp needs complex.operators complex.abs complexAs
template <class T>
__device__ inline Complex<T> lerp(Complex<T> start, Complex<T> end, Complex<T> weight) {
  const Complex<double> s = complexAs<double>(start), e = complexAs<double>(end), w = complexAs<double>(weight);
  return complexAs<T>(abs(w) < 0.5 ? s + w * (e - s) : e - (e - s) * (Complex<double>{1, 0} - w));
}
