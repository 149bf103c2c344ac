// Square tiles through shared memory; PAD keeps the columns of a tile in different banks.
extern "C" __global__ void __launch_bounds__(TILE* ROWS)
    tiled(const float* __restrict__ x, float* __restrict__ y, long long rows, long long cols) {
  __shared__ float tile[TILE][TILE + PAD];
  const long long column = (long long)blockIdx.x * TILE;
  const long long row = (long long)blockIdx.y * TILE;
  const int lane = threadIdx.x;
#pragma unroll
  for (int i = threadIdx.y; i < TILE; i += ROWS) {
    if (row + i < rows && column + lane < cols) {
      tile[i][lane] = x[(row + i) * cols + column + lane];
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = threadIdx.y; i < TILE; i += ROWS) {
    if (column + i < cols && row + lane < rows) {
      y[(column + i) * rows + row + lane] = tile[lane][i];
    }
  }
}
