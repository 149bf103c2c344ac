// One block a row: mean square in float, result; two reads of the row, of which the caches serve
// most of the second. Two elements at a time where rows are aligned for it.
#include <cuda_bf16.h>

constexpr int kBlock = 256;

extern "C" __global__ void rmsnorm(const __nv_bfloat16* x, const __nv_bfloat16* weight,
                                   __nv_bfloat16* y, long long cols) {
  __shared__ float partial[kBlock / 32];
  x += blockIdx.x * cols;
  y += blockIdx.x * cols;
  const long long pairs = cols % 2 == 0 ? cols / 2 : 0;
  float squares = 0;
  for (long long p = threadIdx.x; p < pairs; p += kBlock) {
    const float2 value = __bfloat1622float2(((const __nv_bfloat162*)x)[p]);
    squares += value.x * value.x + value.y * value.y;
  }
  for (long long c = pairs * 2 + threadIdx.x; c < cols; c += kBlock) {
    squares += __bfloat162float(x[c]) * __bfloat162float(x[c]);
  }
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = squares;
  __syncthreads();
  squares = 0;
  for (int w = 0; w < kBlock / 32; ++w) squares += partial[w];
  const float scale = 1 / sqrtf(squares / cols + 1e-6f);
  for (long long p = threadIdx.x; p < pairs; p += kBlock) {
    const float2 value = __bfloat1622float2(((const __nv_bfloat162*)x)[p]);
    const float2 w = __bfloat1622float2(((const __nv_bfloat162*)weight)[p]);
    ((__nv_bfloat162*)y)[p] = __floats2bfloat162_rn(value.x * scale * w.x, value.y * scale * w.y);
  }
  for (long long c = pairs * 2 + threadIdx.x; c < cols; c += kBlock) {
    y[c] = __float2bfloat16(__bfloat162float(x[c]) * scale * __bfloat162float(weight[c]));
  }
}
