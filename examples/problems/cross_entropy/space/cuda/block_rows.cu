// One block a row, two passes, VEC elements at a time where rows are aligned for it.
constexpr float kLowest = -3.402823466e38f;

struct __align__(4 * VEC) Vector {
  float at[VEC];
};

// The maximum over the block, for every thread.
__device__ float MaxBlock(float value) {
  __shared__ float partial[32];
  for (int step = 16; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  const int lane = threadIdx.x % 32;
  __syncthreads();
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = lane < BLOCK / 32 ? partial[lane] : kLowest;
  for (int step = 16; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  return value;
}

// The sum over the block, for every thread.
__device__ float SumBlock(float value) {
  __shared__ float partial[32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  const int lane = threadIdx.x % 32;
  // The last call's sums may still be read.
  __syncthreads();
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = lane < BLOCK / 32 ? partial[lane] : 0;
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    block_rows(const float* __restrict__ logits, const int* __restrict__ labels,
               float* __restrict__ loss, long long classes_wide) {
  const int classes = (int)classes_wide;
  const float* x = logits + (long long)blockIdx.x * classes;
  const int vectors = classes % VEC == 0 ? classes / VEC : 0;
  float top = kLowest;
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    const Vector value = ((const Vector*)x)[v];
    for (int i = 0; i < VEC; ++i) top = fmaxf(top, value.at[i]);
  }
  for (int c = vectors * VEC + threadIdx.x; c < classes; c += BLOCK) top = fmaxf(top, x[c]);
  top = MaxBlock(top);
  float sum = 0;
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    const Vector value = ((const Vector*)x)[v];
    for (int i = 0; i < VEC; ++i) sum += EXP(value.at[i] - top);
  }
  for (int c = vectors * VEC + threadIdx.x; c < classes; c += BLOCK) sum += EXP(x[c] - top);
  sum = SumBlock(sum);
  if (threadIdx.x == 0) loss[blockIdx.x] = logf(sum) + top - x[labels[blockIdx.x]];
}
