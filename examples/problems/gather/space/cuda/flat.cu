// One thread for VEC elements of the output, whichever row they are in.
struct __align__(4 * VEC) Vector {
  float at[VEC];
};

extern "C" __global__ void __launch_bounds__(BLOCK)
    flat(const float* __restrict__ table, const int* __restrict__ index, float* __restrict__ out,
         long long n, long long dim_wide) {
  const unsigned dim = (unsigned)dim_wide;
  const long long first = ((long long)blockIdx.x * BLOCK + threadIdx.x) * VEC;
  if (first >= n * dim) return;
  if (dim % VEC == 0) {
    const long long row = first / dim;
    const long long d = first - row * dim;
    *(Vector*)(out + first) = *(const Vector*)(table + (long long)index[row] * dim + d);
    return;
  }
  for (long long e = first; e < first + VEC && e < n * dim; ++e) {
    const long long row = e / dim;
    out[e] = table[(long long)index[row] * dim + e - row * dim];
  }
}
