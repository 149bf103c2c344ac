// Mistake: no barrier between steps up to 32, in the belief that a warp has its own values. Pairs are
// distributed over threads anew in each step, so that this holds only where a step does not reach
// another warp's pairs.
extern "C" __global__ void __launch_bounds__(THREADS)
    missing_barrier(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  extern __shared__ float values[];
  const long long first = (long long)blockIdx.x * cols;
  for (int i = threadIdx.x; i < cols; i += THREADS) values[i] = x[first + i];
  __syncthreads();
  for (int step = 1; step < cols; step *= 2) {
    for (int pair = threadIdx.x; pair < cols / 2; pair += THREADS) {
      float* const at = values + pair / step * step * 2 + pair % step;
      const float a = at[0];
      const float b = at[step];
      at[0] = a + b;
      at[step] = a - b;
    }
    if (step >= 64) {
      __syncthreads();
    } else {
      __syncwarp();
    }
  }
  __syncthreads();
  const float scale = rsqrtf((float)cols);
  for (int i = threadIdx.x; i < cols; i += THREADS) y[first + i] = values[i] * scale;
}
