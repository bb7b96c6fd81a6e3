// Element types as they lie in memory. Arithmetic on the narrow floating types
// is done in float, see convert.cuh.

//@ Half
struct alignas(2) Half {
  unsigned short code;
};

//@ BFloat16
struct alignas(2) BFloat16 {
  unsigned short code;
};

//@ Float8E4M3
struct Float8E4M3 {
  unsigned char code;
};

//@ Float8E5M2
struct Float8E5M2 {
  unsigned char code;
};

//@ Float8E8M0
struct Float8E8M0 {
  unsigned char code;
};

//@ Complex
template <class T>
struct alignas(2 * sizeof(T)) Complex {
  T re, im;
};

//@ bitCast
// The bytes of a value as one of another type of the same size.
template <class To, class From>
__device__ inline To bitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}
