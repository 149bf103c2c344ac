// SPLITS blocks a row, twice: the largest magnitude by an atomic maximum, then the quotients.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

__device__ float Larger(float top, float2 value) {
  return fmaxf(top, fmaxf(fabsf(value.x), fabsf(value.y)));
}

__device__ __nv_fp8x2_storage_t Quantize(float2 value, float factor) {
  return __nv_cvt_float2_to_fp8x2(make_float2(value.x * factor, value.y * factor), __NV_SATFINITE,
                                  __NV_E4M3);
}

extern "C" __global__ void clear(int* __restrict__ tops, long long rows) {
  const long long row = blockIdx.x * 128ll + threadIdx.x;
  if (row < rows) tops[row] = 0;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    largest(const __nv_bfloat16* __restrict__ x, int* __restrict__ tops, long long cols_wide) {
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.y * cols;
  const int pairs = cols % 2 == 0 ? cols / 2 : 0;
  float top = 0;
  for (int p = blockIdx.x * BLOCK + threadIdx.x; p < pairs; p += SPLITS * BLOCK) {
    top = Larger(top, __bfloat1622float2(((const __nv_bfloat162*)x)[p]));
  }
  for (int c = pairs * 2 + blockIdx.x * BLOCK + threadIdx.x; c < cols; c += SPLITS * BLOCK) {
    top = fmaxf(top, fabsf(__bfloat162float(x[c])));
  }
  for (int step = 16; step > 0; step /= 2) {
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
  }
  // Magnitudes are in the order of their bits.
  if (threadIdx.x % 32 == 0) atomicMax(tops + blockIdx.y, __float_as_int(top));
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    divide(const __nv_bfloat16* __restrict__ x, const int* __restrict__ tops,
           __nv_fp8_e4m3* __restrict__ q, float* __restrict__ scale, long long cols_wide) {
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.y * cols;
  q += (long long)blockIdx.y * cols;
  const int pairs = cols % 2 == 0 ? cols / 2 : 0;
  const float top = __int_as_float(tops[blockIdx.y]);
  const float unit = top > 0 ? top / 448 : 1;
  const float factor = 1 / unit;
  for (int p = blockIdx.x * BLOCK + threadIdx.x; p < pairs; p += SPLITS * BLOCK) {
    ((__nv_fp8x2_storage_t*)q)[p] =
        Quantize(__bfloat1622float2(((const __nv_bfloat162*)x)[p]), factor);
  }
  for (int c = pairs * 2 + blockIdx.x * BLOCK + threadIdx.x; c < cols; c += SPLITS * BLOCK) {
    q[c] = __nv_fp8_e4m3(__bfloat162float(x[c]) * factor);
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) scale[blockIdx.y] = unit;
}
