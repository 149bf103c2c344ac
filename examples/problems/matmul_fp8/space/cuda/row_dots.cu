// A thread an element of the result: sixteen products at a time, without tensor cores.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

struct __align__(16) Bytes {
  __nv_fp8x2_storage_t at[8];
};

extern "C" __global__ void __launch_bounds__(X * Y)
    row_dots(const __nv_fp8_e4m3* __restrict__ a, const __nv_fp8_e4m3* __restrict__ b,
             __nv_bfloat16* __restrict__ c, long long m, long long n, long long k_wide) {
  const int k = (int)k_wide;
  const long long column = blockIdx.x * X + threadIdx.x;
  const long long row = blockIdx.y * Y + threadIdx.y;
  if (row >= m || column >= n) return;
  a += row * k;
  b += column * k;
  float sum = 0;
  for (int p = 0; p < k; p += 16) {
    const Bytes left = *(const Bytes*)(a + p);
    const Bytes right = *(const Bytes*)(b + p);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float2 x = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(left.at[i], __NV_E4M3)));
      const float2 y = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(right.at[i], __NV_E4M3)));
      sum += x.x * y.x;
      sum += x.y * y.y;
    }
  }
  c[row * n + column] = __float2bfloat16(sum);
}
