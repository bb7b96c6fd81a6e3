// Conditions with either side empty, values of the thread in expressions.
// Uses: .

struct branches_Parameters {
  int* y;
};

extern "C" __global__ void __launch_bounds__(40) branches(const __grid_constant__ branches_Parameters p) {
  const int tx = threadIdx.x;
  if (tx < 10) {
    p.y[tx] = 1;
  } else {
    p.y[tx] = 2;
  }
  if (!(tx < 20 || 30 < tx)) {
    const int before = p.y[tx];
    p.y[tx] = before + 5;
  }
  __threadfence_block();
}

