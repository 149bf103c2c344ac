// A block for some rows, which lie in shared memory. In each step a thread adds and subtracts pairs, and
// RADIX steps go from one barrier to the next.
extern "C" __global__ void __launch_bounds__(THREADS)
    shared_steps(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  extern __shared__ float values[];
  const long long first = (long long)blockIdx.x * ROWS * cols;
  const int count = min(ROWS, rows - (int)blockIdx.x * ROWS) * cols;
  for (int i = threadIdx.x; i < count; i += THREADS) values[i] = x[first + i];
  __syncthreads();
  int step = 1;
#if RADIX == 4
  // Two steps at once, on four values.
  for (; step * 4 <= cols; step *= 4) {
    for (int group = threadIdx.x; group < count / 4; group += THREADS) {
      float* const at = values + group / step * step * 4 + group % step;
      const float a = at[0] + at[step];
      const float b = at[0] - at[step];
      const float c = at[2 * step] + at[3 * step];
      const float d = at[2 * step] - at[3 * step];
      at[0] = a + c;
      at[step] = b + d;
      at[2 * step] = a - c;
      at[3 * step] = b - d;
    }
    __syncthreads();
  }
#endif
  for (; step < cols; step *= 2) {
    for (int pair = threadIdx.x; pair < count / 2; pair += THREADS) {
      float* const at = values + pair / step * step * 2 + pair % step;
      const float a = at[0];
      const float b = at[step];
      at[0] = a + b;
      at[step] = a - b;
    }
    __syncthreads();
  }
  const float scale = rsqrtf((float)cols);
  for (int i = threadIdx.x; i < count; i += THREADS) y[first + i] = values[i] * scale;
}
