// One warp a row, WARPS rows a block, no shared memory.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_rows(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y,
              long long rows, long long cols_wide) {
  const int cols = (int)cols_wide;
  const int lane = threadIdx.x;
  const long long row = (long long)blockIdx.x * WARPS + threadIdx.y;
  if (row >= rows) return;
  x += row * cols;
  y += row * cols;
  float squares = 0;
#pragma unroll UNROLL
  for (int c = lane; c < cols; c += 32) squares += x[c] * x[c];
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
  const float scale = rsqrtf(squares / cols + 1e-6f);
#pragma unroll UNROLL
  for (int c = lane; c < cols; c += 32) y[c] = x[c] * scale * weight[c];
}
