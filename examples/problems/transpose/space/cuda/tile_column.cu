// Each block moves TILES tiles, one below the other, reading the next while the last is written.
extern "C" __global__ void __launch_bounds__(TILE* ROWS)
    tile_column(const float* __restrict__ x, float* __restrict__ y, long long rows,
                long long cols) {
  constexpr int kParts = TILE / ROWS;
  __shared__ float tile[2][TILE][TILE + 1];
  const long long column = (long long)blockIdx.x * TILE;
  const long long first = (long long)blockIdx.y * TILE * TILES;
  const int lane = threadIdx.x;
  float held[kParts];
  const auto load = [&](long long row) {
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const long long r = row + p * ROWS + threadIdx.y;
      held[p] = r < rows && column + lane < cols ? x[r * cols + column + lane] : 0;
    }
  };
  load(first);
  for (int t = 0; t < TILES; ++t) {
    const long long row = first + t * TILE;
#pragma unroll
    for (int p = 0; p < kParts; ++p) tile[t % 2][p * ROWS + threadIdx.y][lane] = held[p];
    if (t + 1 < TILES) load(row + TILE);
    // One barrier a tile: the other buffer was read before the last one.
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const int i = p * ROWS + threadIdx.y;
      if (column + i < cols && row + lane < rows) {
        y[(column + i) * rows + row + lane] = tile[t % 2][lane][i];
      }
    }
  }
}
