// Random numbers from Philox4x32-10 (J. Salmon, M. Moraes, R. Dror, D. Shaw,
// "Parallel random numbers: as easy as 1, 2, 3", SC11), element by element as
// package philox defines them.

//@ PhiloxKeys
// What the ten rounds of the generator take of a seed, two words each. As an argument
// they are computed once, on the host, and operands of instructions.
struct alignas(8) PhiloxKeys {
  unsigned words[20];
};

//@ philoxKeys needs PhiloxKeys
__device__ inline PhiloxKeys philoxKeys(unsigned long long seed) {
  PhiloxKeys keys;
  unsigned k = (unsigned)seed, l = (unsigned)(seed >> 32);
#pragma unroll
  for (int i = 0; i < 10; ++i) {
    keys.words[2 * i] = k;
    keys.words[2 * i + 1] = l;
    k += 0x9e3779b9u;
    l += 0xbb67ae85u;
  }
  return keys;
}

//@ KeysInMemory
// Where the seed is, in the place of PhiloxKeys.
struct KeysInMemory {
  const unsigned long long* seed;
  unsigned long long unused[9];
};

//@ philox needs PhiloxKeys
// The low half x and the high half y of a product, by one instruction: of products of
// the halves apart, or of 64 bits, the compiler makes more, and compares words of 64.
__device__ inline uint2 product(unsigned a, unsigned b) {
  uint2 z;
#ifdef __CUDA_ARCH__
  asm("{\n.reg .u64 z;\nmul.wide.u32 z, %2, %3;\nmov.b64 {%0, %1}, z;\n}" : "=r"(z.x), "=r"(z.y) : "r"(a), "r"(b));
#else
  const unsigned long long all = (unsigned long long)a * b;
  z.x = (unsigned)all;
  z.y = (unsigned)(all >> 32);
#endif
  return z;
}

__device__ inline uint4 philox(const PhiloxKeys& keys, unsigned long long offset, unsigned long long subsequence) {
  unsigned a = (unsigned)offset, b = (unsigned)(offset >> 32), c = (unsigned)subsequence, d = (unsigned)(subsequence >> 32);
#pragma unroll
  for (int i = 0; i < 10; ++i) {
    const uint2 x = product(0xd2511f53u, a), y = product(0xcd9e8d57u, c);
    a = y.y ^ b ^ keys.words[2 * i];
    b = y.x;
    c = x.y ^ d ^ keys.words[2 * i + 1];
    d = x.x;
  }
  return make_uint4(a, b, c, d);
}

//@ philox.word needs philox
// The word of an element of a type that takes one: four share what one call gives.
__device__ inline unsigned philoxWord(const PhiloxKeys& keys, unsigned long long offset, unsigned long long four, unsigned which) {
  const uint4 w = philox(keys, offset / 4, four);
  const unsigned low = which & 1 ? w.y : w.x, high = which & 1 ? w.w : w.z;
  return which & 2 ? high : low;
}

//@ uniformBits needs philox.word
template <int Count>
__device__ inline int uniformBits(const PhiloxKeys& keys, unsigned long long offset, unsigned long long four, unsigned which) {
  return philoxWord(keys, offset, four, which) & ((1u << Count) - 1);
}

//@ uniform needs uniformBits
// Uniform over [0, 1), a multiple of 2^-Precision.
template <int Precision>
__device__ inline float uniform(const PhiloxKeys& keys, unsigned long long offset, unsigned long long four, unsigned which) {
  return (float)uniformBits<Precision>(keys, offset, four, which) * (1.0f / (1u << Precision));
}

//@ uniform.double needs philox
__device__ inline double uniformDouble(const PhiloxKeys& keys, unsigned long long offset, unsigned long long two, unsigned which) {
  const uint4 w = philox(keys, offset / 4, two);
  const unsigned long long word = which ? (unsigned long long)w.w << 32 | w.z : (unsigned long long)w.y << 32 | w.x;
  return (double)(word & ((1ull << 53) - 1)) * 0x1p-53;
}

