// Asynchronous copies, with a guard, waited for.
// Uses: blockMemory, commitAsync, copyAsync.guarded, waitAsync.

struct pipeline_Parameters {
  int tiles;
  const float* x;
  float* y;
};

extern "C" __global__ void __launch_bounds__(64) pipeline(const __grid_constant__ pipeline_Parameters p) {
  const int tx = threadIdx.x;
  float* const buffer = (float*)blockMemory();
  float acc;
  acc = 0.0f;
  #pragma unroll
  for (int p_ = 0; p_ < 2; ++p_) {
    copyAsync<16>(&buffer[tx * 4 + p_ * 256], &(p.x + tx * 4)[p_ * 256], p_ < p.tiles);
    commitAsync();
  }
  for (int i = 0; i < p.tiles; ++i) {
    waitAsync<1>();
    __syncthreads();
    copyAsync<16>(&buffer[tx * 4 + (i + 2) % 3 * 256], &(p.x + tx * 4)[i * 256 + 512], i + 2 < p.tiles);
    commitAsync();
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      acc = acc + buffer[j - tx * 4 + i % 3 * 256 + 252];
    }
  }
  waitAsync<0>();
  p.y[tx] = acc;
}

