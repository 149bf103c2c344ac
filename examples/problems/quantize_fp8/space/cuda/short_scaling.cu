// The reciprocal of the scale and the quotients are bfloat16 before they become float8.
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

extern "C" __global__ void __launch_bounds__(BLOCK)
    short_scaling(const __nv_bfloat16* __restrict__ x, __nv_fp8_e4m3* __restrict__ q,
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
  const __nv_bfloat162 factor = __float2bfloat162_rn(1 / unit);
#pragma unroll UNROLL
  for (int p = threadIdx.x; p < pairs; p += BLOCK) {
    const __nv_bfloat162 value = __hmul2(((const __nv_bfloat162*)x)[p], factor);
    ((__nv_fp8x2_storage_t*)q)[p] =
        __nv_cvt_float2_to_fp8x2(__bfloat1622float2(value), __NV_SATFINITE, __NV_E4M3);
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) {
    q[c] = __nv_fp8_e4m3(__bfloat162float(__hmul(x[c], __low2bfloat16(factor))));
  }
  if (threadIdx.x == 0) scale[blockIdx.x] = unit;
}
