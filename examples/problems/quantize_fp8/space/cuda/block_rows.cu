// One block a row, two passes, VEC elements at a time where rows are aligned for it. SCALING ==
// divide divides each element by the scale, SCALING == reciprocal multiplies it by its reciprocal.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#define divide 0
#define reciprocal 1

struct __align__(2 * VEC) Vector {
  __nv_bfloat162 at[VEC / 2];
};

struct __align__(VEC) Quotients {
  __nv_fp8x2_storage_t at[VEC / 2];
};

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

__device__ float Scaled(float value, float unit, float factor) {
#if SCALING == divide
  return value / unit;
#else
  return value * factor;
#endif
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    block_rows(const __nv_bfloat16* __restrict__ x, __nv_fp8_e4m3* __restrict__ q,
               float* __restrict__ scale, long long cols_wide) {
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  q += (long long)blockIdx.x * cols;
  const int vectors = cols % VEC == 0 ? cols / VEC : 0;
  const int tail = vectors * VEC;
  float top = 0;
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    const Vector value = ((const Vector*)x)[v];
#pragma unroll
    for (int i = 0; i < VEC / 2; ++i) top = Larger(top, __bfloat1622float2(value.at[i]));
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) {
    top = fmaxf(top, fabsf(__bfloat162float(x[c])));
  }
  top = MaxBlock(top);
  const float unit = top > 0 ? top / 448 : 1;
  const float factor = 1 / unit;
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    const Vector value = ((const Vector*)x)[v];
    Quotients quotients;
#pragma unroll
    for (int i = 0; i < VEC / 2; ++i) {
      const float2 pair = __bfloat1622float2(value.at[i]);
      quotients.at[i] = __nv_cvt_float2_to_fp8x2(
          make_float2(Scaled(pair.x, unit, factor), Scaled(pair.y, unit, factor)), __NV_SATFINITE,
          __NV_E4M3);
    }
    ((Quotients*)q)[v] = quotients;
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) {
    q[c] = __nv_fp8_e4m3(Scaled(__bfloat162float(x[c]), unit, factor));
  }
  if (threadIdx.x == 0) scale[blockIdx.x] = unit;
}
