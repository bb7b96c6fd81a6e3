// Asynchronous copies by policies of the second cache, with guards and without.
// Uses: blockMemory, commitAsync, copyAsyncEvictFirst, copyAsyncEvictFirst.guarded, copyAsyncEvictLast, copyAsyncEvictLast.guarded, copyAsyncEvictLastIf, copyAsyncEvictLastIf.guarded, waitAsync.

struct copy_policies_Parameters {
  const float* x;
  float* y;
};

extern "C" __global__ void __launch_bounds__(8) copy_policies(const __grid_constant__ copy_policies_Parameters p) {
  const int tx = threadIdx.x;
  float* const tile = (float*)blockMemory();
  copyAsyncEvictFirst<4>(&tile[tx * 4], &p.x[tx * 4]);
  copyAsyncEvictFirst<4>(&tile[tx * 4 + 1], &p.x[tx * 4 + 1]);
  copyAsyncEvictFirst<4>(&tile[tx * 4 + 2], &p.x[tx * 4 + 2]);
  copyAsyncEvictFirst<4>(&tile[tx * 4 + 3], &p.x[tx * 4 + 3]);
  copyAsyncEvictFirst<4>(&tile[tx * 4 + 32], &p.x[tx * 4 + 32], tx < 4);
  copyAsyncEvictFirst<4>(&tile[tx * 4 + 33], &p.x[tx * 4 + 33], tx < 4);
  copyAsyncEvictFirst<4>(&tile[tx * 4 + 34], &p.x[tx * 4 + 34], tx < 4);
  copyAsyncEvictFirst<4>(&tile[tx * 4 + 35], &p.x[tx * 4 + 35], tx < 4);
  copyAsyncEvictFirst<8>(&tile[tx * 4 + 64], &p.x[tx * 4 + 64]);
  copyAsyncEvictFirst<8>(&tile[tx * 4 + 66], &p.x[tx * 4 + 66]);
  copyAsyncEvictFirst<8>(&tile[tx * 4 + 96], &p.x[tx * 4 + 96], tx < 4);
  copyAsyncEvictFirst<8>(&tile[tx * 4 + 98], &p.x[tx * 4 + 98], tx < 4);
  copyAsyncEvictFirst<16>(&tile[tx * 4 + 128], &p.x[tx * 4 + 128]);
  copyAsyncEvictFirst<16>(&tile[tx * 4 + 160], &p.x[tx * 4 + 160], tx < 4);
  copyAsyncEvictLast<4>(&tile[tx * 4 + 192], &p.x[tx * 4 + 192]);
  copyAsyncEvictLast<4>(&tile[tx * 4 + 193], &p.x[tx * 4 + 193]);
  copyAsyncEvictLast<4>(&tile[tx * 4 + 194], &p.x[tx * 4 + 194]);
  copyAsyncEvictLast<4>(&tile[tx * 4 + 195], &p.x[tx * 4 + 195]);
  copyAsyncEvictLast<4>(&tile[tx * 4 + 224], &p.x[tx * 4 + 224], tx < 4);
  copyAsyncEvictLast<4>(&tile[tx * 4 + 225], &p.x[tx * 4 + 225], tx < 4);
  copyAsyncEvictLast<4>(&tile[tx * 4 + 226], &p.x[tx * 4 + 226], tx < 4);
  copyAsyncEvictLast<4>(&tile[tx * 4 + 227], &p.x[tx * 4 + 227], tx < 4);
  copyAsyncEvictLast<8>(&tile[tx * 4 + 256], &p.x[tx * 4 + 256]);
  copyAsyncEvictLast<8>(&tile[tx * 4 + 258], &p.x[tx * 4 + 258]);
  copyAsyncEvictLast<8>(&tile[tx * 4 + 288], &p.x[tx * 4 + 288], tx < 4);
  copyAsyncEvictLast<8>(&tile[tx * 4 + 290], &p.x[tx * 4 + 290], tx < 4);
  copyAsyncEvictLast<16>(&tile[tx * 4 + 320], &p.x[tx * 4 + 320]);
  copyAsyncEvictLast<16>(&tile[tx * 4 + 352], &p.x[tx * 4 + 352], tx < 4);
  copyAsyncEvictLastIf<4>(&tile[tx * 4 + 384], &p.x[tx * 4 + 384], tx < 4);
  copyAsyncEvictLastIf<4>(&tile[tx * 4 + 385], &p.x[tx * 4 + 385], tx < 4);
  copyAsyncEvictLastIf<4>(&tile[tx * 4 + 386], &p.x[tx * 4 + 386], tx < 4);
  copyAsyncEvictLastIf<4>(&tile[tx * 4 + 387], &p.x[tx * 4 + 387], tx < 4);
  copyAsyncEvictLastIf<4>(&tile[tx * 4 + 416], &p.x[tx * 4 + 416], tx < 4, tx < 4);
  copyAsyncEvictLastIf<4>(&tile[tx * 4 + 417], &p.x[tx * 4 + 417], tx < 4, tx < 4);
  copyAsyncEvictLastIf<4>(&tile[tx * 4 + 418], &p.x[tx * 4 + 418], tx < 4, tx < 4);
  copyAsyncEvictLastIf<4>(&tile[tx * 4 + 419], &p.x[tx * 4 + 419], tx < 4, tx < 4);
  copyAsyncEvictLastIf<8>(&tile[tx * 4 + 448], &p.x[tx * 4 + 448], tx < 4);
  copyAsyncEvictLastIf<8>(&tile[tx * 4 + 450], &p.x[tx * 4 + 450], tx < 4);
  copyAsyncEvictLastIf<8>(&tile[tx * 4 + 480], &p.x[tx * 4 + 480], tx < 4, tx < 4);
  copyAsyncEvictLastIf<8>(&tile[tx * 4 + 482], &p.x[tx * 4 + 482], tx < 4, tx < 4);
  copyAsyncEvictLastIf<16>(&tile[tx * 4 + 512], &p.x[tx * 4 + 512], tx < 4);
  copyAsyncEvictLastIf<16>(&tile[tx * 4 + 544], &p.x[tx * 4 + 544], tx < 4, tx < 4);
  commitAsync();
  waitAsync<0>();
  #pragma unroll 1
  for (int group = 0; group < 18; ++group) {
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      (p.y + tx * 4)[group * 32 + j] = tile[tx * 4 + group * 32 + j];
    }
  }
}

