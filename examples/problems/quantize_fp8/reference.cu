// One block a row: largest magnitude, then quotients; two reads of the row, of which the caches serve
// most of the second. Two elements at a time where rows are aligned for it.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

constexpr int kBlock = 256;

extern "C" __global__ void quantize(const __nv_bfloat16* x, __nv_fp8_e4m3* q, float* scale,
                                    long long cols) {
  __shared__ float partial[kBlock / 32];
  x += blockIdx.x * cols;
  q += blockIdx.x * cols;
  const long long pairs = cols % 2 == 0 ? cols / 2 : 0;
  const long long tail = pairs * 2;
  float top = 0;
  for (long long p = threadIdx.x; p < pairs; p += kBlock) {
    const float2 value = __bfloat1622float2(((const __nv_bfloat162*)x)[p]);
    top = fmaxf(top, fmaxf(fabsf(value.x), fabsf(value.y)));
  }
  for (long long c = tail + threadIdx.x; c < cols; c += kBlock) {
    top = fmaxf(top, fabsf(__bfloat162float(x[c])));
  }
  for (int step = 16; step > 0; step /= 2) {
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = top;
  __syncthreads();
  for (int w = 0; w < kBlock / 32; ++w) top = fmaxf(top, partial[w]);
  const float unit = top > 0 ? top / 448 : 1;
  const float factor = 1 / unit;
  for (long long p = threadIdx.x; p < pairs; p += kBlock) {
    const float2 value = __bfloat1622float2(((const __nv_bfloat162*)x)[p]);
    ((__nv_fp8x2_storage_t*)q)[p] = __nv_cvt_float2_to_fp8x2(
        make_float2(value.x * factor, value.y * factor), __NV_SATFINITE, __NV_E4M3);
  }
  for (long long c = tail + threadIdx.x; c < cols; c += kBlock) {
    q[c] = __nv_fp8_e4m3(__bfloat162float(x[c]) * factor);
  }
  if (threadIdx.x == 0) scale[blockIdx.x] = unit;
}
