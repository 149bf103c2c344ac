// The matrix as one array. Each thread has VECTORS vectors and finds the column of each by a division.
#include <cuda_bf16.h>

struct __align__(2 * VEC) Vector {
  __nv_bfloat16 at[VEC];
};

__device__ float Gelu(float v) { return 0.5f * v * (1 + erff(v * 0.70710678f)); }

extern "C" __global__ void __launch_bounds__(THREADS)
    flat(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ bias,
         __nv_bfloat16* __restrict__ y, int cols, long long count) {
  const long long first = ((long long)blockIdx.x * VECTORS * THREADS + threadIdx.x) * VEC;
#pragma unroll
  for (int v = 0; v < VECTORS; ++v) {
    const long long at = first + (long long)v * THREADS * VEC;
    if (at >= count) return;
    int column = (int)(at % cols);
    const bool whole = at + VEC <= count;
    Vector value;
    if (whole) value = *(const Vector*)(x + at);
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      if (!whole && at + i >= count) break;
      const float sum = __bfloat162float(whole ? value.at[i] : x[at + i]) + __bfloat162float(bias[column]);
      value.at[i] = __float2bfloat16(Gelu(sum));
      if (!whole) y[at + i] = value.at[i];
      // A vector may go on in the next row.
      if (++column == cols) column = 0;
    }
    if (whole) *(Vector*)(y + at) = value;
  }
}
