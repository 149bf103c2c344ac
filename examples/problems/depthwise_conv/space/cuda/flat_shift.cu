// The image is one long array, each tap a constant shift of it; shifts that leave the array count as
// zeros.
extern "C" __global__ void __launch_bounds__(BLOCK)
    flat_shift(const float* __restrict__ x, const float* __restrict__ filter,
               float* __restrict__ y, long long height, long long width, long long channels_wide) {
  const int channels = (int)channels_wide;
  const int row = (int)width * channels;
  const int elements = (int)height * row;
#pragma unroll
  for (int item = 0; item < ITEMS; ++item) {
    const int e = (blockIdx.x * ITEMS + item) * BLOCK + threadIdx.x;
    if (e >= elements) return;
    const int c = e % channels;
    float sum = 0;
#pragma unroll
    for (int a = -1; a <= 1; ++a) {
#pragma unroll
      for (int b = -1; b <= 1; ++b) {
        const int from = e + a * row + b * channels;
        if (from < 0 || from >= elements) continue;
        sum += x[from] * filter[((a + 1) * 3 + b + 1) * channels + c];
      }
    }
    y[e] = sum;
  }
}
