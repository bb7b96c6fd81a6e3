// Names that C++ does not take.
// Uses: readOnly.

struct class_Parameters {
  const float* float_;
  const float* expf_;
  float* t2_out_put;
};

extern "C" __global__ void __launch_bounds__(4) class_(const __grid_constant__ class_Parameters p) {
  const int tx = threadIdx.x;
  float float_1;
  float_1 = expf(readOnly(&p.float_[tx]) + readOnly(&p.expf_[tx]));
  p.t2_out_put[tx] = float_1;
}

