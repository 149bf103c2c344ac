extern "C" __global__ void matmul_oracle(const float* a, const float* b, double* c, long long m,
                                         long long n, long long k) {
  const long long row = blockIdx.y * 8ll + threadIdx.y;
  const long long column = blockIdx.x * 32ll + threadIdx.x;
  if (row >= m || column >= n) return;
  double sum = 0;
  for (long long p = 0; p < k; ++p) sum += (double)a[row * k + p] * b[p * n + column];
  c[row * n + column] = sum;
}
