// One warp a row, WARPS rows a block, pairs of elements where rows are aligned for it.
#include <cuda_bf16.h>

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_rows(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ weight,
              __nv_bfloat16* __restrict__ y, long long rows, long long cols_wide) {
  const int cols = (int)cols_wide;
  const int lane = threadIdx.x;
  const long long row = (long long)blockIdx.x * WARPS + threadIdx.y;
  if (row >= rows) return;
  x += row * cols;
  y += row * cols;
  const int pairs = cols % 2 == 0 ? cols / 2 : 0;
  float squares = 0;
#pragma unroll UNROLL
  for (int p = lane; p < pairs; p += 32) {
    const float2 value = __bfloat1622float2(((const __nv_bfloat162*)x)[p]);
    squares += value.x * value.x + value.y * value.y;
  }
  for (int c = pairs * 2 + lane; c < cols; c += 32) {
    squares += __bfloat162float(x[c]) * __bfloat162float(x[c]);
  }
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
  const float scale = rsqrtf(squares / cols + 1e-6f);
#pragma unroll UNROLL
  for (int p = lane; p < pairs; p += 32) {
    const float2 value = __bfloat1622float2(((const __nv_bfloat162*)x)[p]);
    const float2 w = __bfloat1622float2(((const __nv_bfloat162*)weight)[p]);
    ((__nv_bfloat162*)y)[p] = __floats2bfloat162_rn(value.x * scale * w.x, value.y * scale * w.y);
  }
  for (int c = pairs * 2 + lane; c < cols; c += 32) {
    y[c] = __float2bfloat16(__bfloat162float(x[c]) * scale * __bfloat162float(weight[c]));
  }
}
