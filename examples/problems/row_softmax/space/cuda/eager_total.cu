// The first warp finishes each reduction for the block, and nothing makes the others wait for it.
constexpr float kLowest = -3.402823466e38f;

__device__ float ReduceBlock(float value, bool is_sum) {
  __shared__ float partial[32];
  __shared__ float total;
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = is_sum ? value + other : fmaxf(value, other);
  }
  const int lane = threadIdx.x % 32;
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x < 32) {
    value = lane < BLOCK / 32 ? partial[lane] : (is_sum ? 0 : kLowest);
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, value, step);
      value = is_sum ? value + other : fmaxf(value, other);
    }
    total = value;
  }
  return *(volatile float*)&total;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    eager_total(const float* __restrict__ x, float* __restrict__ y, long long cols_wide) {
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  y += (long long)blockIdx.x * cols;
  float top = kLowest;
  for (int c = threadIdx.x; c < cols; c += BLOCK) top = fmaxf(top, x[c]);
  top = ReduceBlock(top, false);
  float sum = 0;
  for (int c = threadIdx.x; c < cols; c += BLOCK) sum += __expf(x[c] - top);
  const float scale = 1 / ReduceBlock(sum, true);
  for (int c = threadIdx.x; c < cols; c += BLOCK) y[c] = __expf(x[c] - top) * scale;
}
