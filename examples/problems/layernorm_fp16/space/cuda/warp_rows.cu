// One warp a row, WARPS rows a block, pairs of elements where rows are aligned for it.
#include <cuda_fp16.h>

__device__ float SumWarp(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_rows(const __half* __restrict__ x, const __half* __restrict__ gamma,
              const __half* __restrict__ beta, __half* __restrict__ y, long long rows,
              long long cols_wide) {
  const int cols = (int)cols_wide;
  const int lane = threadIdx.x;
  const long long row = (long long)blockIdx.x * WARPS + threadIdx.y;
  if (row >= rows) return;
  x += row * cols;
  y += row * cols;
  const int pairs = cols % 2 == 0 ? cols / 2 : 0;
  const int tail = pairs * 2;
  float sum = 0;
#pragma unroll UNROLL
  for (int p = lane; p < pairs; p += 32) {
    const float2 value = __half22float2(((const __half2*)x)[p]);
    sum += value.x + value.y;
  }
  for (int c = tail + lane; c < cols; c += 32) sum += __half2float(x[c]);
  const float mean = SumWarp(sum) / cols;
  float squares = 0;
#pragma unroll UNROLL
  for (int p = lane; p < pairs; p += 32) {
    const float2 value = __half22float2(((const __half2*)x)[p]);
    squares += (value.x - mean) * (value.x - mean) + (value.y - mean) * (value.y - mean);
  }
  for (int c = tail + lane; c < cols; c += 32) {
    const float d = __half2float(x[c]) - mean;
    squares += d * d;
  }
  const float scale = rsqrtf(SumWarp(squares) / cols + 1e-5f);
#pragma unroll UNROLL
  for (int p = lane; p < pairs; p += 32) {
    const float2 value = __half22float2(((const __half2*)x)[p]);
    const float2 g = __half22float2(((const __half2*)gamma)[p]);
    const float2 b = __half22float2(((const __half2*)beta)[p]);
    ((__half2*)y)[p] = __floats2half2_rn((value.x - mean) * scale * g.x + b.x,
                                         (value.y - mean) * scale * g.y + b.y);
  }
  for (int c = tail + lane; c < cols; c += 32) {
    y[c] = __float2half((__half2float(x[c]) - mean) * scale * __half2float(gamma[c]) +
                        __half2float(beta[c]));
  }
}
