// A barrier of the grid.
// Uses: gridBarrier.

struct grid_barrier_Parameters {
  float* x;
  float* y;
  long long* word;
};

extern "C" __global__ void __launch_bounds__(32) grid_barrier(const __grid_constant__ grid_barrier_Parameters p) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  p.x[bx * 32 + tx] = p.x[bx * 32 + tx] + p.x[bx * 32 + tx];
  gridBarrier(&p.word[0]);
  p.y[bx * 32 + tx] = p.x[95 - bx * 32 - tx];
  gridBarrier(&p.word[0]);
  p.x[bx * 32 + tx] = p.y[95 - bx * 32 - tx];
}

