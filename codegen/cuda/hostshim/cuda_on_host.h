// The part of CUDA C++ that printed kernels use, for a compiler of the host.
//
// A thread of the grid is a coroutine with a stack of its own. One runs at a
// time, until it waits for others, so that nothing here needs to be atomic; what
// a kernel leaves unordered happens in an order that the launch chooses.
#pragma once

#include <math.h>
#include <stddef.h>
#include <string.h>

#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)

struct uint3 {
  unsigned x, y, z;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}

// Those of the thread that runs.
extern uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace host {

// What threads wait at for each other.
enum class Meeting { none, block, warp, shuffle, cluster };

void meet(Meeting meeting);

// Lets other threads run: to be called while waiting for memory to change.
void pause();

unsigned char* blockMemory();
uint3 clusterIdx();
int lane();
void clusterBarrier();
void* ofPeer(void* p, int rank);
void copyAsync(void* to, const void* from, int bytes, int size);
void commitAsync();
void waitAsync(int pending);

// Hands size bytes to the other lanes, and gets those of another one.
void exchange(void* to, const void* from, int size, int source);

[[noreturn]] void fail(const char* what);

}  // namespace host

inline void __syncthreads() {
  host::meet(host::Meeting::block);
}
inline void __syncwarp() {
  host::meet(host::Meeting::warp);
}
inline void __threadfence() {}
inline void __threadfence_block() {}

// Lane source of the group of width lanes; one outside the group is the lane
// itself.
template <class T>
T exchangeWith(T x, int source, int width) {
  const int own = host::lane();
  if (source / width != own / width) source = own;
  T y;
  host::exchange(&y, &x, sizeof(T), source);
  return y;
}
template <class T>
T __shfl_xor_sync(unsigned, T x, int mask, int width = 32) {
  return exchangeWith(x, host::lane() ^ mask, width);
}
template <class T>
T __shfl_down_sync(unsigned, T x, int delta, int width = 32) {
  return exchangeWith(x, host::lane() + delta, width);
}
template <class T>
T __shfl_up_sync(unsigned, T x, int delta, int width = 32) {
  return exchangeWith(x, host::lane() % width < delta ? host::lane() : host::lane() - delta, width);
}
template <class T>
T __shfl_sync(unsigned, T x, int lane, int width = 32) {
  return exchangeWith(x, host::lane() / width * width + (lane & (width - 1)), width);
}

inline int atomicAdd(int* p, int x) {
  const int before = *p;
  *p = int((unsigned)before + (unsigned)x);
  return before;
}
template <class T>
T atomicAdd(T* p, T x) {
  const T before = *p;
  *p = before + x;
  return before;
}

template <class T>
T __ldg(const T* p) {
  return *p;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
template <class T>
T __ldcs(const T* p) {
  return *p;
}
template <class T>
void __stcs(T* p, T x) {
  *p = x;
}

template <class To, class From>
To hostBits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
inline unsigned __float_as_uint(float x) {
  return hostBits<unsigned>(x);
}
inline float __uint_as_float(unsigned x) {
  return hostBits<float>(x);
}
inline long long __double_as_longlong(double x) {
  return hostBits<long long>(x);
}
inline double __longlong_as_double(long long x) {
  return hostBits<double>(x);
}

inline unsigned __umulhi(unsigned a, unsigned b) {
  return unsigned((unsigned long long)a * b >> 32);
}
inline float __fmaf_rn(float a, float b, float c) {
  return fmaf(a, b, c);
}
inline double __dmul_rn(double a, double b) {
  return a * b;
}
inline double __dadd_rn(double a, double b) {
  return a + b;
}

template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}

// Functions that CUDA has and the C library has not.

inline float rsqrtf(float x) {
  return float(1 / sqrt(double(x)));
}
inline double rsqrt(double x) {
  return 1 / sqrt(x);
}

// The sine and cosine of x half turns; quarter turns are exact.
inline double hostTurns(double x, int quarters) {
  const double nearest = rint(2 * x);
  const double r = (x - nearest / 2) * 0x1.921fb54442d18p+1;
  switch (((long long)fmod(nearest, 4) + 4 + quarters) % 4) {
    case 0: return sin(r);
    case 1: return cos(r);
    case 2: return -sin(r);
    default: return -cos(r);
  }
}
inline double sinpi(double x) {
  return hostTurns(x, 0);
}
inline double cospi(double x) {
  return hostTurns(x, 1);
}
inline float sinpif(float x) {
  return float(sinpi(x));
}
inline float cospif(float x) {
  return float(cospi(x));
}

// The y with erfc(y) = x: equation 26.2.23 of Abramowitz and Stegun, "Handbook
// of mathematical functions", then Halley's steps, in long double.
inline double erfinv(double x);
inline double erfcinv(double x) {
  if (x > 0.5 && x < 1.5) return erfinv(1 - x);  // the difference is exact
  if (!(x >= 0 && x <= 2)) return NAN;
  if (x == 0) return INFINITY;
  if (x == 2) return -INFINITY;
  const long double small = x < 1 ? x : 2 - (long double)x;
  const long double t = sqrtl(-2 * logl(small / 2));
  long double y = t - (2.515517L + t * (0.802853L + t * 0.010328L)) / (1 + t * (1.432788L + t * (0.189269L + t * 0.001308L)));
  y /= sqrtl(2);
  for (int i = 0; i < 4; ++i) {
    const long double step = (erfcl(y) - small) * sqrtl(0x1.921fb54442d18469898cp+1L) / 2 * expl(y * y);
    y += step / (1 - y * step);
  }
  return double(x < 1 ? y : -y);
}
inline double erfinv(double x) {
  if (!(fabs(x) <= 1)) return NAN;
  if (fabs(x) == 1) return copysign(INFINITY, x);
  if (fabs(x) > 0.5) return copysign(erfcinv(1 - fabs(x)), x);  // the difference is exact
  long double y = x * 0.886226925452758L;
  for (int i = 0; i < 6; ++i) {
    const long double step = (erfl(y) - x) * 0.886226925452758013649083741670572591L * expl(y * y);
    y -= step / (1 + y * step);
  }
  return double(y);
}
inline float erfinvf(float x) {
  return float(erfinv(x));
}
inline float erfcinvf(float x) {
  return float(erfcinv(x));
}
