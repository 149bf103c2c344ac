// Mistake: takes for granted that a vector lies in one row, which holds only where VEC divides the columns.
#include <cuda_bf16.h>

struct __align__(2 * VEC) Vector {
  __nv_bfloat16 at[VEC];
};

__device__ float Gelu(float v) { return 0.5f * v * (1 + erff(v * 0.70710678f)); }

extern "C" __global__ void __launch_bounds__(THREADS)
    one_row_vectors(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ bias,
                    __nv_bfloat16* __restrict__ y, int cols, long long count) {
  const long long at = ((long long)blockIdx.x * THREADS + threadIdx.x) * VEC;
  const int column = (int)(at % cols);
  if (at + VEC <= count) {
    Vector value = *(const Vector*)(x + at);
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      // Past the end of the row this is the bias of its last column.
      const float added = __bfloat162float(bias[min(column + i, cols - 1)]);
      value.at[i] = __float2bfloat16(Gelu(__bfloat162float(value.at[i]) + added));
    }
    *(Vector*)(y + at) = value;
    return;
  }
  for (long long i = at; i < count; ++i) {
    y[i] = __float2bfloat16(Gelu(__bfloat162float(x[i]) + __bfloat162float(bias[i % cols])));
  }
}
