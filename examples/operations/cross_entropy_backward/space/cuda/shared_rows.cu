// A block for each row, which lies in shared memory and is read from DRAM once. Only for rows that fit;
// longer ones are read again beyond KEPT values.
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
    shared_rows(const float* __restrict__ logits, const int* __restrict__ labels,
                const float* __restrict__ grad, float* __restrict__ dlogits, int classes, int kept) {
  extern __shared__ float row[];
  const float* const x = logits + (long long)blockIdx.x * classes;
  float* const y = dlogits + (long long)blockIdx.x * classes;
  float top = -3.402823466e38f;
#pragma unroll 4
  for (int c = threadIdx.x; c < kept; c += BLOCK) {
    row[c] = x[c];
    top = fmaxf(top, row[c]);
  }
  for (int c = kept + threadIdx.x; c < classes; c += BLOCK) top = fmaxf(top, x[c]);
  top = Reduce<true>(top);
  float sum = 0;
  for (int c = threadIdx.x; c < kept; c += BLOCK) {
    row[c] = __expf(row[c] - top);
    sum += row[c];
  }
  for (int c = kept + threadIdx.x; c < classes; c += BLOCK) sum += __expf(x[c] - top);
  sum = Reduce<false>(sum);
  const float slope = grad[blockIdx.x];
  const float scale = slope / sum;
  const int label = labels[blockIdx.x];
#pragma unroll 4
  for (int c = threadIdx.x; c < kept; c += BLOCK) y[c] = row[c] * scale - (c == label ? slope : 0);
  for (int c = kept + threadIdx.x; c < classes; c += BLOCK) {
    y[c] = __expf(x[c] - top) * scale - (c == label ? slope : 0);
  }
}
