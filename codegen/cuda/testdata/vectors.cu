// Vector accesses of 16 bytes, a narrow type, an unrolled loop over registers.
// Uses: BFloat16, BFloat16.inWords, moveReadOnlyStreaming, sigmoid, storeStreaming, toBFloat16.

struct vectors_Parameters {
  int n;
  const BFloat16* x;
  BFloat16* y;
};

extern "C" __global__ void __launch_bounds__(128) vectors(const __grid_constant__ vectors_Parameters p) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  if (bx * 1024 + tx * 8 < p.n) {
    alignas(16) BFloat16 x_1[8];
    alignas(16) BFloat16 y_1[8];
    moveReadOnlyStreaming<16>(&x_1[0], &p.x[bx * 1024 + tx * 8]);
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float v0 = toFloat(x_1, i);
      y_1[i] = toBFloat16(v0 * sigmoid(v0));
    }
    storeStreaming<16>(&p.y[bx * 1024 + tx * 8], &y_1[0]);
  }
}

