// A warp for each row of up to 1024 values. Value i is in register i / 32 of lane i % 32: steps of 32 and
// more are between registers, shorter ones between lanes.
constexpr int kKept = 32;

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_rows(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  const int lane = threadIdx.x;
  const float scale = rsqrtf((float)cols);
  for (int row = blockIdx.x * WARPS + threadIdx.y; row < rows; row += gridDim.x * WARPS) {
    const float* const from = x + (long long)row * cols;
    float* const to = y + (long long)row * cols;
    float value[kKept];
#pragma unroll
    for (int j = 0; j < kKept; ++j) value[j] = 32 * j + lane < cols ? from[32 * j + lane] : 0;
#pragma unroll
    for (int step = 1; step < kKept; step *= 2) {
      if (step * 32 >= cols) break;
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
      if (step >= cols) break;
#pragma unroll
      for (int j = 0; j < kKept; ++j) {
        if (32 * j >= cols) break;
        const float other = __shfl_xor_sync(0xffffffffu, value[j], step);
        value[j] = (lane & step) != 0 ? other - value[j] : value[j] + other;
      }
    }
#pragma unroll
    for (int j = 0; j < kKept; ++j) {
      if (32 * j + lane < cols) to[32 * j + lane] = value[j] * scale;
    }
  }
}
