// Shuffles of each mode, and of types that have none of their own.
// Uses: Complex, Half, Half.toFloat, makeComplex, readOnly, shuffle, shuffle.complex, toHalf.

struct shuffles_Parameters {
  const Half* x;
  Half* y;
  unsigned char* flags;
  Complex<float>* z;
};

extern "C" __global__ void __launch_bounds__(32) shuffles(const __grid_constant__ shuffles_Parameters p) {
  const int tx = threadIdx.x;
  p.y[tx] = toHalf(shuffleDown(toFloat(readOnly(&p.x[tx])), 3, 8));
  const float v0 = toFloat(readOnly(&p.x[tx]));
  const bool v1 = shuffleXor(int(v0 > 0.0f), 1, 32) != 0;
  p.flags[tx] = !isnan(v0) && v1;
  const float v2 = toFloat(readOnly(&p.x[tx]));
  p.z[tx] = shuffleAt(makeComplex(v2, v2), 31 - tx, 32);
  __syncwarp();
}

