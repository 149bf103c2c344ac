// One block a row. Each thread keeps GROUPS vectors in registers, so that the row is read once; what a
// long row has beyond them is read again.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

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

__device__ __nv_fp8x2_storage_t Quantize(float2 value, float factor) {
  return __nv_cvt_float2_to_fp8x2(make_float2(value.x * factor, value.y * factor), __NV_SATFINITE,
                                  __NV_E4M3);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    register_rows(const __nv_bfloat16* __restrict__ x, __nv_fp8_e4m3* __restrict__ q,
                  float* __restrict__ scale, long long cols_wide) {
  constexpr int kKept = BLOCK * GROUPS * VEC;
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  q += (long long)blockIdx.x * cols;
  const bool aligned = cols % VEC == 0;
  Vector kept[GROUPS];
  float top = 0;
#pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    const int first = (g * BLOCK + threadIdx.x) * VEC;
    if (aligned && first < cols) {
      kept[g] = *(const Vector*)(x + first);
    } else {
      const __nv_bfloat16 zero = __float2bfloat16(0);
#pragma unroll
      for (int i = 0; i < VEC / 2; ++i) {
        const int c = first + 2 * i;
        kept[g].at[i].x = c < cols ? x[c] : zero;
        kept[g].at[i].y = c + 1 < cols ? x[c + 1] : zero;
      }
    }
#pragma unroll
    for (int i = 0; i < VEC / 2; ++i) top = Larger(top, __bfloat1622float2(kept[g].at[i]));
  }
  for (int c = kKept + threadIdx.x; c < cols; c += BLOCK) {
    top = fmaxf(top, fabsf(__bfloat162float(x[c])));
  }
  top = MaxBlock(top);
  const float unit = top > 0 ? top / 448 : 1;
  const float factor = 1 / unit;
#pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    const int first = (g * BLOCK + threadIdx.x) * VEC;
    Quotients quotients;
#pragma unroll
    for (int i = 0; i < VEC / 2; ++i) {
      quotients.at[i] = Quantize(__bfloat1622float2(kept[g].at[i]), factor);
    }
    if (aligned && first < cols) {
      *(Quotients*)(q + first) = quotients;
    } else {
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        if (first + i < cols) q[first + i].__x = quotients.at[i / 2] >> (8 * (i % 2)) & 0xff;
      }
    }
  }
  for (int c = kKept + threadIdx.x; c < cols; c += BLOCK) {
    q[c] = __nv_fp8_e4m3(__bfloat162float(x[c]) * factor);
  }
  if (threadIdx.x == 0) scale[blockIdx.x] = unit;
}
