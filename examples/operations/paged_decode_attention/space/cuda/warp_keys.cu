// A block for each sequence and head. Its warps take positions in turn; GROUP lanes share a key, each with
// 64 / GROUP of its dimensions. Every group keeps a running maximum, which is merged at the end.
#include <cuda_bf16.h>

constexpr int kDim = 64;
constexpr int kPage = 16;
constexpr int kEach = kDim / GROUP;
constexpr float kLowest = -1e30f;

struct __align__(2 * kEach) Part {
  __nv_bfloat16 at[kEach];
};

__device__ void Merge(float& top, float& sum, float (&mixed)[kEach], float other_top, float other_sum,
                      const float (&other)[kEach]) {
  const float next = fmaxf(top, other_top);
  const float own = __expf(top - next);
  const float scale = __expf(other_top - next);
  sum = sum * own + other_sum * scale;
#pragma unroll
  for (int i = 0; i < kEach; ++i) mixed[i] = mixed[i] * own + other[i] * scale;
  top = next;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_keys(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ keys,
              const __nv_bfloat16* __restrict__ values, const int* __restrict__ table,
              const int* __restrict__ lengths, __nv_bfloat16* __restrict__ mixed_heads, int heads,
              int pages_each) {
  __shared__ float tops[WARPS];
  __shared__ float sums[WARPS];
  __shared__ float parts[WARPS][kDim];
  const int head = blockIdx.x;
  const int sequence = blockIdx.y;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int first = lane % GROUP * kEach;
  const int length = lengths[sequence];
  float query[kEach];
  const Part asked = *(const Part*)(q + ((long long)sequence * heads + head) * kDim + first);
#pragma unroll
  for (int i = 0; i < kEach; ++i) query[i] = __bfloat162float(asked.at[i]) * 0.125f;
  float top = kLowest;
  float sum = 0;
  float mixed[kEach] = {};
  constexpr int kStep = WARPS * (32 / GROUP);
  // All lanes of a warp take part in each exchange.
#pragma unroll UNROLL
  for (int start = 0; start < length; start += kStep) {
    const int position = start + warp * (32 / GROUP) + lane / GROUP;
    const bool inside = position < length;
    Part key = {};
    Part value = {};
    if (inside) {
      const long long page = table[(long long)sequence * pages_each + position / kPage];
      const long long at = ((page * kPage + position % kPage) * heads + head) * kDim + first;
      key = *(const Part*)(keys + at);
      value = *(const Part*)(values + at);
    }
    float score = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) score += query[i] * __bfloat162float(key.at[i]);
#pragma unroll
    for (int step = GROUP / 2; step > 0; step /= 2) score += __shfl_xor_sync(0xffffffffu, score, step);
    if (!inside) continue;
    const float next = fmaxf(top, score);
    const float old = __expf(top - next);
    const float weight = __expf(score - next);
    sum = sum * old + weight;
#pragma unroll
    for (int i = 0; i < kEach; ++i) mixed[i] = mixed[i] * old + weight * __bfloat162float(value.at[i]);
    top = next;
  }
  // The groups of a warp.
#pragma unroll
  for (int step = GROUP; step < 32; step *= 2) {
    const float other_top = __shfl_xor_sync(0xffffffffu, top, step);
    const float other_sum = __shfl_xor_sync(0xffffffffu, sum, step);
    float other[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) other[i] = __shfl_xor_sync(0xffffffffu, mixed[i], step);
    Merge(top, sum, mixed, other_top, other_sum, other);
  }
  if (lane < GROUP) {
    tops[warp] = top;
    sums[warp] = sum;
#pragma unroll
    for (int i = 0; i < kEach; ++i) parts[warp][first + i] = mixed[i];
  }
  __syncthreads();
  for (int d = threadIdx.x; d < kDim; d += 32 * WARPS) {
    float highest = tops[0];
    for (int w = 1; w < WARPS; ++w) highest = fmaxf(highest, tops[w]);
    float total = 0;
    float result = 0;
    for (int w = 0; w < WARPS; ++w) {
      const float scale = __expf(tops[w] - highest);
      total += sums[w] * scale;
      result += parts[w][d] * scale;
    }
    mixed_heads[((long long)sequence * heads + head) * kDim + d] = __float2bfloat16(result / total);
  }
}
