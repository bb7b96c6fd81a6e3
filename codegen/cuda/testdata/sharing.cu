// Values that are read twice have names; a value rounded by a cast stays rounded.
// Uses: Half, Half.toFloat, readOnly, toHalf.

struct sharing_Parameters {
  const float* x;
  float* y;
  Half* z;
};

extern "C" __global__ void __launch_bounds__(32) sharing(const __grid_constant__ sharing_Parameters p) {
  const int tx = threadIdx.x;
  const float v0 = expf(readOnly(&p.x[tx]));
  const float v1 = v0 + 1.0f;
  p.y[tx] = (v0 - 1.0f) / (v1 * v1);
  const float v2 = toFloat(toHalf(-(-readOnly(&p.x[tx]))));
  p.z[tx] = toHalf(v2 * v2);
}

