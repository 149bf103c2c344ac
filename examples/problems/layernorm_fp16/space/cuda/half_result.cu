// Mean and variance in float32, and a result of pairs in float16.
#include <cuda_fp16.h>

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
    half_result(const __half* __restrict__ x, const __half* __restrict__ gamma,
                const __half* __restrict__ beta, __half* __restrict__ y, long long cols_wide) {
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  y += (long long)blockIdx.x * cols;
  const int pairs = cols % 2 == 0 ? cols / 2 : 0;
  const int tail = pairs * 2;
  float sum = 0;
#pragma unroll UNROLL
  for (int p = threadIdx.x; p < pairs; p += BLOCK) {
    const float2 value = __half22float2(((const __half2*)x)[p]);
    sum += value.x + value.y;
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) sum += __half2float(x[c]);
  const float mean = SumBlock(sum) / cols;
  float squares = 0;
#pragma unroll UNROLL
  for (int p = threadIdx.x; p < pairs; p += BLOCK) {
    const float2 value = __half22float2(((const __half2*)x)[p]);
    squares += (value.x - mean) * (value.x - mean) + (value.y - mean) * (value.y - mean);
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) {
    const float d = __half2float(x[c]) - mean;
    squares += d * d;
  }
  const __half2 means = __float2half2_rn(mean);
  const __half2 scales = __float2half2_rn(rsqrtf(SumBlock(squares) / cols + 1e-5f));
  for (int p = threadIdx.x; p < pairs; p += BLOCK) {
    const __half2 d = __hmul2(__hsub2(((const __half2*)x)[p], means), scales);
    ((__half2*)y)[p] = __hfma2(d, ((const __half2*)gamma)[p], ((const __half2*)beta)[p]);
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) {
    const __half d = __hmul(__hsub(x[c], __low2half(means)), __low2half(scales));
    y[c] = __hfma(d, gamma[c], beta[c]);
  }
}
