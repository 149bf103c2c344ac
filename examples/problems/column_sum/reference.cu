// Sums of 1024 rows each, a warp of columns wide; then the sums of those.
extern "C" __global__ void column_sum_parts(const float* x, float* parts, long long rows,
                                            long long cols) {
  __shared__ float sums[8][33];
  const long long column = blockIdx.x * 32ll + threadIdx.x;
  const long long first = blockIdx.y * 1024ll;
  float sum = 0;
  if (column < cols) {
    for (long long r = first + threadIdx.y; r < first + 1024 && r < rows; r += 8) {
      sum += x[r * cols + column];
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && column < cols) {
    for (int i = 1; i < 8; ++i) sum += sums[i][threadIdx.x];
    parts[blockIdx.y * cols + column] = sum;
  }
}

extern "C" __global__ void column_sum_total(const float* parts, float* y, long long rows,
                                            long long cols) {
  const long long column = blockIdx.x * 128ll + threadIdx.x;
  if (column >= cols) return;
  float sum = 0;
  for (long long p = 0; p < (rows + 1023) / 1024; ++p) sum += parts[p * cols + column];
  y[column] = sum;
}
