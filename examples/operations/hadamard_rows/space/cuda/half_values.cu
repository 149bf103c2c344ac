// Mistake: values are kept in float16 between the steps, and rounded ten times.
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(THREADS)
    half_values(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  extern __shared__ __half halves[];
  const long long first = (long long)blockIdx.x * cols;
  for (int i = threadIdx.x; i < cols; i += THREADS) halves[i] = __float2half(x[first + i]);
  __syncthreads();
  for (int step = 1; step < cols; step *= 2) {
    for (int pair = threadIdx.x; pair < cols / 2; pair += THREADS) {
      __half* const at = halves + pair / step * step * 2 + pair % step;
      const __half a = at[0];
      const __half b = at[step];
      at[0] = __hadd(a, b);
      at[step] = __hsub(a, b);
    }
    __syncthreads();
  }
  const float scale = rsqrtf((float)cols);
  for (int i = threadIdx.x; i < cols; i += THREADS) y[first + i] = __half2float(halves[i]) * scale;
}
