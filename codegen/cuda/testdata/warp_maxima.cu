// The largest element of a warp.
// Uses: readOnly, warpMaximum.

struct warpMaxima_Parameters {
  const float* x;
  float* y;
  float* z;
};

extern "C" __global__ void __launch_bounds__(160) warpMaxima(const __grid_constant__ warpMaxima_Parameters p) {
  const int tx = threadIdx.x;
  float r;
  r = warpMaximum(readOnly(&p.x[tx]));
  p.y[tx] = r;
  p.z[tx] = 1 / r;
}

