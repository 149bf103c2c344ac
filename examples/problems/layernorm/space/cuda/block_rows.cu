// One block a row, three passes, VEC elements at a time where rows are aligned for it.
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
    block_rows(const float* __restrict__ x, const float* __restrict__ gamma,
               const float* __restrict__ beta, float* __restrict__ y, long long cols_wide) {
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  y += (long long)blockIdx.x * cols;
  const int vectors = cols % VEC == 0 ? cols / VEC : 0;
  const int tail = vectors * VEC;
  const Vector* in = (const Vector*)x;
  float sum = 0;
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    const Vector value = in[v];
    for (int i = 0; i < VEC; ++i) sum += value.at[i];
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) sum += x[c];
  const float mean = SumBlock(sum) / cols;
  float squares = 0;
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    const Vector value = in[v];
    for (int i = 0; i < VEC; ++i) squares += (value.at[i] - mean) * (value.at[i] - mean);
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) squares += (x[c] - mean) * (x[c] - mean);
  const float scale = rsqrtf(SumBlock(squares) / cols + 1e-5f);
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    Vector value = in[v];
    const Vector g = ((const Vector*)gamma)[v];
    const Vector b = ((const Vector*)beta)[v];
    for (int i = 0; i < VEC; ++i) value.at[i] = (value.at[i] - mean) * scale * g.at[i] + b.at[i];
    ((Vector*)y)[v] = value;
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) {
    y[c] = (x[c] - mean) * scale * gamma[c] + beta[c];
  }
}
