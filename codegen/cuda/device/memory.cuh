// Moves of 1 to 16 bytes by one instruction, asynchronous copies, atomics.
// Addresses are multiples of the number of bytes.

//@ words
// The type that registers hold Bytes bytes in.
template <int Bytes>
struct Words;
template <>
struct Words<1> {
  using Type = unsigned char;
};
template <>
struct Words<2> {
  using Type = unsigned short;
};
template <>
struct Words<4> {
  using Type = unsigned;
};
template <>
struct Words<8> {
  using Type = uint2;
};
template <>
struct Words<16> {
  using Type = uint4;
};

//@ move needs words
template <int Bytes>
__device__ inline void move(void* to, const void* from) {
  using Type = typename Words<Bytes>::Type;
  *(Type*)to = *(const Type*)from;
}

//@ moveStreaming needs words
// Of data that is read once.
template <int Bytes>
__device__ inline void moveStreaming(void* to, const void* from) {
  using Type = typename Words<Bytes>::Type;
  *(Type*)to = __ldcs((const Type*)from);
}

//@ moveReadOnly needs words
// Of data that no thread writes.
template <int Bytes>
__device__ inline void moveReadOnly(void* to, const void* from) {
  using Type = typename Words<Bytes>::Type;
  *(Type*)to = __ldg((const Type*)from);
}

//@ shifted
// Copies Count words from an address that may be within one: the words there are that have
// a part of it, one more than Count if the address is no multiple of 4, shifted.
template <int Count, class Load>
__device__ inline void shifted(void* to, const void* from, Load load) {
  const unsigned shift = (unsigned)(unsigned long long)from % 4 * 8;
  const unsigned* const p = (const unsigned*)((unsigned long long)from & ~3ull);
  unsigned words[Count + 1];
#pragma unroll
  for (int i = 0; i < Count; ++i) words[i] = load(p + i);
  words[Count] = shift ? load(p + Count) : 0;
#pragma unroll
  for (int i = 0; i < Count; ++i) ((unsigned*)to)[i] = __funnelshift_r(words[i], words[i + 1], shift);
}

//@ moveUnaligned needs shifted
// From any address: all words of 4 bytes that have a part of it are read, which may have
// more. No memory ends within a word.
template <int Bytes>
__device__ inline void moveUnaligned(void* to, const void* from) {
  shifted<Bytes / 4>(to, from, [](const unsigned* p) { return *p; });
}

//@ moveReadOnlyUnaligned needs shifted
// Of data that no thread writes.
template <int Bytes>
__device__ inline void moveReadOnlyUnaligned(void* to, const void* from) {
  shifted<Bytes / 4>(to, from, [](const unsigned* p) { return __ldg(p); });
}

//@ gathered needs words
// Copies Count elements of Bytes bytes that are Step apart, of which the first one has Past elements before it
// in a vector. What is between them is read with them, and is in memory, as it is in a vector with one of them.
template <int Bytes, int Count, int Step, int Past, int Vector, class Load>
__device__ inline void gathered(void* to, const void* from, Load load) {
  using Element = typename Words<Bytes>::Type;
  using Type = typename Words<Vector>::Type;
  alignas(16) Element all[Count * Step];
  const Type* const p = (const Type*)((const Element*)from - Past);
#pragma unroll
  for (int i = 0; i < Count * Step * Bytes / Vector; ++i) ((Type*)all)[i] = load(p + i);
#pragma unroll
  for (int i = 0; i < Count; ++i) ((Element*)to)[i] = all[Past + i * Step];
}

//@ gather needs gathered
template <int Bytes, int Count, int Step, int Past, int Vector>
__device__ inline void gather(void* to, const void* from) {
  gathered<Bytes, Count, Step, Past, Vector>(to, from, [](const typename Words<Vector>::Type* p) { return *p; });
}

