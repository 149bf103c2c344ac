// Mistake: the tile has no pixels beyond its sides, so that its edge is repeated inside the image too.
extern "C" __global__ void __launch_bounds__(THREADS)
    tile_edges(const float* __restrict__ x, float* __restrict__ y, int height, int width) {
  __shared__ float tile[SIDE][SIDE];
  const int top = blockIdx.y * SIDE;
  const int left = blockIdx.z * SIDE;
  const int rows = min(SIDE, height - top);
  const int columns = min(SIDE, width - left);
  const float* const image = x + (long long)blockIdx.x * height * width;
  for (int i = threadIdx.x; i < SIDE * SIDE; i += THREADS) {
    if (i / SIDE < rows && i % SIDE < columns) tile[i / SIDE][i % SIDE] = image[(long long)(top + i / SIDE) * width + left + i % SIDE];
  }
  __syncthreads();
  float* const to = y + (long long)blockIdx.x * 4 * height * width;
  for (int i = threadIdx.x; i < 4 * SIDE * SIDE; i += THREADS) {
    const int row = i / (2 * SIDE);
    const int column = i % (2 * SIDE);
    if (row >= 2 * rows || column >= 2 * columns) continue;
    const int near_row = row / 2;
    const int far_row = min(max(near_row + (row % 2 == 0 ? -1 : 1), 0), rows - 1);
    const int own = column / 2;
    const int other = min(max(own + (column % 2 == 0 ? -1 : 1), 0), columns - 1);
    to[(2ll * top + row) * 2 * width + 2 * left + column] =
        0.75f * (0.75f * tile[near_row][own] + 0.25f * tile[near_row][other]) +
        0.25f * (0.75f * tile[far_row][own] + 0.25f * tile[far_row][other]);
  }
}
