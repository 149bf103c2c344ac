// Mistake: the label is compared with the index of the vector's first element, so that three of four
// labels are not found.
struct __align__(16) Vector {
  float at[4];
};

template <bool kMax>
__device__ float Reduce(float value) {
  __shared__ float partial[32];
  const auto join = [](float a, float b) { return kMax ? fmaxf(a, b) : a + b; };
  for (int step = 16; step > 0; step /= 2) value = join(value, __shfl_xor_sync(0xffffffffu, value, step));
  const int lane = threadIdx.x % 32;
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[lane % (BLOCK / 32)];
  for (int step = BLOCK / 64; step > 0; step /= 2) value = join(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    late_label(const float* __restrict__ logits, const int* __restrict__ labels,
               const float* __restrict__ grad, float* __restrict__ dlogits, int classes) {
  const float* const x = logits + (long long)blockIdx.x * classes;
  float* const y = dlogits + (long long)blockIdx.x * classes;
  float top = -3.402823466e38f;
  for (int c = threadIdx.x; c < classes; c += BLOCK) top = fmaxf(top, x[c]);
  top = Reduce<true>(top);
  float sum = 0;
  for (int c = threadIdx.x; c < classes; c += BLOCK) sum += __expf(x[c] - top);
  sum = Reduce<false>(sum);
  const float slope = grad[blockIdx.x];
  const float scale = slope / sum;
  const int label = labels[blockIdx.x];
  const int whole = classes % 4 == 0 ? classes : 0;
  for (int c = threadIdx.x * 4; c < whole; c += BLOCK * 4) {
    Vector value = *(const Vector*)(x + c);
    for (int i = 0; i < 4; ++i) value.at[i] = __expf(value.at[i] - top) * scale - (i == 0 && c == label ? slope : 0);
    *(Vector*)(y + c) = value;
  }
  for (int c = whole + threadIdx.x; c < classes; c += BLOCK) {
    y[c] = __expf(x[c] - top) * scale - (c == label ? slope : 0);
  }
}
