// Mistake: the scale is that of rows of 1024 values, whatever their length is.
constexpr int kKept = 32;

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    fixed_scale(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  const int lane = threadIdx.x;
  const int row = blockIdx.x * WARPS + threadIdx.y;
  if (row >= rows) return;
  const float* const from = x + (long long)row * cols;
  float* const to = y + (long long)row * cols;
  float value[kKept];
#pragma unroll
  for (int j = 0; j < kKept; ++j) value[j] = 32 * j + lane < cols ? from[32 * j + lane] : 0;
  // Steps past the end of a row add zeros.
#pragma unroll
  for (int step = 1; step < kKept; step *= 2) {
#pragma unroll
    for (int j = 0; j < kKept; ++j) {
      if ((j & step) != 0) continue;
      const float a = value[j];
      const float b = value[j + step];
      value[j] = a + b;
      value[j + step] = a - b;
    }
  }
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
#pragma unroll
    for (int j = 0; j < kKept; ++j) {
      const float other = __shfl_xor_sync(0xffffffffu, value[j], step);
      value[j] = (lane & step) != 0 ? other - value[j] : value[j] + other;
    }
  }
#pragma unroll
  for (int j = 0; j < kKept; ++j) {
    if (32 * j + lane < cols) to[32 * j + lane] = value[j] * 0.03125f;
  }
}
