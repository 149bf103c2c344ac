// Both sweeps as one of five by five, which is the same only away from the edges.
extern "C" __global__ void __launch_bounds__(X* Y)
    composed(const float* __restrict__ x, float* __restrict__ y, long long height_wide,
             long long width_wide) {
  const int height = (int)height_wide;
  const int width = (int)width_wide;
  constexpr float kWeight[5] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};
  const int j = blockIdx.x * X + threadIdx.x;
  const int i = blockIdx.y * Y + threadIdx.y;
  if (i >= height || j >= width) return;
  float sum = 0;
#pragma unroll
  for (int di = -2; di <= 2; ++di) {
    if (i + di < 0 || i + di >= height) continue;
#pragma unroll
    for (int dj = -2; dj <= 2; ++dj) {
      if (j + dj < 0 || j + dj >= width) continue;
      sum += kWeight[di + 2] * kWeight[dj + 2] * x[(long long)(i + di) * width + j + dj];
    }
  }
  y[(long long)i * width + j] = sum;
}
