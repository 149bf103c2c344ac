// Tiles of 32 x 32 through shared memory, padded so that columns lie in different banks.
extern "C" __global__ void transpose(const float* x, float* y, long long rows, long long cols) {
  __shared__ float tile[32][33];
  const long long column = blockIdx.x * 32ll;
  const long long row = blockIdx.y * 32ll;
  for (int i = threadIdx.y; i < 32; i += 8) {
    if (row + i < rows && column + threadIdx.x < cols) {
      tile[i][threadIdx.x] = x[(row + i) * cols + column + threadIdx.x];
    }
  }
  __syncthreads();
  for (int i = threadIdx.y; i < 32; i += 8) {
    if (column + i < cols && row + threadIdx.x < rows) {
      y[(column + i) * rows + row + threadIdx.x] = tile[threadIdx.x][i];
    }
  }
}
