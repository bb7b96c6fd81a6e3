// Conversions between the narrow floating types and float. Narrowing rounds to
// the nearest value, ties to the one with an even mantissa.

//@ Half.toFloat needs Half
__device__ inline float toFloat(Half h) {
#ifdef __CUDA_ARCH__
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h.code));
  return x;
#else
  const unsigned sign = (h.code & 0x8000u) << 16, a = h.code & 0x7fffu;
  if (a >= 0x7c00) return __uint_as_float(sign | 0x7f800000 | a << 13);
  if (a >= 0x0400) return __uint_as_float(sign | ((a << 13) + (112u << 23)));
  return __uint_as_float(sign | __float_as_uint(float(a) * 0x1p-24f));
#endif
}

//@ BFloat16.toFloat needs BFloat16
__device__ inline float toFloat(BFloat16 b) {
  return __uint_as_float(unsigned(b.code) << 16);
}

//@ BFloat16.inWords needs BFloat16
// Element i of an array in registers that vectors fill: from the word that has it,
// as taking half a word apart is an instruction more.
__device__ inline float toFloat(const BFloat16* p, int i) {
  const unsigned word = *(const unsigned*)(p + (i & ~1));
  return __uint_as_float(i & 1 ? word & 0xffff0000u : word << 16);
}

//@ Float8E4M3.toFloat needs Float8E4M3
// Shifted left by 20, the code is that of a float whose exponent is 120 too
// low; the product makes up for it, in subnormal numbers too.
__device__ inline float toFloat(Float8E4M3 c) {
  const unsigned sign = (c.code & 0x80u) << 24, a = c.code & 0x7fu;
  if (a == 0x7f) return __uint_as_float(sign | 0x7fc00000);
  const float x = a < 0x08 ? float(a) * 0x1p-9f : __uint_as_float((a << 20) + (120u << 23));
  return __uint_as_float(sign | __float_as_uint(x));
}

//@ Float8E5M2.toFloat needs Float8E5M2 Half Half.toFloat
// The upper half of a Half.
__device__ inline float toFloat(Float8E5M2 c) {
  return toFloat(Half{(unsigned short)(c.code << 8)});
}

//@ Float8E8M0.toFloat needs Float8E8M0
__device__ inline float toFloat(Float8E8M0 c) {
  if (c.code == 0xff) return __uint_as_float(0x7fc00000);
  return __uint_as_float(c.code == 0 ? 0x00400000 : unsigned(c.code) << 23);
}

//@ narrowed
// The code of the magnitude with the float code a, which is finite and does not
// round past the largest number. Shift mantissa bits go; minNormal is the float
// code of the smallest normal number, magic that of the power of two whose last
// place is the smallest subnormal one.
template <int Shift>
__device__ inline unsigned narrowed(unsigned a, unsigned minNormal, unsigned magic) {
  if (a < minNormal) return __float_as_uint(__uint_as_float(a) + __uint_as_float(magic)) - magic;
  const unsigned rebias = minNormal - (1u << 23);
  return (a - rebias + (1u << (Shift - 1)) - 1 + (a >> Shift & 1)) >> Shift;
}

//@ toHalf needs Half narrowed
__device__ inline Half toHalf(float x) {
#ifdef __CUDA_ARCH__
  Half h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.code) : "f"(x));
  return h;
#else
  const unsigned sign = __float_as_uint(x) >> 16 & 0x8000, a = __float_as_uint(x) & 0x7fffffff;
  unsigned code = a > 0x7f800000 ? 0x7e00 : 0x7c00;
  if (a < 0x477ff000) code = narrowed<13>(a, 0x38800000, 0x3f000000);
  return {(unsigned short)(sign | code)};
#endif
}

//@ toBFloat16 needs BFloat16
__device__ inline BFloat16 toBFloat16(float x) {
#ifdef __CUDA_ARCH__
  BFloat16 b;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b.code) : "f"(x));
  return b;
