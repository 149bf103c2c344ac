// Whole vectors only: the last classes are left out of the sum.
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
    whole_vectors(const float* __restrict__ logits, const int* __restrict__ labels,
                  float* __restrict__ loss, long long classes_wide) {
  const int classes = (int)classes_wide;
  const float* x = logits + (long long)blockIdx.x * classes;
  const int vectors = classes / VEC;
  float top = kLowest;
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    Vector value;
    for (int i = 0; i < VEC; ++i) value.at[i] = x[v * VEC + i];
    for (int i = 0; i < VEC; ++i) top = fmaxf(top, value.at[i]);
  }
  top = MaxBlock(top);
  float sum = 0;
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    Vector value;
    for (int i = 0; i < VEC; ++i) value.at[i] = x[v * VEC + i];
    for (int i = 0; i < VEC; ++i) sum += __expf(value.at[i] - top);
  }
  sum = SumBlock(sum);
  if (threadIdx.x == 0) loss[blockIdx.x] = logf(sum) + top - x[labels[blockIdx.x]];
}