//@ scaled
// a + x * b in double precision with two roundings.
__device__ inline double scaled(double a, double x, double b) {
  return __dadd_rn(a, __dmul_rn(x, b));
}

//@ below.float
// The largest number below x, which is positive, negative or 0, not the least.
__device__ inline float justBelow(float x) {
  const unsigned code = __float_as_uint(x);
  if (x == 0) return __uint_as_float(0x80000001);
  return __uint_as_float(x > 0 ? code - 1 : code + 1);
}

__device__ inline double justBelow(double x) {
  const long long code = __double_as_longlong(x);
  if (x == 0) return __longlong_as_double((long long)(1ull << 63 | 1));
  return __longlong_as_double(x > 0 ? code - 1 : code + 1);
}

//@ below.Half needs Half
__device__ inline Half justBelow(Half x) {
  if ((x.code & 0x7fff) == 0) return {0x8001};
  return {(unsigned short)(x.code & 0x8000 ? x.code + 1 : x.code - 1)};
}

//@ below.BFloat16 needs BFloat16
__device__ inline BFloat16 justBelow(BFloat16 x) {
  if ((x.code & 0x7fff) == 0) return {0x8001};
  return {(unsigned short)(x.code & 0x8000 ? x.code + 1 : x.code - 1)};
}

//@ normal needs philox
// Normally distributed, by the method of Box and Muller. The two elements of a
// pair take the cosine and the sine.
__device__ inline float normal(const PhiloxKeys& keys, unsigned long long offset, unsigned long long four, unsigned which) {
  const uint4 w = philox(keys, offset / 4, four);
  const float u = __fmaf_rn((float)(which & 2 ? w.z : w.x), 0x1p-32f, 0x1p-33f);
  const float v = (float)(which & 2 ? w.w : w.y) * 0x1p-32f;
  const float radius = sqrtf(-2.0f * logf(u));
  return radius * (which & 1 ? sinpif(2.0f * v) : cospif(2.0f * v));
}

//@ normal.double needs philox
__device__ inline double normalDouble(const PhiloxKeys& keys, unsigned long long offset, unsigned long long two, unsigned which) {
  const uint4 w = philox(keys, offset / 4, two);
  const unsigned long long first = (unsigned long long)w.y << 32 | w.x, second = (unsigned long long)w.w << 32 | w.z;
  const double u = (double)((first >> 11) + 1) * 0x1p-53, v = (double)(second >> 11) * 0x1p-53;
  const double radius = sqrt(-2.0 * log(u));
  return radius * (which ? sinpi(2.0 * v) : cospi(2.0 * v));
}

//@ uniformBetween.float needs scaled below.float
// The number u of [0, 1) brought to [low, high), rounded once; what rounds to
// high becomes the largest number below it.
__device__ inline float uniformBetween(double low, double high, float u) {
  const float x = (float)scaled(low, u, high - low), most = (float)high;
  if (!(low < high && x >= high)) return x;
  return most < high ? most : justBelow(most);
}

__device__ inline double uniformBetween(double low, double high, double u) {
  const double x = scaled(low, u, high - low);
  return low < high && x >= high ? justBelow(high) : x;
}

//@ uniformBetween.Half needs scaled below.Half toHalf toFloatOdd Half.toFloat
__device__ inline Half uniformBetweenHalf(double low, double high, float u) {
  const Half x = toHalf(toFloatOdd(scaled(low, u, high - low))), most = toHalf(toFloatOdd(high));
  if (!(low < high && toFloat(x) >= high)) return x;
  return toFloat(most) < high ? most : justBelow(most);
}

//@ uniformBetween.BFloat16 needs scaled below.BFloat16 toBFloat16 toFloatOdd BFloat16.toFloat
__device__ inline BFloat16 uniformBetweenBFloat16(double low, double high, float u) {
  const BFloat16 x = toBFloat16(toFloatOdd(scaled(low, u, high - low))), most = toBFloat16(toFloatOdd(high));
  if (!(low < high && toFloat(x) >= high)) return x;
  return toFloat(most) < high ? most : justBelow(most);
}