#else
  const unsigned u = __float_as_uint(x);
  if ((u & 0x7fffffff) > 0x7f800000) return {(unsigned short)((u >> 16 & 0x8000) | 0x7fc0)};
  return {(unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16)};
#endif
}

//@ toFloat8E4M3 needs Float8E4M3 narrowed
// There is no infinity: a larger number becomes the largest one, 448.
__device__ inline Float8E4M3 toFloat8E4M3(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return {(unsigned char)pair};
#else
  const unsigned sign = __float_as_uint(x) >> 24 & 0x80, a = __float_as_uint(x) & 0x7fffffff;
  unsigned code = a > 0x7f800000 ? 0x7f : 0x7e;
  if (a <= 0x43e00000) code = narrowed<20>(a, 0x3c800000, 0x46800000);
  return {(unsigned char)(sign | code)};
#endif
}

//@ toFloat8E5M2 needs Float8E5M2 narrowed
// The instruction saturates; an infinity is wanted where IEEE 754 gives one.
__device__ inline Float8E5M2 toFloat8E5M2(float x) {
  const unsigned sign = __float_as_uint(x) >> 24 & 0x80, a = __float_as_uint(x) & 0x7fffffff;
  unsigned code = a > 0x7f800000 ? 0x7f : 0x7c;
  if (a < 0x47700000) code = narrowed<21>(a, 0x38800000, 0x43000000);
  return {(unsigned char)(sign | code)};
}

//@ toFloat8E8M0 needs Float8E8M0
// The power of two nearest to |x|, ties upwards: adding half an exponent to the
// code rounds so. What is not above 2^-127 becomes that.
__device__ inline Float8E8M0 toFloat8E8M0(float x) {
  const unsigned a = __float_as_uint(x) & 0x7fffffff;
  if (a <= 0x00400000) return {0};
  return {(unsigned char)(a < 0x7f400000 ? (a + 0x00400000) >> 23 : 0xff)};
}

//@ toFloatOdd
// x as a float with an odd mantissa if it is between two of them. A narrower
// type rounds from it as from x itself (S. Boldo, G. Melquiond, "When double
// rounding is odd", 2005).
__device__ inline float toFloatOdd(double x) {
  const float nearest = (float)x;
  if (nearest == x || x != x) return nearest;
  unsigned code = __float_as_uint(nearest);
  if (fabs((double)nearest) > fabs(x)) --code;  // towards zero
  return __uint_as_float(code | 1);
}

__device__ inline float toFloatOdd(unsigned long long x) {
  if (x >> 53 == 0) return toFloatOdd((double)x);
  return toFloatOdd((double)(x >> 11 | ((x & 0x7ff) != 0)) * 2048.0);
}

__device__ inline float toFloatOdd(long long x) {
  if (x < 0) return -toFloatOdd(0ull - (unsigned long long)x);
  return toFloatOdd((unsigned long long)x);
}

__device__ inline float toFloatOdd(int x) {
  return toFloatOdd((double)x);
}

//@ toInt32
// x truncated towards zero; the least integer for what does not fit and for NaN.
__device__ inline int toInt32(float x) {
  return x >= -0x1p31f && x < 0x1p31f ? (int)x : int(0x80000000);
}

__device__ inline int toInt32(double x) {
  return x > -0x1p31 - 1 && x < 0x1p31 ? (int)x : int(0x80000000);
}

//@ toInt64
template <class Real>
__device__ inline long long toInt64(Real x) {
  return x >= Real(-0x1p63) && x < Real(0x1p63) ? (long long)x : (long long)(1ull << 63);
}

//@ toUInt64 needs toInt64
// x truncated towards zero, modulo 2^64 if it is negative and fits in 64 bits
// with a sign; 2^63 for what is below and for NaN, 0 from 2^64 on.
template <class Real>
__device__ inline unsigned long long toUInt64(Real x) {
  if (x >= Real(0x1p63)) return (unsigned long long)toInt64(x - Real(0x1p63)) ^ 1ull << 63;
  return (unsigned long long)toInt64(x);
}
