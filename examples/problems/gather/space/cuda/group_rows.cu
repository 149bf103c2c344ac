// LANES threads a row, VEC elements each at a time where rows are aligned for it. STORE is plain or
// streaming.
struct __align__(4 * VEC) Vector {
  float at[VEC];
};

__device__ void plain(Vector* to, Vector value) { *to = value; }
__device__ void streaming(Vector* to, Vector value) {
#if VEC == 4
  __stcs((float4*)to, *(float4*)&value);
#elif VEC == 2
  __stcs((float2*)to, *(float2*)&value);
#else
  __stcs((float*)to, value.at[0]);
#endif
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    group_rows(const float* __restrict__ table, const int* __restrict__ index,
               float* __restrict__ out, long long n, long long dim_wide) {
  const int dim = (int)dim_wide;
  const int lane = threadIdx.x % LANES;
  const long long row = (long long)blockIdx.x * (BLOCK / LANES) + threadIdx.x / LANES;
  if (row >= n) return;
  const float* from = table + (long long)index[row] * dim;
  float* to = out + row * dim;
  const int vectors = dim % VEC == 0 ? dim / VEC : 0;
  for (int v = lane; v < vectors; v += LANES) STORE((Vector*)to + v, ((const Vector*)from)[v]);
  for (int d = vectors * VEC + lane; d < dim; d += LANES) to[d] = from[d];
}
