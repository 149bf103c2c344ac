// One thread a column for all rows: its single sum loses more than the tolerance allows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    serial_columns(const float* __restrict__ x, float* __restrict__ y, long long rows,
                   long long cols) {
  const long long column = (long long)blockIdx.x * BLOCK + threadIdx.x;
  if (column >= cols) return;
  float sum = 0;
#pragma unroll 8
  for (long long r = 0; r < rows; ++r) sum += x[r * cols + column];
  y[column] = sum;
}
