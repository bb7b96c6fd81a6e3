// A barrier of a cluster.
// Uses: clusterBarrier, clusterFence, clusterIdx.

struct clusters_Parameters {
  int* x;
  int* y;
};

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(1) clusters(const __grid_constant__ clusters_Parameters p) {
  const int bx = blockIdx.x;
  const int rank = clusterIdxX();
  p.x[bx] = bx;
  clusterFence();
  clusterBarrier();
  p.y[bx] = p.x[bx - rank * 2 + 1];
}

