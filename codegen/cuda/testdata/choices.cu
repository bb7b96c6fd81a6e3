// Vectors of one of three tensors: one load from an address that is chosen; two loads where memory is of two kinds.
// Uses: blockMemory, move, moveReadOnly.

struct choices_Parameters {
  const float* x;
  const float* y;
  const float* z;
  float* out;
};

extern "C" __global__ void __launch_bounds__(32) choices(const __grid_constant__ choices_Parameters p) {
  const int tx = threadIdx.x;
  float* const tile = (float*)blockMemory();
  alignas(16) float global[4];
  moveReadOnly<16>(&global[0], tx < 9 ? &p.x[tx * 4] : tx < 20 ? &p.y[tx * 4] : &p.z[tx * 4]);
  move<16>(&p.out[tx * 4], &global[0]);
  tile[tx * 4] = global[0];
  tile[tx * 4 + 1] = global[1];
  tile[tx * 4 + 2] = global[2];
  tile[tx * 4 + 3] = global[3];
  alignas(16) float mixed[4];
  if (tx < 5) {
    moveReadOnly<16>(&mixed[0], &p.x[tx * 4]);
  } else {
    move<16>(&mixed[0], &tile[tx * 4]);
  }
  move<16>(&p.out[tx * 4 + 128], &mixed[0]);
}

