// One warp a row, WARPS rows a block, four elements at a time where rows are aligned for it.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_rows(const float* __restrict__ x, int* __restrict__ y, long long rows,
              long long cols_wide) {
  const int cols = (int)cols_wide;
  const int lane = threadIdx.x;
  const long long row = (long long)blockIdx.x * WARPS + threadIdx.y;
  if (row >= rows) return;
  x += row * cols;
  const int fours = cols % 4 == 0 ? cols / 4 : 0;
  float top = x[0];
  int at = 0;
  const auto see = [&](float value, int c) {
    if (value > top) {
      top = value;
      at = c;
    }
  };
#pragma unroll UNROLL
  for (int f = lane; f < fours; f += 32) {
    const float4 value = ((const float4*)x)[f];
    see(value.x, f * 4);
    see(value.y, f * 4 + 1);
    see(value.z, f * 4 + 2);
    see(value.w, f * 4 + 3);
  }
  for (int c = fours * 4 + lane; c < cols; c += 32) see(x[c], c);
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, top, step);
    const int other_at = __shfl_xor_sync(0xffffffffu, at, step);
    if (other > top || (other == top && other_at < at)) {
      top = other;
      at = other_at;
    }
  }
  if (lane == 0) y[row] = at;
}