//@ gatherReadOnly needs gathered
// Of data that no thread writes.
template <int Bytes, int Count, int Step, int Past, int Vector>
__device__ inline void gatherReadOnly(void* to, const void* from) {
  gathered<Bytes, Count, Step, Past, Vector>(to, from, [](const typename Words<Vector>::Type* p) { return __ldg(p); });
}

//@ moveReadOnlyStreaming needs moveReadOnly
// Of data that no thread writes and that is read once: it takes no place in
// the first cache.
template <int Bytes>
__device__ inline void moveReadOnlyStreaming(void* to, const void* from) {
#ifdef __CUDA_ARCH__
  if constexpr (Bytes == 16) {
    uint4 v;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
    *(uint4*)to = v;
  } else if constexpr (Bytes == 8) {
    uint2 v;
    asm("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(from));
    *(uint2*)to = v;
  } else {
    moveReadOnly<Bytes>(to, from);
  }
#else
  moveReadOnly<Bytes>(to, from);
#endif
}

//@ storeStreaming needs words
// Of data that is not read soon.
template <int Bytes>
__device__ inline void storeStreaming(void* to, const void* from) {
  using Type = typename Words<Bytes>::Type;
  __stcs((Type*)to, *(const Type*)from);
}

//@ moveReadOnlyWhere needs words
// Of data that no thread writes, where a condition holds, else of zeros, which reads nothing. It is
// one instruction: a branch would keep the loads after it from being under way at once.
template <int Bytes>
__device__ inline void moveReadOnlyWhere(void* to, const void* from, bool where) {
  using Type = typename Words<Bytes>::Type;
#ifdef __CUDA_ARCH__
  if constexpr (Bytes == 16) {
    Type v;
    asm("{.reg .pred p; setp.ne.s32 p, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0; @p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];}"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(from), "r"((int)where));
    *(Type*)to = v;
  } else if constexpr (Bytes == 8) {
    Type v;
    asm("{.reg .pred p; setp.ne.s32 p, %3, 0; mov.u32 %0, 0; mov.u32 %1, 0; @p ld.global.nc.v2.u32 {%0, %1}, [%2];}"
        : "=r"(v.x), "=r"(v.y)
        : "l"(from), "r"((int)where));
    *(Type*)to = v;
  } else if constexpr (Bytes == 4) {
    Type v;
    asm("{.reg .pred p; setp.ne.s32 p, %2, 0; mov.u32 %0, 0; @p ld.global.nc.u32 %0, [%1];}"
        : "=r"(v)
        : "l"(from), "r"((int)where));
    *(Type*)to = v;
  } else if constexpr (Bytes == 2) {
    Type v;
    asm("{.reg .pred p; setp.ne.s32 p, %2, 0; mov.u16 %0, 0; @p ld.global.nc.u16 %0, [%1];}"
        : "=h"(v)
        : "l"(from), "r"((int)where));
    *(Type*)to = v;
  } else {
    unsigned short v;
    asm("{.reg .pred p; setp.ne.s32 p, %2, 0; mov.u16 %0, 0; @p ld.global.nc.u8 %0, [%1];}"
        : "=h"(v)
        : "l"(from), "r"((int)where));
    *(Type*)to = (Type)v;
  }
#else
  *(Type*)to = where ? *(const Type*)from : Type{};
#endif
}

//@ moveWhere needs words
template <int Bytes>
__device__ inline void moveWhere(void* to, const void* from, bool where) {
  using Type = typename Words<Bytes>::Type;
#ifdef __CUDA_ARCH__
  if constexpr (Bytes == 16) {
    Type v;
    asm volatile("{.reg .pred p; setp.ne.s32 p, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0; @p ld.global.v4.u32 {%0, %1, %2, %3}, [%4];}"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(from), "r"((int)where) : "memory");
    *(Type*)to = v;
  } else if constexpr (Bytes == 8) {
    Type v;
    asm volatile("{.reg .pred p; setp.ne.s32 p, %3, 0; mov.u32 %0, 0; mov.u32 %1, 0; @p ld.global.v2.u32 {%0, %1}, [%2];}"
        : "=r"(v.x), "=r"(v.y)
        : "l"(from), "r"((int)where) : "memory");
    *(Type*)to = v;
  } else if constexpr (Bytes == 4) {
    Type v;
    asm volatile("{.reg .pred p; setp.ne.s32 p, %2, 0; mov.u32 %0, 0; @p ld.global.u32 %0, [%1];}"
        : "=r"(v)
        : "l"(from), "r"((int)where) : "memory");
    *(Type*)to = v;
  } else if constexpr (Bytes == 2) {
    Type v;
    asm volatile("{.reg .pred p; setp.ne.s32 p, %2, 0; mov.u16 %0, 0; @p ld.global.u16 %0, [%1];}"
        : "=h"(v)
        : "l"(from), "r"((int)where) : "memory");
    *(Type*)to = v;
  } else {
    unsigned short v;
    asm volatile("{.reg .pred p; setp.ne.s32 p, %2, 0; mov.u16 %0, 0; @p ld.global.u8 %0, [%1];}"
        : "=h"(v)
        : "l"(from), "r"((int)where) : "memory");
    *(Type*)to = (Type)v;
  }
#else
  *(Type*)to = where ? *(const Type*)from : Type{};
#endif
}

//@ policyEvictFirst
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ inline unsigned long long policyEvictFirst() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
#endif

//@ policyEvictLast
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ inline unsigned long long policyEvictLast() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
#endif

//@ loadBy needs words
// Loads 4, 8 or 16 bytes by a policy of the second cache. What some thread writes stays in
// order with other accesses.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <int Bytes, bool Constant>
__device__ inline void loadBy(void* to, const void* from, unsigned long long policy) {
  typename Words<Bytes>::Type v;
  if constexpr (Bytes == 16) {
    if constexpr (Constant)
      asm("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
          : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
          : "l"(from), "l"(policy));
    else
      asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                   : "l"(from), "l"(policy)
                   : "memory");
  } else if constexpr (Bytes == 8) {
    if constexpr (Constant)
      asm("ld.global.nc.L1::no_allocate.L2::cache_hint.v2.u32 {%0, %1}, [%2], %3;" : "=r"(v.x), "=r"(v.y) : "l"(from), "l"(policy));
    else
      asm volatile("ld.global.L2::cache_hint.v2.u32 {%0, %1}, [%2], %3;" : "=r"(v.x), "=r"(v.y) : "l"(from), "l"(policy) : "memory");
  } else {
    if constexpr (Constant)
      asm("ld.global.nc.L1::no_allocate.L2::cache_hint.u32 %0, [%1], %2;" : "=r"(v) : "l"(from), "l"(policy));
    else
      asm volatile("ld.global.L2::cache_hint.u32 %0, [%1], %2;" : "=r"(v) : "l"(from), "l"(policy) : "memory");
  }
  *(typename Words<Bytes>::Type*)to = v;
}
#endif

