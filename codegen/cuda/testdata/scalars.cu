// Numbers from the host and constants.
// Uses: Complex, Half, Half.toFloat, complex.operators, mulWrapping, subWrapping.

struct scalars_Parameters {
  float* y;
  Complex<float>* z;
  long long* w;
  float alpha;
  Half half;
  unsigned char on;
  Complex<float> turn;
  long long big;
};

extern "C" __global__ void __launch_bounds__(3) scalars(const __grid_constant__ scalars_Parameters p) {
  const int tx = threadIdx.x;
  p.y[tx] = p.on != 0 ? p.alpha + toFloat(p.half) : 0x1.99999ap-04f;
  p.z[tx] = p.turn * (Complex<float>{1.0f, -0.5f} + p.turn);
  p.w[tx] = subWrapping((-9223372036854775807ll - 1), mulWrapping(p.big, (long long)tx));
}

