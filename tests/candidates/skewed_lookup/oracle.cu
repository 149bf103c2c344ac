extern "C" __global__ void scaled_lookup(const float* table, const int* index, const float* scale,
                                         const float* weight, double* out, long long elements,
                                         int dim) {
  const long long at = (long long)blockIdx.x * dim;
  for (int d = threadIdx.x; d < dim && at + d < elements; d += blockDim.x) {
    out[at + d] = (double)table[(long long)index[blockIdx.x] * dim + d] * scale[d] * weight[blockIdx.x];
  }
}
