// Atomic additions of each type.
// Uses: BFloat16, Half, atomicAdd.BFloat16, atomicAdd.Half, atomicAdd.signed.

struct atomics_Parameters {
  int* to_i32;
  long long* to_i64;
  unsigned long long* to_u64;
  float* to_f32;
  double* to_f64;
  Half* to_f16;
  BFloat16* to_bf16;
};

extern "C" __global__ void __launch_bounds__(32) atomics(const __grid_constant__ atomics_Parameters p) {
  atomicAdd(&p.to_i32[0], 3);
  atomicAdd(&p.to_i64[0], 3ll);
  atomicAdd(&p.to_u64[0], 3ull);
  atomicAdd(&p.to_f32[0], 0.5f);
  atomicAdd(&p.to_f64[0], 0.5);
  atomicAdd(&p.to_f16[0], Half{0x3800});
  atomicAdd(&p.to_bf16[0], BFloat16{0x3f00});
}

