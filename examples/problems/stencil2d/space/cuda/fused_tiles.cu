// Both sweeps on a tile in shared memory, with a margin of two. Each thread has HEIGHT points.
extern "C" __global__ void __launch_bounds__(X* Y)
    fused_tiles(const float* __restrict__ x, float* __restrict__ y, long long height_wide,
                long long width_wide) {
  const int height = (int)height_wide;
  const int width = (int)width_wide;
  constexpr int kRows = Y * HEIGHT;
  __shared__ float in[kRows + 4][X + 4];
  __shared__ float middle[kRows + 2][X + 2];
  const int left = blockIdx.x * X;
  const int upper = blockIdx.y * kRows;
  const int thread = threadIdx.y * X + threadIdx.x;
  for (int e = thread; e < (kRows + 4) * (X + 4); e += X * Y) {
    const int i = upper - 2 + e / (X + 4);
    const int j = left - 2 + e % (X + 4);
    const bool inside = i >= 0 && i < height && j >= 0 && j < width;
    in[e / (X + 4)][e % (X + 4)] = inside ? x[(long long)i * width + j] : 0;
  }
  __syncthreads();
  for (int e = thread; e < (kRows + 2) * (X + 2); e += X * Y) {
    const int r = e / (X + 2);
    const int c = e % (X + 2);
    float sums[3];
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      sums[k] = 0.25f * (in[r + k][c] + in[r + k][c + 2]) + 0.5f * in[r + k][c + 1];
    }
    const float sum = 0.25f * (sums[0] + sums[2]) + 0.5f * sums[1];
    const int i = upper - 1 + r;
    const int j = left - 1 + c;
    const bool inside = i >= 0 && i < height && j >= 0 && j < width;
    middle[r][c] = inside ? sum : 0;
  }
  __syncthreads();
#pragma unroll
  for (int h = 0; h < HEIGHT; ++h) {
    const int r = h * Y + threadIdx.y;
    const int c = threadIdx.x;
    if (upper + r >= height || left + c >= width) continue;
    float sums[3];
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      sums[k] = 0.25f * (middle[r + k][c] + middle[r + k][c + 2]) + 0.5f * middle[r + k][c + 1];
    }
    y[(long long)(upper + r) * width + left + c] = 0.25f * (sums[0] + sums[2]) + 0.5f * sums[1];
  }
}
