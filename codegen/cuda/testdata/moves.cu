// Moves of 2, 4 and 8 bytes between global, shared and local memory; Bools that are moved are bytes.
// Uses: Half, blockMemory, move, moveReadOnly, moveStreaming.

struct moves_Parameters {
  const Half* x;
  Half* y;
  unsigned char* flags;
  unsigned char* kept;
};

extern "C" __global__ void __launch_bounds__(16) moves(const __grid_constant__ moves_Parameters p) {
  const int tx = threadIdx.x;
  Half* const tile = (Half*)blockMemory();
  alignas(16) Half r[4];
  alignas(16) unsigned char bits[4];
  moveReadOnly<8>(&r[0], &p.x[tx * 4]);
  move<8>(&tile[tx * 4], &r[0]);
  move<4>(&r[0], &tile[tx * 4 + 2]);
  move<2>(&r[2], &tile[tx * 4]);
  move<8>(&p.y[tx * 4], &r[0]);
  moveStreaming<4>(&bits[0], &p.flags[tx * 4]);
  bits[0] = !(bits[0] != 0);
  move<4>(&p.kept[tx * 4], &bits[0]);
}

