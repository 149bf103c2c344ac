// GROUP lanes of a warp share a row: one lane for a short row's entries, a whole warp for a long one's.
extern "C" __global__ void __launch_bounds__(THREADS)
    lane_groups(const int* __restrict__ row_starts, const int* __restrict__ columns,
                const float* __restrict__ elements, const float* __restrict__ x,
                float* __restrict__ y, int rows) {
  const int row = (blockIdx.x * THREADS + threadIdx.x) / GROUP;
  const int lane = threadIdx.x % GROUP;
  // All lanes of a warp take part in the sums.
  const int first = row < rows ? row_starts[row] : 0;
  const int last = row < rows ? row_starts[row + 1] : 0;
  float sum = 0;
#pragma unroll UNROLL
  for (int i = first + lane; i < last; i += GROUP) sum += elements[i] * __ldg(x + columns[i]);
#pragma unroll
  for (int step = GROUP / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0 && row < rows) y[row] = sum;
}
