// A warp for each bag. Its lanes first load the indices and shares of up to 32 places, and pass them on by
// shuffles, so that AHEAD rows of the table are loaded before the first is added.
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    ahead(const __half* __restrict__ table, const int* __restrict__ indices,
          const float* __restrict__ shares, float* __restrict__ sums, int bags, int places,
          int dim) {
  const int bag = blockIdx.x * WARPS + threadIdx.y;
  if (bag >= bags) return;
  const int lane = threadIdx.x;
  // Pairs of dimensions, where rows begin at an even element.
  const bool pairs = dim % 2 == 0;
  for (int first = 2 * lane; first - 2 * lane < dim; first += 64) {
    float2 sum = make_float2(0, 0);
    for (int begin = 0; begin < places; begin += 32) {
      const int at = begin + lane;
      const int row = at < places ? indices[(long long)bag * places + at] : -1;
      const float share = at < places && row >= 0 ? shares[(long long)bag * places + at] : 0;
      const int count = min(32, places - begin);
      for (int p = 0; p < count; p += AHEAD) {
        float2 value[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          const int source = __shfl_sync(0xffffffffu, row, (p + a) % 32);
          value[a] = make_float2(0, 0);
          if (p + a >= count || source < 0 || first >= dim) continue;
          const __half* const from = table + (long long)source * dim + first;
          if (pairs) {
            value[a] = __half22float2(*(const __half2*)from);
          } else {
            value[a].x = __half2float(from[0]);
            if (first + 1 < dim) value[a].y = __half2float(from[1]);
          }
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          const float scale = __shfl_sync(0xffffffffu, share, (p + a) % 32);
          if (p + a >= count) continue;
          sum.x += scale * value[a].x;
          sum.y += scale * value[a].y;
        }
      }
    }
    if (first < dim) sums[(long long)bag * dim + first] = sum.x;
    if (first + 1 < dim) sums[(long long)bag * dim + first + 1] = sum.y;
  }
}
