// SPLITS blocks a row, whose maxima and sums a second launch merges.
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
    split_rows(const float* __restrict__ logits, float2* __restrict__ parts,
               long long classes_wide) {
  __shared__ float tops[32];
  __shared__ float sums[32];
  const int classes = (int)classes_wide;
  const float* x = logits + (long long)blockIdx.y * classes;
  const int share = (classes + SPLITS - 1) / SPLITS;
  const int first = blockIdx.x * share;
  const int last = min(first + share, classes);
  float top = kLowest;
  float sum = 0;
#pragma unroll UNROLL
  for (int c = first + (int)threadIdx.x; c < last; c += BLOCK) {
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
  if (lane == 0) parts[blockIdx.y * SPLITS + blockIdx.x] = make_float2(top, sum);
}

extern "C" __global__ void merge(const float* __restrict__ logits, const int* __restrict__ labels,
                                 const float2* __restrict__ parts, float* __restrict__ loss,
                                 long long rows, long long classes) {
  const long long row = blockIdx.x * 128ll + threadIdx.x;
  if (row >= rows) return;
  float top = kLowest;
  for (int s = 0; s < SPLITS; ++s) top = fmaxf(top, parts[row * SPLITS + s].x);
  float sum = 0;
  for (int s = 0; s < SPLITS; ++s) {
    const float2 part = parts[row * SPLITS + s];
    sum += part.y * expf(part.x - top);
  }
  loss[row] = logf(sum) + top - logits[row * classes + labels[row]];
}
