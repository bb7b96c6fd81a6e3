// Order between threads.

//@ blockMemory
// The start of the block's shared memory.
__device__ inline unsigned char* blockMemory() {
#ifdef __CUDA_ARCH__
  extern __shared__ __align__(128) unsigned char memory[];
  return memory;
#else
  return host::blockMemory();
#endif
}

//@ loadAcquire
__device__ inline unsigned long long loadAcquire(const unsigned long long* p) {
#ifdef __CUDA_ARCH__
  unsigned long long x;
  asm volatile("ld.acquire.gpu.global.b64 %0, [%1];" : "=l"(x) : "l"(p) : "memory");
  return x;
#else
  host::pause();
  return *p;
#endif
}

//@ groupBarrier
// Waits for the threads of the block with the same index along z, which are whole warps.
__device__ inline void groupBarrier() {
#ifdef __CUDA_ARCH__
  asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.z + 1), "r"(blockDim.x * blockDim.y) : "memory");
#else
  __syncthreads(); // all come to it
#endif
}

//@ gridBarrier needs loadAcquire
// Waits for all threads of the grid. In the word, all but the top bit are 0
// before and after; the arrivals of all blocks together flip the top bit, in
// whatever order they come, which is what the others wait for: the load that sees
// it acquires what they released, and the barrier hands that to the block.
template <class Word>
__device__ inline void gridBarrier(Word* word) {
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    const unsigned long long blocks = (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
    const bool first = blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0;
    unsigned long long* const p = (unsigned long long*)word;
    __threadfence();
    const unsigned long long before = atomicAdd(p, first ? (1ull << 63) - (blocks - 1) : 1ull);
    while ((loadAcquire(p) ^ before) >> 63 == 0) {
    }
  }
  __syncthreads();
}

//@ waitForKernels
// Waits until the kernels before this one have ended, and sees what they wrote.
__device__ inline void waitForKernels() {
#ifdef __CUDA_ARCH__
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

//@ startNextKernel
// Lets the next kernel of the stream start when all blocks have come here or ended.
__device__ inline void startNextKernel() {
#ifdef __CUDA_ARCH__
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

//@ clusterBarrier
__device__ inline void clusterBarrier() {
#ifdef __CUDA_ARCH__
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  host::clusterBarrier();
#endif
}

//@ tellStart
// Tells the other blocks of the cluster that this one has started.
__device__ inline void tellStart() {
#ifdef __CUDA_ARCH__
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

//@ waitForStarts
// Waits until all blocks of the cluster have called tellStart().
__device__ inline void waitForStarts() {
#ifdef __CUDA_ARCH__
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#else
  host::clusterBarrier();
#endif
}

//@ clusterFence
__device__ inline void clusterFence() {
#ifdef __CUDA_ARCH__
  asm volatile("fence.acq_rel.cluster;" ::: "memory");
#endif
}

//@ clusterIdx
__device__ inline unsigned clusterIdxX() {
#ifdef __CUDA_ARCH__
  unsigned x;
  asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(x));
  return x;
#else
  return host::clusterIdx().x;
#endif
}

__device__ inline unsigned clusterIdxY() {
#ifdef __CUDA_ARCH__
  unsigned y;
  asm("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(y));
  return y;
#else
  return host::clusterIdx().y;
#endif
}

__device__ inline unsigned clusterIdxZ() {
#ifdef __CUDA_ARCH__
  unsigned z;
  asm("mov.u32 %0, %%cluster_ctaid.z;" : "=r"(z));
  return z;
#else
  return host::clusterIdx().z;
#endif
}

//@ ofPeer
// The address, in the shared memory of another block of the cluster, of what p
// points to in that of this one.
template <class T>
__device__ inline T* ofPeer(T* p, int rank) {
#ifdef __CUDA_ARCH__
  T* q;
  asm("mapa.u64 %0, %1, %2;" : "=l"(q) : "l"(p), "r"(rank));
  return q;
#else
  return (T*)host::ofPeer(p, rank);
#endif
}

//@ expectArrivals
// Lets a word of the block's shared memory count the bytes that are sent to the block.
// Other blocks see it by tellStart() and waitForStarts().
__device__ inline void expectArrivals(long long* word, int bytes) {
#ifdef __CUDA_ARCH__
  const unsigned address = (unsigned)__cvta_generic_to_shared(word);
  const bool first = threadIdx.x + threadIdx.y + threadIdx.z == 0;
  if (first)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address) : "memory");
  __syncwarp(); // the barrier is made by an instruction of the warp, which racecheck takes for another lane's
  if (first)
    asm volatile(
        "{.reg .b64 state;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n"
        "fence.mbarrier_init.release.cluster;}" ::"r"(address),
        "r"(bytes)
        : "memory");
#endif
}

//@ waitForArrivals
// Waits until all that the word is to count is there. Unlike a barrier of the cluster, whose
// release waits for all that the thread has stored anywhere, it waits for nothing else.
__device__ inline void waitForArrivals(long long* word) {
#ifdef __CUDA_ARCH__
  const unsigned address = (unsigned)__cvta_generic_to_shared(word);
  unsigned done;
  do {
    asm volatile(
        "{.reg .pred p;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;\n"
        "selp.u32 %0, 1, 0, p;}"
        : "=r"(done)
        : "r"(address)
        : "memory");
  } while (!done);
#else
  host::clusterBarrier();
#endif
}

//@ sendCounted needs bitCast
// Stores x in the shared memory of another block of the cluster, where to points to in that
// of this one, and has the word there count it.
template <class T>
__device__ inline void sendCounted(T* to, int rank, T x, long long* word) {
#ifdef __CUDA_ARCH__
  unsigned there, counter;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(to)), "r"(rank));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counter) : "r"((unsigned)__cvta_generic_to_shared(word)), "r"(rank));
  if constexpr (sizeof(T) == 4)
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(there), "r"(bitCast<unsigned>(x)), "r"(counter) : "memory");
  else
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(there), "l"(bitCast<unsigned long long>(x)), "r"(counter) : "memory");
#else
  *(T*)host::ofPeer(to, rank) = x;
