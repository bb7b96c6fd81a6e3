// Stores in the shared memory of another block of a cluster, which counts them.
// Uses: blockMemory, expectArrivals, readOnly, sendCounted, tellStart, waitForArrivals, waitForStarts.

struct arrivals_Parameters {
  const float* x;
  double* y;
};

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(8) arrivals(const __grid_constant__ arrivals_Parameters p) {
  const int tx = threadIdx.x;
  const int bx = blockIdx.x;
  float* const from = (float*)blockMemory();
  double* const wide = (double*)(blockMemory() + 64);
  long long* const word = (long long*)(blockMemory() + 128);
  expectArrivals(word, 96);
  tellStart();
  waitForStarts();
  sendCounted(&from[tx], (bx + 1) % 4, readOnly(&p.x[tx + bx * 8]), word);
  sendCounted(&wide[tx], (bx + 1) % 4, 2.0, word);
  waitForArrivals(word);
  p.y[tx + bx * 8] = wide[tx] * (double)from[tx];
}

