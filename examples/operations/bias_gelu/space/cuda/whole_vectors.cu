// Mistake: the elements after the last whole vector are forgotten.
#include <cuda_bf16.h>

struct __align__(2 * VEC) Vector {
  __nv_bfloat16 at[VEC];
};

__device__ float Gelu(float v) { return 0.5f * v * (1 + erff(v * 0.70710678f)); }

extern "C" __global__ void __launch_bounds__(THREADS)
    whole_vectors(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ bias,
                  __nv_bfloat16* __restrict__ y, int cols, long long count) {
  const long long vectors = count / VEC;
  for (long long v = blockIdx.x * (long long)THREADS + threadIdx.x; v < vectors;
       v += (long long)gridDim.x * THREADS) {
    int column = (int)(v * VEC % cols);
    Vector value = ((const Vector*)x)[v];
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      value.at[i] = __float2bfloat16(Gelu(__bfloat162float(value.at[i]) + __bfloat162float(bias[column])));
      if (++column == cols) column = 0;
    }
    ((Vector*)y)[v] = value;
  }
}
