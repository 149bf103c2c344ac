// LANES threads go through ROWS rows, and read all of them before they write the first: more
// reads under way at once.
extern "C" __global__ void __launch_bounds__(BLOCK)
    rows_ahead(const float* __restrict__ table, const int* __restrict__ index,
               float* __restrict__ out, long long n, long long dim_wide) {
  const int dim = (int)dim_wide;
  const int lane = threadIdx.x % LANES;
  const long long first = ((long long)blockIdx.x * (BLOCK / LANES) + threadIdx.x / LANES) * ROWS;
  const int vectors = dim % 4 == 0 ? dim / 4 : 0;
  const float* from[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const long long row = first + r < n ? first + r : n - 1;
    from[r] = table + (long long)index[row] * dim;
  }
  for (int v = lane; v < vectors; v += LANES) {
    float4 held[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) held[r] = ((const float4*)from[r])[v];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      if (first + r < n) ((float4*)(out + (first + r) * dim))[v] = held[r];
    }
  }
  for (int d = vectors * 4 + lane; d < dim; d += LANES) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      if (first + r < n) out[(first + r) * dim + d] = from[r][d];
    }
  }
}
