// A block for each sequence and head. All scores go to shared memory; then the softmax; then each thread
// sums the values of one or a few dimensions. Keys and values are in separate passes.
#include <cuda_bf16.h>

constexpr int kDim = 64;
constexpr int kPage = 16;

extern "C" __global__ void __launch_bounds__(BLOCK)
    score_rows(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ keys,
               const __nv_bfloat16* __restrict__ values, const int* __restrict__ table,
               const int* __restrict__ lengths, __nv_bfloat16* __restrict__ mixed, int heads,
               int pages_each) {
  extern __shared__ float scores[];
  __shared__ float query[kDim];
  __shared__ float partial[BLOCK / 32];
  __shared__ float parts[BLOCK / 32][kDim];
  const int head = blockIdx.x;
  const int sequence = blockIdx.y;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int length = lengths[sequence];
  const int* const pages = table + (long long)sequence * pages_each;
  const long long own = ((long long)sequence * heads + head) * kDim;
  if (threadIdx.x < kDim) query[threadIdx.x] = __bfloat162float(q[own + threadIdx.x]) * 0.125f;
  __syncthreads();
  float top = -1e30f;
  for (int position = threadIdx.x; position < length; position += BLOCK) {
    const long long at = ((long long)pages[position / kPage] * kPage + position % kPage) * heads + head;
    const int4* const key = (const int4*)(keys + at * kDim);
    float score = 0;
#pragma unroll UNROLL
    for (int d = 0; d < kDim / 8; ++d) {
      const int4 bits = key[d];
      const __nv_bfloat162* const pairs = (const __nv_bfloat162*)&bits;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        score += query[8 * d + 2 * i] * __bfloat162float(pairs[i].x);
        score += query[8 * d + 2 * i + 1] * __bfloat162float(pairs[i].y);
      }
    }
    scores[position] = score;
    top = fmaxf(top, score);
  }
  for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
  if (lane == 0) partial[warp] = top;
  __syncthreads();
  for (int w = 0; w < BLOCK / 32; ++w) top = fmaxf(top, partial[w]);
  // Each warp has positions of its own, and each lane two dimensions.
  float sum = 0;
  float first = 0;
  float second = 0;
#pragma unroll 4
  for (int position = warp; position < length; position += BLOCK / 32) {
    const float weight = __expf(scores[position] - top);
    const long long at = ((long long)pages[position / kPage] * kPage + position % kPage) * heads + head;
    const __nv_bfloat162 value = ((const __nv_bfloat162*)(values + at * kDim))[lane];
    sum += weight;
    first += weight * __bfloat162float(value.x);
    second += weight * __bfloat162float(value.y);
  }
  parts[warp][2 * lane] = first;
  parts[warp][2 * lane + 1] = second;
  // The maxima have been read by all.
  __syncthreads();
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  if (threadIdx.x >= kDim) return;
  float total = 0;
  float result = 0;
  for (int w = 0; w < BLOCK / 32; ++w) {
    total += partial[w];
    result += parts[w][threadIdx.x];
  }
  mixed[own + threadIdx.x] = __float2bfloat16(result / total);
}
