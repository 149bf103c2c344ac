// LANES threads a row and VEC elements each, once: longer rows lose their end.
extern "C" __global__ void __launch_bounds__(BLOCK)
    one_sweep(const float* __restrict__ table, const int* __restrict__ index,
              float* __restrict__ out, long long n, long long dim_wide) {
  const int dim = (int)dim_wide;
  const long long row = (long long)blockIdx.x * (BLOCK / LANES) + threadIdx.x / LANES;
  if (row >= n) return;
  const float* from = table + (long long)index[row] * dim;
#pragma unroll
  for (int i = 0; i < VEC; ++i) {
    const int d = i * LANES + threadIdx.x % LANES;
    if (d < dim) out[row * dim + d] = from[d];
  }
}
