// Sums of CHUNK rows, four columns a thread where rows are aligned for it.
extern "C" __global__ void __launch_bounds__(32 * LINES)
    vector_chunks(const float* __restrict__ x, float* __restrict__ parts, long long rows,
                  long long cols) {
  __shared__ float sums[LINES][4][32];
  const long long column = (blockIdx.x * 32ll + threadIdx.x) * 4;
  const long long first = (long long)blockIdx.y * CHUNK;
  const long long last = first + CHUNK < rows ? first + CHUNK : rows;
  float sum[4] = {0, 0, 0, 0};
  if (column < cols) {
    if (cols % 4 == 0) {
#pragma unroll UNROLL
      for (long long r = first + threadIdx.y; r < last; r += LINES) {
        const float4 value = *(const float4*)(x + r * cols + column);
        sum[0] += value.x;
        sum[1] += value.y;
        sum[2] += value.z;
        sum[3] += value.w;
      }
    } else {
      for (long long r = first + threadIdx.y; r < last; r += LINES) {
        for (int i = 0; i < 4; ++i) {
          if (column + i < cols) sum[i] += x[r * cols + column + i];
        }
      }
    }
  }
  for (int i = 0; i < 4; ++i) sums[threadIdx.y][i][threadIdx.x] = sum[i];
  __syncthreads();
  if (threadIdx.y != 0) return;
  for (int i = 0; i < 4; ++i) {
    for (int line = 1; line < LINES; ++line) sum[i] += sums[line][i][threadIdx.x];
    if (column + i < cols) parts[blockIdx.y * cols + column + i] = sum[i];
  }
}

extern "C" __global__ void __launch_bounds__(128)
    total(const float* __restrict__ parts, float* __restrict__ y, long long rows, long long cols) {
  const long long column = blockIdx.x * 128ll + threadIdx.x;
  if (column >= cols) return;
  const long long count = (rows + CHUNK - 1) / CHUNK;
  float sum = 0;
  for (long long p = 0; p < count; ++p) sum += parts[p * cols + column];
  y[column] = sum;
}
