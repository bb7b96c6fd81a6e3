// Functions of real numbers that CUDA has not, or has with another meaning.

//@ minimum
// The smaller one, of zeros a negative one, and NaN if either is.
template <class T>
__device__ inline T minimum(T x, T y) {
  return x == 0 && y == 0 ? -(-x - y) : y < x || y != y ? y : x;
}

__device__ inline float minimum(float x, float y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float z;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
#else
  return x == 0 && y == 0 ? -(-x - y) : y < x || y != y ? y : x;
#endif
}

//@ maximum
// The larger one, of zeros a positive one, and NaN if either is.
template <class T>
__device__ inline T maximum(T x, T y) {
  return x == 0 && y == 0 ? x + y : y > x || y != y ? y : x;
}

__device__ inline float maximum(float x, float y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
#else
  return x == 0 && y == 0 ? x + y : y > x || y != y ? y : x;
#endif
}

//@ orderOf
// An integer that is greater where x is. Zeros have one, and so have NaNs, above all others.
__device__ inline int orderOf(float x) {
  const int code = int(__float_as_uint(x));
  return x != x ? 0x7fffffff : x == 0 ? 0 : code < 0 ? code ^ 0x7fffffff : code;
}

__device__ inline long long orderOf(double x) {
  const long long code = __double_as_longlong(x);
  return x != x ? 0x7fffffffffffffffll : x == 0 ? 0 : code < 0 ? code ^ 0x7fffffffffffffffll : code;
}

__device__ inline int orderOf(bool x) {
  return x;
}

__device__ inline int orderOf(int x) {
  return x;
}

__device__ inline long long orderOf(long long x) {
  return x;
}

__device__ inline long long orderOf(unsigned long long x) {
  return (long long)(x ^ (1ull << 63));
}

