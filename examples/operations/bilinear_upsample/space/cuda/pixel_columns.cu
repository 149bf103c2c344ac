// A thread goes down a column of pixels and writes four results for each. It keeps the mixtures of the
// three rows that it needs in registers, so that a pixel is loaded three times in all.
extern "C" __global__ void __launch_bounds__(THREADS)
    pixel_columns(const float* __restrict__ x, float* __restrict__ y, int height, int width) {
  const int column = blockIdx.z * THREADS + threadIdx.x;
  if (column >= width) return;
  const int first = blockIdx.y * ROWS;
  const int last = min(first + ROWS, height);
  const int left = max(column - 1, 0);
  const int right = min(column + 1, width - 1);
  const float* const image = x + (long long)blockIdx.x * height * width;
  float* const to = y + (long long)blockIdx.x * 4 * height * width;
  const auto mix = [&](int row) {
    const float* const at = image + (long long)row * width;
    return make_float2(0.75f * at[column] + 0.25f * at[left], 0.75f * at[column] + 0.25f * at[right]);
  };
  float2 above = mix(max(first - 1, 0));
  float2 now = mix(first);
#pragma unroll UNROLL
  for (int row = first; row < last; ++row) {
    const float2 below = mix(min(row + 1, height - 1));
    float2* const upper = (float2*)(to + 4ll * row * width + 2 * column);
    float2* const lower = (float2*)(to + (4ll * row + 2) * width + 2 * column);
    *upper = make_float2(0.75f * now.x + 0.25f * above.x, 0.75f * now.y + 0.25f * above.y);
    *lower = make_float2(0.75f * now.x + 0.25f * below.x, 0.75f * now.y + 0.25f * below.y);
    above = now;
    now = below;
  }
}
