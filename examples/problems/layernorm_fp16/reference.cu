// One block a row: mean, mean squared deviation, result; three reads of the row, of which the caches
// serve most. Two elements at a time where rows are aligned for it.
#include <cuda_fp16.h>

constexpr int kBlock = 256;

__device__ float SumBlock(float value) {
  __shared__ float partial[kBlock / 32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
  for (int w = 0; w < kBlock / 32; ++w) value += partial[w];
  return value;
}

extern "C" __global__ void layernorm(const __half* x, const __half* gamma, const __half* beta,
                                     __half* y, long long cols) {
  x += blockIdx.x * cols;
  y += blockIdx.x * cols;
  const long long pairs = cols % 2 == 0 ? cols / 2 : 0;
  const long long tail = pairs * 2;
  float sum = 0;
  for (long long p = threadIdx.x; p < pairs; p += kBlock) {
    const float2 value = __half22float2(((const __half2*)x)[p]);
    sum += value.x + value.y;
  }
  for (long long c = tail + threadIdx.x; c < cols; c += kBlock) sum += __half2float(x[c]);
  const float mean = SumBlock(sum) / cols;
  float squares = 0;
  for (long long p = threadIdx.x; p < pairs; p += kBlock) {
    const float2 value = __half22float2(((const __half2*)x)[p]);
    squares += (value.x - mean) * (value.x - mean) + (value.y - mean) * (value.y - mean);
  }
  for (long long c = tail + threadIdx.x; c < cols; c += kBlock) {
    const float d = __half2float(x[c]) - mean;
    squares += d * d;
  }
  const float scale = 1 / sqrtf(SumBlock(squares) / cols + 1e-5f);
  for (long long p = threadIdx.x; p < pairs; p += kBlock) {
    const float2 value = __half22float2(((const __half2*)x)[p]);
    const float2 g = __half22float2(((const __half2*)gamma)[p]);
    const float2 b = __half22float2(((const __half2*)beta)[p]);
    ((__half2*)y)[p] = __floats2half2_rn((value.x - mean) * scale * g.x + b.x,
                                         (value.y - mean) * scale * g.y + b.y);
  }
  for (long long c = tail + threadIdx.x; c < cols; c += kBlock) {
    y[c] = __float2half((__half2float(x[c]) - mean) * scale * __half2float(gamma[c]) +
                        __half2float(beta[c]));
  }
}
