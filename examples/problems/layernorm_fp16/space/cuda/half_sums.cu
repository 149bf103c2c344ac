// Each thread sums pairs of elements, and of squared deviations, in float16; threads are added up in
// float32.
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
    half_sums(const __half* __restrict__ x, const __half* __restrict__ gamma,
              const __half* __restrict__ beta, __half* __restrict__ y, long long cols_wide) {
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  y += (long long)blockIdx.x * cols;
  const int pairs = cols % 2 == 0 ? cols / 2 : 0;
  const int tail = pairs * 2;
  const __half zero = __float2half(0);
  __half2 sums = __halves2half2(zero, zero);
#pragma unroll UNROLL
  for (int p = threadIdx.x; p < pairs; p += BLOCK) sums = __hadd2(sums, ((const __half2*)x)[p]);
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) {
    sums = __hadd2(sums, __halves2half2(x[c], zero));
  }
  const float2 sum = __half22float2(sums);
  const float mean = SumBlock(sum.x + sum.y) / cols;
  const __half2 means = __float2half2_rn(mean);
  __half2 squares = __halves2half2(zero, zero);
#pragma unroll UNROLL
  for (int p = threadIdx.x; p < pairs; p += BLOCK) {
    const __half2 d = __hsub2(((const __half2*)x)[p], means);
    squares = __hfma2(d, d, squares);
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) {
    const __half2 d = __hsub2(__halves2half2(x[c], __low2half(means)), means);
    squares = __hfma2(d, d, squares);
  }
  const float2 square = __half22float2(squares);
  const float scale = rsqrtf(SumBlock(square.x + square.y) / cols + 1e-5f);
  for (int p = threadIdx.x; p < pairs; p += BLOCK) {
    const float2 value = __half22float2(((const __half2*)x)[p]);
    const float2 g = __half22float2(((const __half2*)gamma)[p]);
    const float2 b = __half22float2(((const __half2*)beta)[p]);
    ((__half2*)y)[p] = __floats2half2_rn((value.x - mean) * scale * g.x + b.x,
                                         (value.y - mean) * scale * g.y + b.y);
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) {
    y[c] = __float2half((__half2float(x[c]) - mean) * scale * __half2float(gamma[c]) +
                        __half2float(beta[c]));
  }
}
