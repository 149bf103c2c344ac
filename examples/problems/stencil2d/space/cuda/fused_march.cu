// Both sweeps in one walk down the columns: sums along rows go through a line of shared memory,
// sums along columns stay in registers. A block has X columns, of which two on each side are
// margin.
extern "C" __global__ void __launch_bounds__(X)
    fused_march(const float* __restrict__ x, float* __restrict__ y, long long height_wide,
                long long width_wide) {
  const int height = (int)height_wide;
  const int width = (int)width_wide;
  __shared__ float line[2][X + 2];
  const int j = (int)blockIdx.x * (X - 4) - 2 + (int)threadIdx.x;
  const int first = blockIdx.y * STEPS;
  const int last = min(first + STEPS, height);
  const bool inside = j >= 0 && j < width;
  const bool writes = inside && threadIdx.x >= 2 && threadIdx.x < X - 2;
  const int at = threadIdx.x + 1;
  if (threadIdx.x < 4) line[threadIdx.x / 2][threadIdx.x % 2 * (X + 1)] = 0;

  float a0 = 0;  // sums along the rows i - 1 and i of the input
  float a1 = 0;
  float b0 = 0;  // the same of the first sweep's result
  float b1 = 0;
  // Row i + 1 of the input gives row i of the first sweep, and that gives row i - 1 of the second.
  for (int i = first - 3; i <= last; ++i) {
    const int r = i + 1;
    __syncthreads();
    line[0][at] = inside && r >= 0 && r < height ? x[(long long)r * width + j] : 0;
    __syncthreads();
    const float a2 = 0.25f * (line[0][at - 1] + line[0][at + 1]) + 0.5f * line[0][at];
    const bool has_row = inside && i >= 0 && i < height;
    const float middle = has_row ? 0.25f * (a0 + a2) + 0.5f * a1 : 0;
    line[1][at] = middle;
    __syncthreads();
    const float b2 = 0.25f * (line[1][at - 1] + line[1][at + 1]) + 0.5f * line[1][at];
    if (writes && i - 1 >= first && i - 1 < last) {
      y[(long long)(i - 1) * width + j] = 0.25f * (b0 + b2) + 0.5f * b1;
    }
    a0 = a1;
    a1 = a2;
    b0 = b1;
    b1 = b2;
  }
}