//@ storeBy needs words
// Stores 4, 8 or 16 bytes by a policy of the second cache.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <int Bytes>
__device__ inline void storeBy(void* to, const void* from, unsigned long long policy) {
  const typename Words<Bytes>::Type v = *(const typename Words<Bytes>::Type*)from;
  if constexpr (Bytes == 16)
    asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "l"(policy)
                 : "memory");
  else if constexpr (Bytes == 8)
    asm volatile("st.global.L2::cache_hint.v2.u32 [%0], {%1, %2}, %3;" ::"l"(to), "r"(v.x), "r"(v.y), "l"(policy) : "memory");
  else
    asm volatile("st.global.L2::cache_hint.u32 [%0], %1, %2;" ::"l"(to), "r"(v), "l"(policy) : "memory");
}
#endif

//@ moveReadOnlyEvictFirst needs moveReadOnly policyEvictFirst loadBy
// Of data that no thread writes, which nobody reads soon.
template <int Bytes>
__device__ inline void moveReadOnlyEvictFirst(void* to, const void* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (Bytes >= 4)
    loadBy<Bytes, true>(to, from, policyEvictFirst());
  else
#endif
    moveReadOnly<Bytes>(to, from);
}

//@ moveEvictFirst needs move policyEvictFirst loadBy
template <int Bytes>
__device__ inline void moveEvictFirst(void* to, const void* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (Bytes >= 4)
    loadBy<Bytes, false>(to, from, policyEvictFirst());
  else
#endif
    move<Bytes>(to, from);
}

