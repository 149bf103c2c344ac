// A thread for COLUMNS neighbouring results of a row, each of which loads its four pixels through the
// caches.
extern "C" __global__ void __launch_bounds__(THREADS)
    results(const float* __restrict__ x, float* __restrict__ y, int height, int width) {
  const int row = blockIdx.y;
  const int first = (blockIdx.z * THREADS + threadIdx.x) * COLUMNS;
  const float* const image = x + (long long)blockIdx.x * height * width;
  float* const to = y + ((long long)blockIdx.x * 2 * height + row) * 2 * width;
  // An even row lies a quarter above its pixel's centre, an odd one a quarter below.
  const int near_row = row / 2;
  const int far_row = row % 2 == 0 ? max(near_row - 1, 0) : min(near_row + 1, height - 1);
  const float* const near = image + (long long)near_row * width;
  const float* const far = image + (long long)far_row * width;
#pragma unroll
  for (int i = 0; i < COLUMNS; ++i) {
    const int column = first + i;
    if (column >= 2 * width) return;
    const int own = column / 2;
    const int other = column % 2 == 0 ? max(own - 1, 0) : min(own + 1, width - 1);
    to[column] = 0.75f * (0.75f * near[own] + 0.25f * near[other]) +
                 0.25f * (0.75f * far[own] + 0.25f * far[other]);
  }
}
