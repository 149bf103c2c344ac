extern "C" __global__ void scaled_lookup(const float* table, const int* index, const float* scale,
                                         const float* weight, float* out, int n, int dim) {
  const int i = blockIdx.x * blockDim.y + threadIdx.y;
  if (i >= n) return;
  const float* row = table + (long long)index[i] * dim;
  for (int d = threadIdx.x; d < dim; d += 32) {
    out[(long long)i * dim + d] = row[d] * scale[d] * weight[i];
  }
}
