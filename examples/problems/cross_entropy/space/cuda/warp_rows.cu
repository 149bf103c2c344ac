// One warp a row, WARPS rows a block, one pass.
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

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_rows(const float* __restrict__ logits, const int* __restrict__ labels,
              float* __restrict__ loss, long long rows, long long classes_wide) {
  const int classes = (int)classes_wide;
  const long long row = (long long)blockIdx.x * WARPS + threadIdx.y;
  if (row >= rows) return;
  const float* x = logits + row * classes;
  float top = kLowest;
  float sum = 0;
#pragma unroll UNROLL
  for (int c = threadIdx.x; c < classes; c += 32) {
    const float value = x[c];
    const float next = fmaxf(top, value);
    sum = sum * __expf(top - next) + __expf(value - next);
    top = next;
  }
  MergeWarp(top, sum);
  if (threadIdx.x == 0) loss[row] = logf(sum) + top - x[labels[row]];
}
