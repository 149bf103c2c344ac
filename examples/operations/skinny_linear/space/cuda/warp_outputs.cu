// A warp for each output. Its lanes read the row of the weight in vectors and multiply each with TOKENS
// tokens, which come from the caches. More tokens take more rounds.
#include <cuda_bf16.h>

struct __align__(2 * VEC) Vector {
  __nv_bfloat16 at[VEC];
};

__device__ Vector Load(const __nv_bfloat16* from, int left, bool aligned) {
  if (aligned && left >= VEC) return *(const Vector*)from;
  Vector value;
#pragma unroll
  for (int i = 0; i < VEC; ++i) value.at[i] = i < left ? from[i] : __float2bfloat16(0);
  return value;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_outputs(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ weight,
                 const __nv_bfloat16* __restrict__ bias, __nv_bfloat16* __restrict__ y, int tokens,
                 int outputs, int inputs) {
  const int output = blockIdx.x * WARPS + threadIdx.y;
  if (output >= outputs) return;
  const __nv_bfloat16* const row = weight + (long long)output * inputs;
  const bool aligned = inputs % VEC == 0;
  for (int first = 0; first < tokens; first += TOKENS) {
    float sum[TOKENS] = {};
#pragma unroll UNROLL
    for (int k = threadIdx.x * VEC; k < inputs; k += 32 * VEC) {
      const Vector w = Load(row + k, inputs - k, aligned);
#pragma unroll
      for (int t = 0; t < TOKENS; ++t) {
        if (first + t >= tokens) break;
        const Vector v = Load(x + (long long)(first + t) * inputs + k, inputs - k, aligned);
#pragma unroll
        for (int i = 0; i < VEC; ++i) sum[t] += __bfloat162float(w.at[i]) * __bfloat162float(v.at[i]);
      }
    }
#pragma unroll
    for (int t = 0; t < TOKENS; ++t) {
      for (int step = 16; step > 0; step /= 2) sum[t] += __shfl_xor_sync(0xffffffffu, sum[t], step);
      if (threadIdx.x == 0 && first + t < tokens) {
        y[(long long)(first + t) * outputs + output] = __float2bfloat16(sum[t] + __bfloat162float(bias[output]));
      }
    }
  }
}
