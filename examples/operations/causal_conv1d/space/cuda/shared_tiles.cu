// A block loads TILE values of a row and the three before them into shared memory. Neighbouring threads
// compute neighbouring results.
#include <cuda_bf16.h>

__device__ float Silu(float v) { return v / (1 + __expf(-v)); }

extern "C" __global__ void __launch_bounds__(THREADS)
    shared_tiles(const __nv_bfloat16* __restrict__ x, const float* __restrict__ filters,
                 __nv_bfloat16* __restrict__ y, int channels, int length) {
  __shared__ float values[TILE + 3];
  const int first = blockIdx.y * TILE;
  const long long row = (long long)blockIdx.x * length;
  for (int i = threadIdx.x; i < TILE + 3; i += THREADS) {
    const int at = first + i - 3;
    values[i] = at >= 0 && at < length ? __bfloat162float(x[row + at]) : 0;
  }
  const float4 taps = ((const float4*)filters)[blockIdx.x % channels];
  __syncthreads();
#pragma unroll UNROLL
  for (int i = threadIdx.x; i < TILE; i += THREADS) {
    if (first + i >= length) break;
    const float sum = taps.x * values[i] + taps.y * values[i + 1] + taps.z * values[i + 2] + taps.w * values[i + 3];
    y[row + first + i] = __float2bfloat16(Silu(sum));
  }
}
