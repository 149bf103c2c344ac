// One block a row: maximum, then the sum of exponentials; two reads of the row.
constexpr int kBlock = 256;
constexpr float kLowest = -3.402823466e38f;

__device__ float ReduceBlock(float value, bool is_sum) {
  __shared__ float partial[kBlock / 32];
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = is_sum ? value + other : fmaxf(value, other);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[0];
  for (int w = 1; w < kBlock / 32; ++w) {
    value = is_sum ? value + partial[w] : fmaxf(value, partial[w]);
  }
  return value;
}

extern "C" __global__ void cross_entropy(const float* logits, const int* labels, float* loss,
                                         long long classes) {
  const float* x = logits + blockIdx.x * classes;
  float top = kLowest;
  for (long long c = threadIdx.x; c < classes; c += kBlock) top = fmaxf(top, x[c]);
  top = ReduceBlock(top, false);
  float sum = 0;
  for (long long c = threadIdx.x; c < classes; c += kBlock) sum += expf(x[c] - top);
  sum = ReduceBlock(sum, true);
  if (threadIdx.x == 0) loss[blockIdx.x] = logf(sum) + top - x[labels[blockIdx.x]];
}
