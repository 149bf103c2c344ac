// PIXELS neighbouring pixels of VEC channels a thread: an element of the input serves up to three
// pixels from a register. Vectors where the channels are aligned for it.
struct __align__(4 * VEC) Vector {
  float at[VEC];
};

extern "C" __global__ void __launch_bounds__(BLOCK)
    pixel_rows(const float* __restrict__ x, const float* __restrict__ filter,
               float* __restrict__ y, long long height_wide, long long width_wide,
               long long channels_wide) {
  const int height = (int)height_wide;
  const int width = (int)width_wide;
  const int channels = (int)channels_wide;
  const int groups = (channels + VEC - 1) / VEC;
  const int e = blockIdx.x * BLOCK + threadIdx.x;
  const int c = e % groups * VEC;
  const int first = e / groups * PIXELS;
  const int i = blockIdx.y;
  if (first >= width) return;
  const bool aligned = channels % VEC == 0;
  const auto load = [&](const float* from) {
    if (aligned) return *(const Vector*)from;
    Vector value;
#pragma unroll
    for (int v = 0; v < VEC; ++v) value.at[v] = c + v < channels ? from[v] : 0;
    return value;
  };
  float sum[PIXELS][VEC] = {};
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    if (i + a < 1 || i + a > height) continue;
    const float* row = x + (long long)(i + a - 1) * width * channels + c;
    Vector tap[3];
#pragma unroll
    for (int b = 0; b < 3; ++b) tap[b] = load(filter + (a * 3 + b) * channels + c);
#pragma unroll
    for (int p = -1; p <= PIXELS; ++p) {
      const int j = first + p;
      if (j < 0 || j >= width) continue;
      const Vector value = load(row + (long long)j * channels);
#pragma unroll
      for (int b = 0; b < 3; ++b) {
        // This pixel is the neighbour at b of pixel p + 1 - b.
        if (p + 1 - b < 0 || p + 1 - b >= PIXELS) continue;
#pragma unroll
        for (int v = 0; v < VEC; ++v) sum[p + 1 - b][v] += value.at[v] * tap[b].at[v];
      }
    }
  }
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
    if (first + p >= width) return;
    float* out = y + ((long long)i * width + first + p) * channels + c;
    if (aligned) {
      Vector value;
#pragma unroll
      for (int v = 0; v < VEC; ++v) value.at[v] = sum[p][v];
      *(Vector*)out = value;
    } else {
#pragma unroll
      for (int v = 0; v < VEC; ++v) {
        if (c + v < channels) out[v] = sum[p][v];
      }
    }
  }
}
