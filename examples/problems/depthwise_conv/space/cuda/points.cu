// One thread an element: CHANNELS of them side by side for each of PIXELS pixels.
extern "C" __global__ void __launch_bounds__(CHANNELS * PIXELS)
    points(const float* __restrict__ x, const float* __restrict__ filter, float* __restrict__ y,
           long long height_wide, long long width_wide, long long channels_wide) {
  const int height = (int)height_wide;
  const int width = (int)width_wide;
  const int channels = (int)channels_wide;
  const int parts = (channels + CHANNELS - 1) / CHANNELS;
  const int c = blockIdx.x % parts * CHANNELS + threadIdx.x;
  const int j = blockIdx.x / parts * PIXELS + threadIdx.y;
  const int i = blockIdx.y;
  if (c >= channels || j >= width) return;
  float sum = 0;
#pragma unroll
  for (int a = -1; a <= 1; ++a) {
#pragma unroll
    for (int b = -1; b <= 1; ++b) {
      if (i + a < 0 || i + a >= height || j + b < 0 || j + b >= width) continue;
      sum += x[((long long)(i + a) * width + j + b) * channels + c] *
             filter[((a + 1) * 3 + b + 1) * channels + c];
    }
  }
  y[((long long)i * width + j) * channels + c] = sum;
}
