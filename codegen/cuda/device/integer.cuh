// Arithmetic on integers: they wrap, and every operation has a result for every
// pair of operands. In C++ an overflow of a signed type is undefined.

//@ wrapping
__device__ inline unsigned toUnsigned(int x) {
  return (unsigned)x;
}
__device__ inline unsigned long long toUnsigned(long long x) {
  return (unsigned long long)x;
}
__device__ inline unsigned long long toUnsigned(unsigned long long x) {
  return x;
}

//@ isNegative
__device__ inline bool isNegative(int x) {
  return x < 0;
}
__device__ inline bool isNegative(long long x) {
  return x < 0;
}
__device__ inline bool isNegative(unsigned long long) {
  return false;
}

//@ addWrapping needs wrapping
template <class T>
__device__ inline T addWrapping(T a, T b) {
  return T(toUnsigned(a) + toUnsigned(b));
}

//@ subWrapping needs wrapping
template <class T>
__device__ inline T subWrapping(T a, T b) {
  return T(toUnsigned(a) - toUnsigned(b));
}

//@ mulWrapping needs wrapping
template <class T>
__device__ inline T mulWrapping(T a, T b) {
  return T(toUnsigned(a) * toUnsigned(b));
}

//@ negWrapping needs wrapping
template <class T>
__device__ inline T negWrapping(T a) {
  return T(0 - toUnsigned(a));
}

//@ absWrapping needs negWrapping isNegative
template <class T>
__device__ inline T absWrapping(T a) {
  return isNegative(a) ? negWrapping(a) : a;
}

//@ truncDiv needs negWrapping isNegative
// a / b rounded to zero; 0 for b = 0.
template <class T>
__device__ inline T truncDiv(T a, T b) {
  if (b == 0) return 0;
  if (isNegative(b) && b == T(-1)) return negWrapping(a);
  return a / b;
}

//@ truncMod needs isNegative
// What truncDiv leaves, with the sign of a; a for b = 0.
template <class T>
__device__ inline T truncMod(T a, T b) {
  if (b == 0) return a;
  if (isNegative(b) && b == T(-1)) return 0;
  return a % b;
}

//@ integer.floorMod needs truncMod isNegative
// What division rounded down leaves, with the sign of b; a for b = 0.
template <class T>
__device__ inline T floorMod(T a, T b) {
  const T r = truncMod(a, b);
  return r != 0 && b != 0 && isNegative(r) != isNegative(b) ? r + b : r;
}

//@ floorDiv
// a / b rounded down, of an index, for b other than 0.
template <class T>
__device__ inline T floorDiv(T a, T b) {
  const T q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

//@ fastDiv
// n / d for 0 <= n, d < 2^31, by a multiplier and a shift that the host has made
// of d.
__device__ inline int fastDiv(int n, unsigned long long by) {
  const unsigned m = n;
  return (int)((__umulhi(m, (unsigned)by) + m) >> (unsigned)(by >> 32));
}

//@ fastMod needs fastDiv
// n % d; see fastDiv.
__device__ inline int fastMod(int n, unsigned long long by, int d) { return n - fastDiv(n, by) * d; }

//@ wrapped
// x % d of an x from 0 to before 2 d.
__device__ inline int wrapped(int x, int d) {
  const unsigned all = x, rest = all - (unsigned)d;
  return rest < all ? rest : all;
}

//@ gcd needs negWrapping truncMod isNegative
// Not negative, but for 2^63 and 2^31, which wrap.
template <class T>
__device__ inline T gcd(T a, T b) {
  while (b != 0) {
    const T r = truncMod(a, b);
    a = b;
    b = r;
  }
  return isNegative(a) ? negWrapping(a) : a;
}

//@ intPow needs mulWrapping isNegative
// Of a negative power only 1 and -1 are not 0.
template <class T>
__device__ inline T intPow(T a, T n) {
  if (isNegative(n)) {
    if (a == 1) return 1;
    return a == T(-1) ? (n % 2 == 0 ? T(1) : T(-1)) : T(0);
  }
  T p = 1;
  for (; n != 0; n >>= 1) {
    if (n & 1) p = mulWrapping(p, a);
    a = mulWrapping(a, a);
  }
  return p;
}

//@ shiftLeft needs wrapping
// A count that is negative or not less than the width moves every bit out.
template <class T>
__device__ inline T shiftLeft(T a, T n) {
  return toUnsigned(n) < 8 * sizeof(T) ? T(toUnsigned(a) << n) : T(0);
}

//@ shiftRight needs wrapping isNegative
template <class T>
__device__ inline T shiftRight(T a, T n) {
  if (toUnsigned(n) < 8 * sizeof(T)) return a >> n;
  return isNegative(a) ? T(-1) : T(0);
}

//@ logicalShiftRight needs wrapping
template <class T>
__device__ inline T logicalShiftRight(T a, T n) {
  return toUnsigned(n) < 8 * sizeof(T) ? T(toUnsigned(a) >> n) : T(0);
}
