// Stores in the shared memory of another block of a cluster.
// Uses: blockMemory, clusterBarrier, ofPeer, readOnly, tellStart, waitForStarts.

struct peers_Parameters {
  const float* x;
  float* y;
};

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(8) peers(const __grid_constant__ peers_Parameters p) {
  const int tx = threadIdx.x;
  const int bx = blockIdx.x;
  float* const from = (float*)blockMemory();
  tellStart();
  waitForStarts();
  *ofPeer(&from[tx], (bx + 1) % 4) = readOnly(&p.x[tx + bx * 8]);
  clusterBarrier();
  p.y[tx + bx * 8] = from[tx];
}