#endif
}

//@ shuffle
// What another lane of the group of width lanes holds, see the CUDA functions
// of the like names.
template <class T>
__device__ inline T shuffleXor(T x, int mask, int width) {
  return __shfl_xor_sync(0xffffffff, x, mask, width);
}

template <class T>
__device__ inline T shuffleDown(T x, int delta, int width) {
  return __shfl_down_sync(0xffffffff, x, delta, width);
}

template <class T>
__device__ inline T shuffleUp(T x, int delta, int width) {
  return __shfl_up_sync(0xffffffff, x, delta, width);
}

template <class T>
__device__ inline T shuffleAt(T x, int lane, int width) {
  return __shfl_sync(0xffffffff, x, lane, width);
}

//@ warpMaximum needs maximum shuffle
// The largest of what the 32 lanes of a warp hold. Integers in the order of the numbers:
// those of negative ones have the other bits turned, and NaN is the one above infinity.
__device__ inline float warpMaximum(float x) {
#ifdef __CUDA_ARCH__
  const int ordered = __float_as_int(maximum(x, x));
  const int largest = __reduce_max_sync(0xffffffff, ordered ^ (ordered >> 31 & 0x7fffffff));
  return __int_as_float(largest ^ (largest >> 31 & 0x7fffffff));
#else
  for (int mask = 16; mask > 0; mask /= 2) x = maximum(x, shuffleXor(x, mask, 32));
  return x;
#endif
}

//@ shuffle.complex needs Complex shuffle
template <class T>
__device__ inline Complex<T> shuffleXor(Complex<T> x, int mask, int width) {
  return {shuffleXor(x.re, mask, width), shuffleXor(x.im, mask, width)};
}

template <class T>
__device__ inline Complex<T> shuffleDown(Complex<T> x, int delta, int width) {
  return {shuffleDown(x.re, delta, width), shuffleDown(x.im, delta, width)};
}

template <class T>
__device__ inline Complex<T> shuffleUp(Complex<T> x, int delta, int width) {
  return {shuffleUp(x.re, delta, width), shuffleUp(x.im, delta, width)};
}

template <class T>
__device__ inline Complex<T> shuffleAt(Complex<T> x, int lane, int width) {
  return {shuffleAt(x.re, lane, width), shuffleAt(x.im, lane, width)};
}
