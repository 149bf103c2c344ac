// One warp a row, WARPS rows a block, no shared memory.
__device__ float SumWarp(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_rows(const float* __restrict__ x, const float* __restrict__ gamma,
              const float* __restrict__ beta, float* __restrict__ y, long long rows,
              long long cols_wide) {
  const int cols = (int)cols_wide;
  const int lane = threadIdx.x;
  const long long row = (long long)blockIdx.x * WARPS + threadIdx.y;
  if (row >= rows) return;
  x += row * cols;
  y += row * cols;
  float sum = 0;
#pragma unroll UNROLL
  for (int c = lane; c < cols; c += 32) sum += x[c];
  const float mean = SumWarp(sum) / cols;
  float squares = 0;
#pragma unroll UNROLL
  for (int c = lane; c < cols; c += 32) squares += (x[c] - mean) * (x[c] - mean);
  const float scale = rsqrtf(SumWarp(squares) / cols + 1e-5f);
#pragma unroll UNROLL
  for (int c = lane; c < cols; c += 32) y[c] = (x[c] - mean) * scale * gamma[c] + beta[c];
}
