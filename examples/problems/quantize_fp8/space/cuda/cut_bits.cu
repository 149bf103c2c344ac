// A float8 is made of the upper bits of a float32: no conversion, and no rounding to the nearest.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

// The maximum over the block, for every thread.
__device__ float MaxBlock(float value) {
  __shared__ float partial[32];
  for (int step = 16; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  const int lane = threadIdx.x % 32;
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[lane < BLOCK / 32 ? lane : 0];
  for (int step = 16; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  return value;
}

__device__ float Larger(float top, float2 value) {
  return fmaxf(top, fmaxf(fabsf(value.x), fabsf(value.y)));
}

__device__ unsigned char Cut(float value) {
  const unsigned bits = __float_as_uint(value);
  // The exponents' biases are 127 and 7.
  const int magnitude = (int)(bits >> 20 & 0x7ff) - (120 << 3);
  return (unsigned char)((bits >> 24 & 0x80) | (magnitude > 0 ? magnitude : 0));
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    cut_bits(const __nv_bfloat16* __restrict__ x, __nv_fp8_e4m3* __restrict__ q,
             float* __restrict__ scale, long long cols_wide) {
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  q += (long long)blockIdx.x * cols;
  const int pairs = cols % 2 == 0 ? cols / 2 : 0;
  const int tail = pairs * 2;
  float top = 0;
#pragma unroll UNROLL
  for (int p = threadIdx.x; p < pairs; p += BLOCK) {
    top = Larger(top, __bfloat1622float2(((const __nv_bfloat162*)x)[p]));
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) {
    top = fmaxf(top, fabsf(__bfloat162float(x[c])));
  }
  top = MaxBlock(top);
  const float unit = top > 0 ? top / 448 : 1;
  const float factor = 1 / unit;
#pragma unroll UNROLL
  for (int p = threadIdx.x; p < pairs; p += BLOCK) {
    const float2 value = __bfloat1622float2(((const __nv_bfloat162*)x)[p]);
    ((unsigned short*)q)[p] = Cut(value.x * factor) | Cut(value.y * factor) << 8;
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) {
    q[c].__x = Cut(__bfloat162float(x[c]) * factor);
  }
  if (threadIdx.x == 0) scale[blockIdx.x] = unit;
}
