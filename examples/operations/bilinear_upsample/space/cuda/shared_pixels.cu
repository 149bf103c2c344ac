// A block loads a tile of pixels with one more on each side into shared memory, and its threads write the
// results of the tile in rows.
extern "C" __global__ void __launch_bounds__(THREADS)
    shared_pixels(const float* __restrict__ x, float* __restrict__ y, int height, int width) {
  __shared__ float tile[HEIGHT + 2][WIDTH + 2];
  const int top = blockIdx.y * HEIGHT;
  const int left = blockIdx.z * WIDTH;
  const float* const image = x + (long long)blockIdx.x * height * width;
  for (int i = threadIdx.x; i < (HEIGHT + 2) * (WIDTH + 2); i += THREADS) {
    const int row = min(max(top + i / (WIDTH + 2) - 1, 0), height - 1);
    const int column = min(max(left + i % (WIDTH + 2) - 1, 0), width - 1);
    tile[i / (WIDTH + 2)][i % (WIDTH + 2)] = image[(long long)row * width + column];
  }
  __syncthreads();
  float* const to = y + (long long)blockIdx.x * 4 * height * width;
#pragma unroll 4
  for (int i = threadIdx.x; i < 4 * HEIGHT * WIDTH; i += THREADS) {
    const int row = i / (2 * WIDTH);
    const int column = i % (2 * WIDTH);
    if (2 * top + row >= 2 * height || 2 * left + column >= 2 * width) continue;
    const int near_row = row / 2 + 1;
    const int far_row = near_row + (row % 2 == 0 ? -1 : 1);
    const int own = column / 2 + 1;
    const int other = own + (column % 2 == 0 ? -1 : 1);
    to[(2ll * top + row) * 2 * width + 2 * left + column] =
        0.75f * (0.75f * tile[near_row][own] + 0.25f * tile[near_row][other]) +
        0.25f * (0.75f * tile[far_row][own] + 0.25f * tile[far_row][other]);
  }
}
