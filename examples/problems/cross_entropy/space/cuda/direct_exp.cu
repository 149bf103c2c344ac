// Exponentials straight from the logits, without the maximum: one pass fewer, until they overflow.
struct __align__(4 * VEC) Vector {
  float at[VEC];
};

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
    direct_exp(const float* __restrict__ logits, const int* __restrict__ labels,
               float* __restrict__ loss, long long classes_wide) {
  const int classes = (int)classes_wide;
  const float* x = logits + (long long)blockIdx.x * classes;
  const int vectors = classes % VEC == 0 ? classes / VEC : 0;
  const float top = 0;
  float sum = 0;
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    const Vector value = ((const Vector*)x)[v];
    for (int i = 0; i < VEC; ++i) sum += __expf(value.at[i]);
  }
  for (int c = vectors * VEC + threadIdx.x; c < classes; c += BLOCK) sum += __expf(x[c]);
  sum = SumBlock(sum);
  if (threadIdx.x == 0) loss[blockIdx.x] = logf(sum) + top - x[labels[blockIdx.x]];
}
