// Each thread keeps the rounding error of its sum and takes it off the next addend.
extern "C" __global__ void __launch_bounds__(32 * LINES)
    compensated(const float* __restrict__ x, float* __restrict__ parts, long long rows,
                long long cols) {
  __shared__ float sums[LINES][33];
  const long long column = blockIdx.x * 32ll + threadIdx.x;
  const long long first = (long long)blockIdx.y * CHUNK;
  const long long last = first + CHUNK < rows ? first + CHUNK : rows;
  float sum = 0;
  float lost = 0;
  if (column < cols) {
#pragma unroll 4
    for (long long r = first + threadIdx.y; r < last; r += LINES) {
      const float addend = __fadd_rn(x[r * cols + column], -lost);
      const float next = __fadd_rn(sum, addend);
      lost = __fadd_rn(__fadd_rn(next, -sum), -addend);
      sum = next;
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && column < cols) {
    for (int i = 1; i < LINES; ++i) sum += sums[i][threadIdx.x];
    parts[blockIdx.y * cols + column] = sum;
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