//@ real.floorMod
// The remainder of x / y rounded down, which has the sign of y.
__device__ inline float floorMod(float x, float y) {
  const float r = fmodf(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

__device__ inline double floorMod(double x, double y) {
  const double r = fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

//@ lerp
// start + weight * (end - start) from the nearer end: exact at both.
template <class T>
__device__ inline T lerp(T start, T end, T weight) {
  return fabs(weight) < T(0.5) ? start + weight * (end - start) : end - (end - start) * (1 - weight);
}

//@ reciprocalAbove1
// 1 / x for x from 1/2 on, to a unit of the last place; 0 from 2^126 on. It is one
// instruction, where a division takes ten.
__device__ inline float reciprocalAbove1(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return x > 0x1p126f ? 0 : 1 / x;
#endif
}

//@ normalExp2
// 2^x to two units of the last place, and 0 where that is below the normal numbers:
// one instruction.
__device__ inline float normalExp2(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

//@ sigmoid needs reciprocalAbove1
// Of -|x|, so that no number on the way is larger than 2 and results below the
// normal numbers are products: reciprocalAbove1 makes none.
__device__ inline float sigmoid(float x) {
  const float e = expf(-fabsf(x));
  return (x < 0 ? e : 1.0f) * reciprocalAbove1(1.0f + e);
}

__device__ inline double sigmoid(double x) {
  const double e = exp(-fabs(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}

//@ erfPlusOne needs reciprocalAbove1 normalExp2
// 1 + erf(x), within 4e-7 and a part in 400,000 of itself where it is small. For
// negative x it is the product of exp(-x^2) and a function that a polynomial in
// 1 / (1 + 0.48 |x|), fitted for |x| up to 9.3, is near to (relative error 8e-7,
// of what is not small 4e-8); for the others 2 less that of -x.
__device__ inline float erfPlusOne(float x) {
  const float t = reciprocalAbove1(fmaf(0.48f, fabsf(x), 1.0f));
  float p = 0.094173924f;
  p = fmaf(p, t, -0.42386248f);
  p = fmaf(p, t, 0.5751562f);
  p = fmaf(p, t, -0.1086934f);
  p = fmaf(p, t, 0.34023523f);
  p = fmaf(p, t, 0.24994198f);
  p = fmaf(p, t, 0.2731586f);
  p = fmaf(p, t, -0.00010999768f);
  const float e = normalExp2(x * -1.442695f * x);
  return x < 0 ? p * e : 2.0f - p * e;
}

//@ approximateErfPlusOne needs reciprocalAbove1 normalExp2
// erfPlusOne with a relative error of at most 2^-15.5: of the polynomial 2^-15.9, of
// the exponent, where it is large, as much as 2^-17.6. What is below the normal numbers
// is 0.
__device__ inline float approximateErfPlusOne(float x) {
  const float t = reciprocalAbove1(fmaf(0.5f, fabsf(x), 1.0f));
  float p = -0.19807172f;
  p = fmaf(p, t, 0.5451431f);
  p = fmaf(p, t, 0.034598943f);
  p = fmaf(p, t, 0.3450257f);
  p = fmaf(p, t, 0.27277824f);
  p = fmaf(p, t, 0.00054177403f);
  const float y = p * normalExp2(x * -1.442695f * x);
  return x < 0 ? y : 2.0f - y;
}

//@ approximateTanhPlusOne needs reciprocalAbove1 normalExp2
// 2 / (1 + exp(-2x)) with a relative error of at most 2^-17 + 2^-21. What is below
// the normal numbers is 0.
__device__ inline float approximateTanhPlusOne(float x) {
  return reciprocalAbove1(fmaf(0.5f, normalExp2(-2.88539f * x), 0.5f));
}

//@ approximateExp2 needs normalExp2
// The square of 2^x. Where it is below the normal numbers, 2^x is not, so that the
// instruction, which knows normal numbers alone, will do.
__device__ inline float squareOfExp2(float x) {
  const float y = normalExp2(x);
  return y * y;
}

// 2^x with a relative error of at most 2^-20.
__device__ inline float approximateExp2(float x) {
  return squareOfExp2(0.5f * x);
}

//@ approximateExp needs approximateExp2
// e^x with a relative error of at most 2^-17.
__device__ inline float approximateExp(float x) {
  return squareOfExp2(0.72134752f * x);
}

//@ approximateSigmoid needs approximateExp reciprocalAbove1
__device__ inline float approximateSigmoid(float x) {
  const float e = approximateExp(-fabsf(x));
  return (x < 0 ? e : 1.0f) * reciprocalAbove1(1.0f + e);
}

//@ approximateDivide
// x / y with a relative error of at most 2^-21. Both are scaled where 1 / y would be
// no normal number. What depends on y alone is computed once where y is the same in a
// loop: then a division is two multiplications.
__device__ inline float approximateDivide(float x, float y) {
  const float size = fabsf(y);
  const float scale = size < 0x1p-126f ? 0x1p24f : size > 0x1p125f ? 0x1p-24f : 1.0f;
#ifdef __CUDA_ARCH__
  const float r = __fdividef(1.0f, y * scale);
#else
  const float r = 1.0f / (y * scale);
#endif
  return x * scale * r;
}

//@ approximateReciprocal
__device__ inline float approximateReciprocal(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1 / x;
#endif
}

//@ approximateSqrt
__device__ inline float approximateSqrt(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return sqrtf(x);
#endif
}

//@ sign
// -1, 0 or 1, and 0 for NaN.
template <class T>
__device__ inline T sign(T x) {
  return T((x > 0) - (x < 0));
}

//@ expNegative needs normalExp2
// exp(x) for an x that is not positive, with an error of at most 2^-23; 0 below -87.3.
__device__ inline float expNegative(float x) {
  return normalExp2(1.44269504f * x);
}

//@ expShare
// exp(x) / y for an x that is not positive and a y from 1 to 2^40, whose reciprocal is
// computed once where y is the same in a loop.
__device__ inline float expShare(float x, float y) {
  return expf(x) * (1.0f / y);
}

//@ approximateExpShare needs normalExp2
// exp(x) / y for an x that is not positive and a y from 1 to 2^40, with a relative error
// of at most 2^-17. The exponential is scaled, as the instruction knows normal
// numbers alone: what is below 2^-150 is 0.
__device__ inline float approximateExpShare(float x, float y) {
#ifdef __CUDA_ARCH__
  const float r = __fdividef(0x1p-24f, y);
#else
  const float r = 0x1p-24f / y;
#endif
  return normalExp2(fmaf(x, 1.44269504f, 24.0f)) * r;
}