//@ moveReadOnlyEvictLastIf needs moveReadOnly policyEvictFirst policyEvictLast loadBy
// Of data that no thread writes, which some thread reads soon if last says so, and else nobody.
template <int Bytes>
__device__ inline void moveReadOnlyEvictLastIf(void* to, const void* from, bool last) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (Bytes >= 4)
    loadBy<Bytes, true>(to, from, last ? policyEvictLast() : policyEvictFirst());
  else
#endif
    moveReadOnly<Bytes>(to, from);
}

//@ moveEvictLastIf needs move policyEvictFirst policyEvictLast loadBy
template <int Bytes>
__device__ inline void moveEvictLastIf(void* to, const void* from, bool last) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (Bytes >= 4)
    loadBy<Bytes, false>(to, from, last ? policyEvictLast() : policyEvictFirst());
  else
#endif
    move<Bytes>(to, from);
}

//@ storeEvictFirst needs move policyEvictFirst storeBy
template <int Bytes>
__device__ inline void storeEvictFirst(void* to, const void* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (Bytes >= 4)
    storeBy<Bytes>(to, from, policyEvictFirst());
  else
#endif
    move<Bytes>(to, from);
}

//@ evictedLast
// The same address, by which accesses are of what the second cache gives up last. The compiler sees
// plain loads and stores: under a condition each is one instruction, and those of asm are branches,
// with which a layer norm of 8192 x 16384 bfloat16 took 142 us on an H200 rather than 131.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
extern "C" __device__ void* __nv_associate_access_property(const void* p, unsigned long long policy);
#endif
template <class T>
__device__ inline T* evictedLast(T* p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return (T*)__nv_associate_access_property(p, 0x14f0000000000000ull); // what createpolicy makes of evict_last
#else
  return p;
#endif
}

//@ moveEvictLast needs words evictedLast
template <int Bytes>
__device__ inline void moveEvictLast(void* to, const void* from) {
  using Type = typename Words<Bytes>::Type;
  *(Type*)to = *evictedLast((const Type*)from);
}

//@ moveUnalignedEvictLast needs shifted evictedLast
template <int Bytes>
__device__ inline void moveUnalignedEvictLast(void* to, const void* from) {
  shifted<Bytes / 4>(to, from, [](const unsigned* p) { return *evictedLast(p); });
}

//@ moveReadOnlyWhereEvictLast needs moveReadOnlyWhere policyEvictLast
// Of data that no thread writes, where a condition holds, else of zeros, given up last.
template <int Bytes>
__device__ inline void moveReadOnlyWhereEvictLast(void* to, const void* from, bool where) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (Bytes == 16) {
    uint4 v;
    asm("{.reg .pred p; setp.ne.s32 p, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0; @p ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %6;}"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(from), "r"((int)where), "l"(policyEvictLast()));
    *(uint4*)to = v;
  } else if constexpr (Bytes == 8) {
    uint2 v;
    asm("{.reg .pred p; setp.ne.s32 p, %3, 0; mov.u32 %0, 0; mov.u32 %1, 0; @p ld.global.nc.L2::cache_hint.v2.u32 {%0, %1}, [%2], %4;}"
        : "=r"(v.x), "=r"(v.y)
        : "l"(from), "r"((int)where), "l"(policyEvictLast()));
    *(uint2*)to = v;
  } else if constexpr (Bytes == 4) {
    unsigned v;
    asm("{.reg .pred p; setp.ne.s32 p, %2, 0; mov.u32 %0, 0; @p ld.global.nc.L2::cache_hint.u32 %0, [%1], %3;}"
        : "=r"(v)
        : "l"(from), "r"((int)where), "l"(policyEvictLast()));
    *(unsigned*)to = v;
  } else
