// No shared memory: a thread has one column and ROWS rows, whose factors all threads of a warp read
// together.
extern "C" __global__ void __launch_bounds__(BLOCK)
    row_strips(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
               long long m_wide, long long n_wide, long long k_wide) {
  const int m = (int)m_wide;
  const int n = (int)n_wide;
  const int k = (int)k_wide;
  const int column = blockIdx.x * BLOCK + threadIdx.x;
  const int top = blockIdx.y * ROWS;
  if (column >= n) return;
  float sum[ROWS] = {};
#pragma unroll UNROLL
  for (int p = 0; p < k; ++p) {
    const float right = b[(long long)p * n + column];
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      const int row = min(top + i, m - 1);
      sum[i] += a[(long long)row * k + p] * right;
    }
  }
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    if (top + i < m) c[(long long)(top + i) * n + column] = sum[i];
  }
}
