// Tiles of 32 x 32 in shared memory, one element of the result a thread.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, long long m,
                                  long long n, long long k) {
  __shared__ float tile_a[32][32];
  __shared__ float tile_b[32][32];
  const long long row = blockIdx.y * 32ll + threadIdx.y;
  const long long column = blockIdx.x * 32ll + threadIdx.x;
  float sum = 0;
  for (long long p = 0; p < k; p += 32) {
    const bool has_a = row < m && p + threadIdx.x < k;
    const bool has_b = column < n && p + threadIdx.y < k;
    tile_a[threadIdx.y][threadIdx.x] = has_a ? a[row * k + p + threadIdx.x] : 0;
    tile_b[threadIdx.y][threadIdx.x] = has_b ? b[(p + threadIdx.y) * n + column] : 0;
    __syncthreads();
    for (int i = 0; i < 32; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}
