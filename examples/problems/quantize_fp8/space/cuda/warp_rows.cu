// One warp a row, WARPS rows a block, four elements at a time where rows are aligned for it.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

struct __align__(8) Four {
  __nv_bfloat162 at[2];
};

struct __align__(4) Quotients {
  __nv_fp8x2_storage_t at[2];
};

__device__ float Larger(float top, float2 value) {
  return fmaxf(top, fmaxf(fabsf(value.x), fabsf(value.y)));
}

__device__ __nv_fp8x2_storage_t Quantize(float2 value, float factor) {
  return __nv_cvt_float2_to_fp8x2(make_float2(value.x * factor, value.y * factor), __NV_SATFINITE,
                                  __NV_E4M3);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_rows(const __nv_bfloat16* __restrict__ x, __nv_fp8_e4m3* __restrict__ q,
              float* __restrict__ scale, long long rows, long long cols_wide) {
  const int cols = (int)cols_wide;
  const int lane = threadIdx.x;
  const long long row = (long long)blockIdx.x * WARPS + threadIdx.y;
  if (row >= rows) return;
  x += row * cols;
  q += row * cols;
  const int fours = cols % 4 == 0 ? cols / 4 : 0;
  float top = 0;
#pragma unroll UNROLL
  for (int f = lane; f < fours; f += 32) {
    const Four value = ((const Four*)x)[f];
    top = Larger(Larger(top, __bfloat1622float2(value.at[0])), __bfloat1622float2(value.at[1]));
  }
  for (int c = fours * 4 + lane; c < cols; c += 32) {
    top = fmaxf(top, fabsf(__bfloat162float(x[c])));
  }
  for (int step = 16; step > 0; step /= 2) {
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
  }
  const float unit = top > 0 ? top / 448 : 1;
  const float factor = 1 / unit;
#pragma unroll UNROLL
  for (int f = lane; f < fours; f += 32) {
    const Four value = ((const Four*)x)[f];
    Quotients quotients;
    quotients.at[0] = Quantize(__bfloat1622float2(value.at[0]), factor);
    quotients.at[1] = Quantize(__bfloat1622float2(value.at[1]), factor);
    ((Quotients*)q)[f] = quotients;
  }
  for (int c = fours * 4 + lane; c < cols; c += 32) {
    q[c] = __nv_fp8_e4m3(__bfloat162float(x[c]) * factor);
  }
  if (lane == 0) scale[row] = unit;
}
