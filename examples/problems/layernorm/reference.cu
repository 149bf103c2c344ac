// One block a row: mean, variance, result; three reads of the row, of which the caches serve most
// of the second and third.
constexpr int kBlock = 256;

__device__ float SumBlock(float value) {
  __shared__ float partial[kBlock / 32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < kBlock / 32; ++w) sum += partial[w];
  return sum;
}

extern "C" __global__ void layernorm(const float* x, const float* gamma, const float* beta,
                                     float* y, long long cols) {
  x += blockIdx.x * cols;
  y += blockIdx.x * cols;
  float sum = 0;
  for (long long c = threadIdx.x; c < cols; c += kBlock) sum += x[c];
  const float mean = SumBlock(sum) / cols;
  float squares = 0;
  for (long long c = threadIdx.x; c < cols; c += kBlock) {
    const float d = x[c] - mean;
    squares += d * d;
  }
  const float scale = 1 / sqrtf(SumBlock(squares) / cols + 1e-5f);
  for (long long c = threadIdx.x; c < cols; c += kBlock) {
    y[c] = (x[c] - mean) * scale * gamma[c] + beta[c];
  }
}
