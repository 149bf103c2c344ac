// Mistake: no barrier between loading the tile and using it, so that the values of other warps may be
// missing.
#include <cuda_bf16.h>

__device__ float Silu(float v) { return v / (1 + __expf(-v)); }

extern "C" __global__ void __launch_bounds__(TILE)
    unsynced_halo(const __nv_bfloat16* __restrict__ x, const float* __restrict__ filters,
                  __nv_bfloat16* __restrict__ y, int channels, int length) {
  __shared__ float values[TILE + 3];
  const int at = blockIdx.y * TILE + threadIdx.x;
  const long long row = (long long)blockIdx.x * length;
  values[threadIdx.x + 3] = at < length ? __bfloat162float(x[row + at]) : 0;
  if (threadIdx.x < 3) values[threadIdx.x] = at >= 3 && at - 3 < length ? __bfloat162float(x[row + at - 3]) : 0;
  const float4 taps = ((const float4*)filters)[blockIdx.x % channels];
  __syncwarp();
  if (at >= length) return;
  const float sum = taps.x * values[threadIdx.x] + taps.y * values[threadIdx.x + 1] +
                    taps.z * values[threadIdx.x + 2] + taps.w * values[threadIdx.x + 3];
  y[row + at] = __float2bfloat16(Silu(sum));
}