#endif
    moveReadOnlyWhere<Bytes>(to, from, where);
}

//@ storeEvictLast needs words evictedLast
template <int Bytes>
__device__ inline void storeEvictLast(void* to, const void* from) {
  using Type = typename Words<Bytes>::Type;
  *evictedLast((Type*)to) = *(const Type*)from;
}

//@ readOnly needs bitCast words
// An element that no thread writes.
template <class T>
__device__ inline T readOnly(const T* p) {
  return bitCast<T>(__ldg((const typename Words<sizeof(T)>::Type*)p));
}

//@ apart needs bitCast words
// An element that is loaded by itself, whatever is loaded elsewhere from the same address.
template <class T>
__device__ inline T apart(const T* p) {
  if constexpr (sizeof(T) == 8)
    return bitCast<T>(*(const volatile unsigned long long*)p);
  else if constexpr (sizeof(T) == 16)
    return *p;  // there is no larger load
  else
    return bitCast<T>(*(const volatile typename Words<sizeof(T)>::Type*)p);
}

//@ copyAsync
// Begins a copy from global to shared memory, see waitAsync.
template <int Bytes>
__device__ inline void copyAsync(void* to, const void* from) {
#ifdef __CUDA_ARCH__
  const unsigned address = (unsigned)__cvta_generic_to_shared(to);
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(Bytes) : "memory");
#else
  host::copyAsync(to, from, Bytes, Bytes);
#endif
}

//@ copyAsync.guarded
// copyAsync if guard, else zeros, which read nothing.
template <int Bytes>
__device__ inline void copyAsync(void* to, const void* from, bool guard) {
  const int size = guard ? Bytes : 0;
#ifdef __CUDA_ARCH__
  const unsigned address = (unsigned)__cvta_generic_to_shared(to);
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(size) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(Bytes), "r"(size) : "memory");
#else
  host::copyAsync(to, from, Bytes, size);
#endif
}

//@ copyAsyncBy
// copyAsync by a policy of the second cache, of size bytes and else zeros. Copies of 4 and 8 bytes have
// none: they pass the first cache, and with a policy they are an illegal instruction on an H200.
// So are those of which ptxas 13.0 adds the address from a register and a uniform register (LDGSTS [R+UR0],
// desc[UR1]; 13.2 has no such), which it does not with an address that is masked. That costs nothing where columns are kept, and up to
// 1 % of the time of rows.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <int Bytes>
__device__ inline void copyAsyncBy(void* to, const void* from, int size, unsigned long long policy) {
  const unsigned address = (unsigned)__cvta_generic_to_shared(to);
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(address & 0x7fffffff), "l"(from), "r"(size), "l"(policy)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(Bytes), "r"(size) : "memory");
}
#endif

//@ copyAsyncEvictFirst needs copyAsync copyAsyncBy policyEvictFirst
// Of what nobody reads soon.
template <int Bytes>
__device__ inline void copyAsyncEvictFirst(void* to, const void* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  copyAsyncBy<Bytes>(to, from, Bytes, policyEvictFirst());
#else
  copyAsync<Bytes>(to, from);
#endif
}

//@ copyAsyncEvictFirst.guarded needs copyAsync.guarded copyAsyncBy policyEvictFirst
template <int Bytes>
__device__ inline void copyAsyncEvictFirst(void* to, const void* from, bool guard) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  copyAsyncBy<Bytes>(to, from, guard ? Bytes : 0, policyEvictFirst());
#else
  copyAsync<Bytes>(to, from, guard);
#endif
}

//@ copyAsyncEvictLast needs copyAsync copyAsyncBy policyEvictLast
// Of what is read again soon.
template <int Bytes>
__device__ inline void copyAsyncEvictLast(void* to, const void* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  copyAsyncBy<Bytes>(to, from, Bytes, policyEvictLast());
#else
  copyAsync<Bytes>(to, from);
#endif
}

