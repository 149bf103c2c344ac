// Mistake: the warp reads one entry for each lane, so that those after the 32nd of a row are missing.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    one_round(const int* __restrict__ row_starts, const int* __restrict__ columns,
              const float* __restrict__ elements, const float* __restrict__ x,
              float* __restrict__ y, int rows) {
  const int row = blockIdx.x * WARPS + threadIdx.y;
  if (row >= rows) return;
  const int at = row_starts[row] + threadIdx.x;
  float sum = at < row_starts[row + 1] ? elements[at] * __ldg(x + columns[at]) : 0;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x == 0) y[row] = sum;
}
