// One warp a row, WARPS rows a block, no shared memory. ONLINE keeps maximum and sum in one pass,
// with a rescaling whenever the maximum grows.
constexpr float kLowest = -3.402823466e38f;

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_rows(const float* __restrict__ x, float* __restrict__ y, long long rows,
              long long cols_wide) {
  const int cols = (int)cols_wide;
  const int lane = threadIdx.x;
  const long long row = (long long)blockIdx.x * WARPS + threadIdx.y;
  if (row >= rows) return;
  x += row * cols;
  y += row * cols;
  float top = kLowest;
  float sum = 0;
#if ONLINE
#pragma unroll UNROLL
  for (int c = lane; c < cols; c += 32) {
    const float value = x[c];
    const float next = fmaxf(top, value);
    sum = sum * __expf(top - next) + __expf(value - next);
    top = next;
  }
  for (int step = 16; step > 0; step /= 2) {
    const float other_top = __shfl_xor_sync(0xffffffffu, top, step);
    const float other_sum = __shfl_xor_sync(0xffffffffu, sum, step);
    const float next = fmaxf(top, other_top);
    sum = sum * __expf(top - next) + other_sum * __expf(other_top - next);
    top = next;
  }
#else
#pragma unroll UNROLL
  for (int c = lane; c < cols; c += 32) top = fmaxf(top, x[c]);
  for (int step = 16; step > 0; step /= 2) {
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
  }
#pragma unroll UNROLL
  for (int c = lane; c < cols; c += 32) sum += __expf(x[c] - top);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
#endif
  const float scale = 1 / sum;
#pragma unroll UNROLL
  for (int c = lane; c < cols; c += 32) y[c] = __expf(x[c] - top) * scale;
}
