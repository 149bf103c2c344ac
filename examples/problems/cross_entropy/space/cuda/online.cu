// One block a row and one pass: a running maximum, and a sum that is rescaled when it grows.
constexpr float kLowest = -3.402823466e38f;

// Sums of exponentials with their maxima, over a warp.
__device__ void MergeWarp(float& top, float& sum) {
  for (int step = 16; step > 0; step /= 2) {
    const float other_top = __shfl_xor_sync(0xffffffffu, top, step);
    const float other_sum = __shfl_xor_sync(0xffffffffu, sum, step);
    const float next = fmaxf(top, other_top);
    sum = sum * __expf(top - next) + other_sum * __expf(other_top - next);
    top = next;
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    online(const float* __restrict__ logits, const int* __restrict__ labels,
           float* __restrict__ loss, long long classes_wide) {
  __shared__ float tops[32];
  __shared__ float sums[32];
  const int classes = (int)classes_wide;
  const float* x = logits + (long long)blockIdx.x * classes;
  float top = kLowest;
  float sum = 0;
#pragma unroll UNROLL
  for (int c = threadIdx.x; c < classes; c += BLOCK) {
    const float value = x[c];
    const float next = fmaxf(top, value);
    sum = sum * __expf(top - next) + __expf(value - next);
    top = next;
  }
  MergeWarp(top, sum);
  const int lane = threadIdx.x % 32;
  if (lane == 0) {
    tops[threadIdx.x / 32] = top;
    sums[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  if (threadIdx.x >= 32) return;
  top = lane < BLOCK / 32 ? tops[lane] : kLowest;
  sum = lane < BLOCK / 32 ? sums[lane] : 0;
  MergeWarp(top, sum);
  if (threadIdx.x == 0) loss[blockIdx.x] = logf(sum) + top - x[labels[blockIdx.x]];
}
