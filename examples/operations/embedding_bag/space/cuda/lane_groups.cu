// GROUP lanes share a bag and have VEC dimensions each at a time. All lanes read the indices.
#include <cuda_fp16.h>

struct __align__(2 * VEC) Halves {
  __half at[VEC];
};

extern "C" __global__ void __launch_bounds__(THREADS)
    lane_groups(const __half* __restrict__ table, const int* __restrict__ indices,
                const float* __restrict__ shares, float* __restrict__ sums, int bags, int places,
                int dim) {
  const int bag = (blockIdx.x * THREADS + threadIdx.x) / GROUP;
  if (bag >= bags) return;
  const bool whole = dim % VEC == 0;
  const int* const own = indices + (long long)bag * places;
  for (int first = threadIdx.x % GROUP * VEC; first < dim; first += GROUP * VEC) {
    float sum[VEC] = {};
#pragma unroll UNROLL
    for (int p = 0; p < places; ++p) {
      const int row = own[p];
      if (row < 0) continue;
      const float share = shares[(long long)bag * places + p];
      const __half* const from = table + (long long)row * dim + first;
      Halves value;
      if (whole) value = *(const Halves*)from;
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        if (whole || first + i < dim) sum[i] += share * __half2float(whole ? value.at[i] : from[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      if (first + i < dim) sums[(long long)bag * dim + first + i] = sum[i];
    }
  }
}
