// A block for ROWS outputs and up to eight tokens. It takes DEPTH inputs of the tokens into shared memory
// at a time, in float32, and each warp multiplies them with rows of the weight.
#include <cuda_bf16.h>

constexpr int kTokens = 8;

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    shared_tokens(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ weight,
                  const __nv_bfloat16* __restrict__ bias, __nv_bfloat16* __restrict__ y,
                  int tokens, int outputs, int inputs) {
  __shared__ float values[kTokens][DEPTH];
  constexpr int kRows = ROWS / WARPS;
  const int token = blockIdx.y * kTokens;
  const int count = min(kTokens, tokens - token);
  const int row = blockIdx.x * ROWS + threadIdx.y * kRows;
  float sum[kRows][kTokens] = {};
  for (int start = 0; start < inputs; start += DEPTH) {
    const int depth = min(DEPTH, inputs - start);
    __syncthreads();
    for (int i = threadIdx.y * 32 + threadIdx.x; i < kTokens * DEPTH; i += 32 * WARPS) {
      const int t = i / DEPTH;
      const int k = i % DEPTH;
      const bool inside = t < count && k < depth;
      values[t][k] = inside ? __bfloat162float(x[(long long)(token + t) * inputs + start + k]) : 0;
    }
    __syncthreads();
    for (int k = threadIdx.x; k < depth; k += 32) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (row + r >= outputs) break;
        const float w = __bfloat162float(weight[(long long)(row + r) * inputs + start + k]);
#pragma unroll
        for (int t = 0; t < kTokens; ++t) sum[r][t] += w * values[t][k];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      float total = sum[r][t];
      for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
      if (threadIdx.x == 0 && row + r < outputs && t < count) {
        y[(long long)(token + t) * outputs + row + r] = __float2bfloat16(total + __bfloat162float(bias[row + r]));
      }
    }
  }
}
