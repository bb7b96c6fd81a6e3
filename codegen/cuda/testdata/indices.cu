// Index expressions: signs, parentheses, choices, names, 64 bits.
// Uses: floorDiv, integer.floorMod.

struct indices_Parameters {
  long long n;
  long long shift;
  long long* y;
};

extern "C" __global__ void __launch_bounds__(32) indices(const __grid_constant__ indices_Parameters p) {
  const long long bx = blockIdx.x;
  const long long tx = threadIdx.x;
  if (bx * 32 + tx < p.n) {
    const long long h = bx * 96 - p.shift + tx * 3;
    p.y[bx * 256 + tx * 8] = bx * 13 + floorDiv(bx * 5 - p.shift + tx * 3, 7ll);
    p.y[bx * 256 + tx * 8 + 1] = floorMod(bx * 5 - p.shift + tx * 3, 7ll);
    p.y[bx * 256 + tx * 8 + 2] = bx * 4 + (bx * 4 + tx) / 7;
    p.y[bx * 256 + tx * 8 + 3] = bx * ((bx * 4 + tx) % 7) * 32 - (bx * 4 + tx) % 7 * 2 + tx * ((bx * 4 + tx) % 7);
    p.y[bx * 256 + tx * 8 + 4] = min(p.n, max(h, -5ll));
    const long long v0 = bx * 96 + tx * 3 < p.shift || (8 < bx * 32 + tx && bx * 32 + tx < 12) ? p.shift - bx * 96 - tx * 3 : 1099511627776ll;
    p.y[bx * 256 + tx * 8 + 5] = v0;
    p.y[bx * 256 + tx * 8 + 6] = bx * -32 - tx - 1;
    p.y[bx * 256 + tx * 8 + 7] = p.shift * 2 - bx * 192 - tx * 6;
  }
}

