// One thread a column for CHUNK rows, without shared memory.
extern "C" __global__ void __launch_bounds__(BLOCK)
    thread_columns(const float* __restrict__ x, float* __restrict__ parts, long long rows,
                   long long cols) {
  const long long column = (long long)blockIdx.x * BLOCK + threadIdx.x;
  if (column >= cols) return;
  const long long first = (long long)blockIdx.y * CHUNK;
  const long long last = first + CHUNK < rows ? first + CHUNK : rows;
  float sum = 0;
#pragma unroll UNROLL
  for (long long r = first; r < last; ++r) sum += x[r * cols + column];
  parts[blockIdx.y * cols + column] = sum;
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
