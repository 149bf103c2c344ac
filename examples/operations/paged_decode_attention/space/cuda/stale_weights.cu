// Mistake: where a larger score comes, the sum is corrected and the mixture is not.
#include <cuda_bf16.h>

constexpr int kDim = 64;
constexpr int kPage = 16;

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    stale_weights(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ keys,
                  const __nv_bfloat16* __restrict__ values, const int* __restrict__ table,
                  const int* __restrict__ lengths, __nv_bfloat16* __restrict__ mixed,
                  int all_heads, int heads, int pages_each) {
  const int at_head = blockIdx.x * WARPS + threadIdx.y;
  if (at_head >= all_heads) return;
  const int sequence = at_head / heads;
  const int head = at_head % heads;
  const int lane = threadIdx.x;
  const int length = lengths[sequence];
  const __nv_bfloat162 asked = ((const __nv_bfloat162*)(q + (long long)at_head * kDim))[lane];
  const float2 query = make_float2(__bfloat162float(asked.x) * 0.125f, __bfloat162float(asked.y) * 0.125f);
  float top = -1e30f;
  float sum = 0;
  float2 result = make_float2(0, 0);
#pragma unroll UNROLL
  for (int position = 0; position < length; ++position) {
    const long long page = table[(long long)sequence * pages_each + position / kPage];
    const long long at = ((page * kPage + position % kPage) * heads + head) * kDim;
    const __nv_bfloat162 key = ((const __nv_bfloat162*)(keys + at))[lane];
    const __nv_bfloat162 value = ((const __nv_bfloat162*)(values + at))[lane];
    float score = query.x * __bfloat162float(key.x) + query.y * __bfloat162float(key.y);
    for (int step = 16; step > 0; step /= 2) score += __shfl_xor_sync(0xffffffffu, score, step);
    const float next = fmaxf(top, score);
    const float weight = __expf(score - next);
    sum = sum * __expf(top - next) + weight;
    result.x += weight * __bfloat162float(value.x);
    result.y += weight * __bfloat162float(value.y);
    top = next;
  }
  ((__nv_bfloat162*)(mixed + (long long)at_head * kDim))[lane] = __floats2bfloat162_rn(result.x / sum, result.y / sum);
}
