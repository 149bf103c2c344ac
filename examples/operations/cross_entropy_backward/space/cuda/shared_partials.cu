// Mistake: both reductions use the same shared memory with no barrier between them, so that a warp may
// write its sum before another has read the largest logits.
__device__ float Reduce(float* partial, float value, bool is_max) {
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = is_max ? fmaxf(value, other) : value + other;
  }
  const int lane = threadIdx.x % 32;
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[lane % (BLOCK / 32)];
  for (int step = BLOCK / 64; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = is_max ? fmaxf(value, other) : value + other;
  }
  return value;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    shared_partials(const float* __restrict__ logits, const int* __restrict__ labels,
                    const float* __restrict__ grad, float* __restrict__ dlogits, int classes) {
  __shared__ float partial[BLOCK / 32];
  const float* const x = logits + (long long)blockIdx.x * classes;
  float* const y = dlogits + (long long)blockIdx.x * classes;
  float top = -3.402823466e38f;
  for (int c = threadIdx.x; c < classes; c += BLOCK) top = fmaxf(top, x[c]);
  top = Reduce(partial, top, true);
  float sum = 0;
  for (int c = threadIdx.x; c < classes; c += BLOCK) sum += __expf(x[c] - top);
  sum = Reduce(partial, sum, false);
  const float slope = grad[blockIdx.x];
  const float scale = slope / sum;
  const int label = labels[blockIdx.x];
  for (int c = threadIdx.x; c < classes; c += BLOCK) {
    y[c] = __expf(x[c] - top) * scale - (c == label ? slope : 0);
  }
}
