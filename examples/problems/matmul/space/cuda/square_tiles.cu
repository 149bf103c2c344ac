// Square tiles in shared memory, COARSE elements of a column a thread.
extern "C" __global__ void __launch_bounds__(TILE* TILE / COARSE)
    square_tiles(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                 long long m_wide, long long n_wide, long long k_wide) {
  const int m = (int)m_wide;
  const int n = (int)n_wide;
  const int k = (int)k_wide;
  constexpr int kRows = TILE / COARSE;
  __shared__ float tile_a[TILE][TILE];
  __shared__ float tile_b[TILE][TILE];
  const int lane = threadIdx.x;
  const int top = blockIdx.y * TILE;
  const int column = blockIdx.x * TILE + lane;
  float sum[COARSE] = {};
  for (int p = 0; p < k; p += TILE) {
#pragma unroll
    for (int i = 0; i < COARSE; ++i) {
      const int r = i * kRows + threadIdx.y;
      const bool has_a = top + r < m && p + lane < k;
      const bool has_b = column < n && p + r < k;
      tile_a[r][lane] = has_a ? a[(long long)(top + r) * k + p + lane] : 0;
      tile_b[r][lane] = has_b ? b[(long long)(p + r) * n + column] : 0;
    }
    __syncthreads();
#pragma unroll
    for (int q = 0; q < TILE; ++q) {
      const float right = tile_b[q][lane];
#pragma unroll
      for (int i = 0; i < COARSE; ++i) sum[i] += tile_a[i * kRows + threadIdx.y][q] * right;
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < COARSE; ++i) {
    const int row = top + i * kRows + threadIdx.y;
    if (row < m && column < n) c[(long long)row * n + column] = sum[i];
  }
}
