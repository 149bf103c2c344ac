// Four columns and STEPS rows a thread, with vectors where rows are aligned for it; two sweeps.
extern "C" __global__ void __launch_bounds__(BLOCK)
    four_columns(const float* __restrict__ from, float* __restrict__ to, long long height_wide,
                 long long width_wide) {
  const int height = (int)height_wide;
  const int width = (int)width_wide;
  const int j = (blockIdx.x * BLOCK + threadIdx.x) * 4;
  const int first = blockIdx.y * STEPS;
  if (j >= width) return;
  struct Four {
    float at[4];
  };
  const bool aligned = width % 4 == 0;
  const auto along = [&](int i) {
    Four sums = {};
    if (i < 0 || i >= height) return sums;
    const float* row = from + (long long)i * width;
    float near[6];
    near[0] = j > 0 ? row[j - 1] : 0;
    if (aligned) {
      const float4 four = *(const float4*)(row + j);
      near[1] = four.x;
      near[2] = four.y;
      near[3] = four.z;
      near[4] = four.w;
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) near[k + 1] = j + k < width ? row[j + k] : 0;
    }
    near[5] = j + 4 < width ? row[j + 4] : 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      sums.at[k] = 0.25f * (near[k] + near[k + 2]) + 0.5f * near[k + 1];
    }
    return sums;
  };
  Four above = along(first - 1);
  Four here = along(first);
#pragma unroll 2
  for (int i = first; i < first + STEPS; ++i) {
    if (i >= height) return;
    const Four below = along(i + 1);
    float* row = to + (long long)i * width + j;
    Four sums;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      sums.at[k] = 0.25f * (above.at[k] + below.at[k]) + 0.5f * here.at[k];
    }
    if (aligned) {
      *(float4*)row = make_float4(sums.at[0], sums.at[1], sums.at[2], sums.at[3]);
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (j + k < width) row[k] = sums.at[k];
      }
    }
    above = here;
    here = below;
  }
}
