// Each thread computes ITEMS neighbours of a row. It loads what precedes them itself, mostly from the
// first-level cache, and keeps a window of the last values in registers.
#include <cuda_bf16.h>

struct __align__(2 * ITEMS) Items {
  __nv_bfloat16 at[ITEMS];
};

__device__ float Silu(float v) { return v / (1 + __expf(-v)); }

extern "C" __global__ void __launch_bounds__(THREADS)
    windows(const __nv_bfloat16* __restrict__ x, const float* __restrict__ filters,
            __nv_bfloat16* __restrict__ y, int channels, int length) {
  const int first = (blockIdx.y * THREADS + threadIdx.x) * ITEMS;
  if (first >= length) return;
  const long long row = (long long)blockIdx.x * length;
  const float4 taps = ((const float4*)filters)[blockIdx.x % channels];
  float c = first >= 3 ? __bfloat162float(x[row + first - 3]) : 0;
  float b = first >= 2 ? __bfloat162float(x[row + first - 2]) : 0;
  float a = first >= 1 ? __bfloat162float(x[row + first - 1]) : 0;
  const bool whole = length % ITEMS == 0;
  Items items;
  if (whole) items = *(const Items*)(x + row + first);
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    if (!whole && first + i >= length) break;
    const float now = __bfloat162float(whole ? items.at[i] : x[row + first + i]);
    const float sum = taps.x * c + taps.y * b + taps.z * a + taps.w * now;
    c = b;
    b = a;
    a = now;
    items.at[i] = __float2bfloat16(Silu(sum));
    if (!whole) y[row + first + i] = items.at[i];
  }
  if (whole) *(Items*)(y + row + first) = items;
}
