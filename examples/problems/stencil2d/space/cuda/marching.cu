// Each thread walks down STEPS rows of a column. The sums along a row are needed by three rows of
// the result, so the last two are kept.
extern "C" __global__ void __launch_bounds__(BLOCK)
    marching(const float* __restrict__ from, float* __restrict__ to, long long height_wide,
             long long width_wide) {
  const int height = (int)height_wide;
  const int width = (int)width_wide;
  const int j = blockIdx.x * BLOCK + threadIdx.x;
  const int first = blockIdx.y * STEPS;
  if (j >= width) return;
  const auto along = [&](int i) {
    if (i < 0 || i >= height) return 0.0f;
    const float* row = from + (long long)i * width;
    const float left = j > 0 ? row[j - 1] : 0;
    const float right = j + 1 < width ? row[j + 1] : 0;
    return 0.25f * (left + right) + 0.5f * row[j];
  };
  float above = along(first - 1);
  float here = along(first);
#pragma unroll 4
  for (int i = first; i < first + STEPS; ++i) {
    if (i >= height) return;
    const float below = along(i + 1);
    to[(long long)i * width + j] = 0.25f * (above + below) + 0.5f * here;
    above = here;
    here = below;
  }
}