//@ copyAsyncEvictLast.guarded needs copyAsync.guarded copyAsyncBy policyEvictLast
template <int Bytes>
__device__ inline void copyAsyncEvictLast(void* to, const void* from, bool guard) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  copyAsyncBy<Bytes>(to, from, guard ? Bytes : 0, policyEvictLast());
#else
  copyAsync<Bytes>(to, from, guard);
#endif
}

//@ copyAsyncEvictLastIf needs copyAsync copyAsyncBy policyEvictFirst policyEvictLast
// Of what is read again soon if last says so, and else by nobody.
template <int Bytes>
__device__ inline void copyAsyncEvictLastIf(void* to, const void* from, bool last) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  copyAsyncBy<Bytes>(to, from, Bytes, last ? policyEvictLast() : policyEvictFirst());
#else
  copyAsync<Bytes>(to, from);
#endif
}

//@ copyAsyncEvictLastIf.guarded needs copyAsync.guarded copyAsyncBy policyEvictFirst policyEvictLast
template <int Bytes>
__device__ inline void copyAsyncEvictLastIf(void* to, const void* from, bool guard, bool last) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  copyAsyncBy<Bytes>(to, from, guard ? Bytes : 0, last ? policyEvictLast() : policyEvictFirst());
#else
  copyAsync<Bytes>(to, from, guard);
#endif
}

//@ commitAsync
// Closes the group of the thread's copies since the last one.
__device__ inline void commitAsync() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  host::commitAsync();
#endif
}

//@ waitAsync
// Waits until at most Pending of the thread's groups have not landed.
template <int Pending>
__device__ inline void waitAsync() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#else
  host::waitAsync(Pending);
#endif
}

//@ atomicAdd.signed
__device__ inline long long atomicAdd(long long* p, long long x) {
  return (long long)atomicAdd((unsigned long long*)p, (unsigned long long)x);
}

//@ atomicAdd.Half needs Half toHalf Half.toFloat
__device__ inline void atomicAdd(Half* p, Half x) {
#ifdef __CUDA_ARCH__
  asm volatile("red.relaxed.gpu.add.noftz.f16 [%0], %1;" ::"l"(p), "h"(x.code) : "memory");
#else
  *p = toHalf(toFloat(*p) + toFloat(x));
#endif
}

//@ atomicAdd.BFloat16 needs BFloat16 toBFloat16 BFloat16.toFloat
__device__ inline void atomicAdd(BFloat16* p, BFloat16 x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.add.noftz.bf16 [%0], %1;" ::"l"(p), "h"(x.code) : "memory");
#elif defined(__CUDA_ARCH__)
  unsigned short before = *(volatile unsigned short*)p, seen;
  do {
    seen = before;
    const BFloat16 sum = toBFloat16(toFloat(BFloat16{seen}) + toFloat(x));
    before = atomicCAS((unsigned short*)p, seen, sum.code);
  } while (before != seen);
#else
  *p = toBFloat16(toFloat(*p) + toFloat(x));
#endif
}

//@ opaque
// Hides the elements of an array in registers from the compiler, which else keeps
// what it made of them for when it makes it again.
template <class T, int N>
__device__ inline void opaque(T (&x)[N]) {
#ifdef __CUDA_ARCH__
#pragma unroll
  for (int i = 0; i < (int)sizeof(x) / 4; ++i) {
    asm volatile("" : "+r"(((unsigned*)x)[i]));
  }
#endif
}

//@ underWay
// All loads before are under way before what follows waits for one of them. Where a thread has some 75 of them
// ptxas takes the first ones to have come, and puts what needs these before the last ones, which then
// wait for memory too. It moves nothing over an instruction that may end the program; no address has this upper half.
__device__ inline void underWay(const void* p) {
#ifdef __CUDA_ARCH__
  asm volatile("{.reg .pred never; setp.eq.u32 never, %0, 0xffffffff; @never trap;}" ::"r"((unsigned)((unsigned long long)p >> 32)));
#endif
}
