// Each thread walks down STEPS rows of a column with VEC channels of its filter in registers. A row
// of the input contributes to three rows of the result, whose sums are carried along.
struct __align__(4 * VEC) Vector {
  float at[VEC];
};

extern "C" __global__ void __launch_bounds__(BLOCK)
    marching(const float* __restrict__ x, const float* __restrict__ filter, float* __restrict__ y,
             long long height_wide, long long width_wide, long long channels_wide) {
  const int height = (int)height_wide;
  const int width = (int)width_wide;
  const int channels = (int)channels_wide;
  const int groups = (channels + VEC - 1) / VEC;
  const int e = blockIdx.x * BLOCK + threadIdx.x;
  const int c = e % groups * VEC;
  const int j = e / groups;
  const int first = blockIdx.y * STEPS;
  const int last = min(first + STEPS, height);
  if (j >= width) return;
  const bool aligned = channels % VEC == 0;
  const auto load = [&](const float* from) {
    if (aligned) return *(const Vector*)from;
    Vector value;
#pragma unroll
    for (int v = 0; v < VEC; ++v) value.at[v] = c + v < channels ? from[v] : 0;
    return value;
  };
  Vector tap[3][3];
#pragma unroll
  for (int a = 0; a < 3; ++a) {
#pragma unroll
    for (int b = 0; b < 3; ++b) tap[a][b] = load(filter + (a * 3 + b) * channels + c);
  }
  // Of the rows above, at and below the row of the input.
  float above[VEC] = {};
  float here[VEC] = {};
  for (int i = first - 1; i <= last; ++i) {
    float below[VEC] = {};
    if (i >= 0 && i < height) {
      const float* row = x + ((long long)i * width + j) * channels + c;
#pragma unroll
      for (int b = 0; b < 3; ++b) {
        if (j + b < 1 || j + b > width) continue;
        const Vector value = load(row + (b - 1) * channels);
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
          above[v] += value.at[v] * tap[2][b].at[v];
          here[v] += value.at[v] * tap[1][b].at[v];
          below[v] += value.at[v] * tap[0][b].at[v];
        }
      }
    }
    if (i > first) {
      float* out = y + ((long long)(i - 1) * width + j) * channels + c;
      if (aligned) {
        Vector value;
#pragma unroll
        for (int v = 0; v < VEC; ++v) value.at[v] = above[v];
        *(Vector*)out = value;
      } else {
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
          if (c + v < channels) out[v] = above[v];
        }
      }
    }
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
      above[v] = here[v];
      here[v] = below[v];
    }
  }
}
