// A reduction over warps, block and grid; the last block to arrive combines.
// Uses: atomicAdd.signed, blockMemory, readOnly, shuffle.

struct ticket_Parameters {
  int n;
  const float* x;
  float* y;
  float* partial;
  long long* counter;
};

extern "C" __global__ void __launch_bounds__(128) ticket(const __grid_constant__ ticket_Parameters p) {
  const int tx = threadIdx.x;
  const int bx = blockIdx.x;
  float* const scratch = (float*)blockMemory();
  unsigned char* const flag = (unsigned char*)(blockMemory() + 16);
  float r;
  r = 0.0f;
  if (tx + bx * 128 < p.n) {
    r = readOnly(&p.x[tx + bx * 128]);
  }
  r = r + (shuffleXor(r, 16, 32));
  r = r + (shuffleXor(r, 8, 32));
  r = r + (shuffleXor(r, 4, 32));
  r = r + (shuffleXor(r, 2, 32));
  r = r + (shuffleXor(r, 1, 32));
  if (tx % 32 == 0) {
    scratch[tx / 32] = r;
  }
  __syncthreads();
  r = 0.0f;
  if (tx % 32 < 4) {
    r = scratch[tx % 32];
  }
  r = r + (shuffleXor(r, 16, 32));
  r = r + (shuffleXor(r, 8, 32));
  r = r + (shuffleXor(r, 4, 32));
  r = r + (shuffleXor(r, 2, 32));
  r = r + (shuffleXor(r, 1, 32));
  if (tx == 0) {
    p.partial[bx] = r;
    __threadfence();
    const long long arrival = atomicAdd(&p.counter[0], 1ll);
    __threadfence();
    flag[0] = (p.n + 127) / 128 == arrival + 1;
  }
  __syncthreads();
  const bool last = flag[0] != 0;
  if (last) {
    r = 0.0f;
    #pragma unroll 1
    for (int k = tx; k < (p.n + 127) / 128; k += 128) {
      r = r + p.partial[k];
    }
    r = r + (shuffleXor(r, 16, 32));
    r = r + (shuffleXor(r, 8, 32));
    r = r + (shuffleXor(r, 4, 32));
    r = r + (shuffleXor(r, 2, 32));
    r = r + (shuffleXor(r, 1, 32));
    if (tx % 32 == 0) {
      scratch[tx / 32] = r;
    }
    __syncthreads();
    r = 0.0f;
    if (tx % 32 < 4) {
      r = scratch[tx % 32];
    }
    r = r + (shuffleXor(r, 16, 32));
    r = r + (shuffleXor(r, 8, 32));
    r = r + (shuffleXor(r, 4, 32));
    r = r + (shuffleXor(r, 2, 32));
    r = r + (shuffleXor(r, 1, 32));
    if (tx == 0) {
      p.y[0] = r;
      p.counter[0] = 0ll;
    }
  }
}

