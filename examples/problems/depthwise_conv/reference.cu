// One thread an element of a row of the image; its neighbours come from the caches.
extern "C" __global__ void depthwise_conv(const float* x, const float* filter, float* y,
                                          long long height, long long width, long long channels) {
  const int i = blockIdx.y;
  const int e = blockIdx.x * 256 + threadIdx.x;
  const int row = (int)(width * channels);
  if (e >= row) return;
  const int j = e / (int)channels;
  const int c = e % (int)channels;
  float sum = 0;
#pragma unroll
  for (int a = -1; a <= 1; ++a) {
#pragma unroll
    for (int b = -1; b <= 1; ++b) {
      if (i + a < 0 || i + a >= height || j + b < 0 || j + b >= width) continue;
      sum += x[(long long)(i + a) * row + e + b * (int)channels] *
             filter[((a + 1) * 3 + b + 1) * channels + c];
    }
  }
  y[(long long)i * row + e] = sum;
}
