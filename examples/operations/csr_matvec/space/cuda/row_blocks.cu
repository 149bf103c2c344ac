// A block takes ROWS rows. Its threads multiply all their entries in turn, so that each has the same
// number, and keep the products in shared memory, CHUNK at a time. A thread for each row adds its own up.
extern "C" __global__ void __launch_bounds__(THREADS)
    row_blocks(const int* __restrict__ row_starts, const int* __restrict__ columns,
               const float* __restrict__ elements, const float* __restrict__ x,
               float* __restrict__ y, int rows) {
  __shared__ float products[CHUNK];
  __shared__ int starts[ROWS + 1];
  const int first = blockIdx.x * ROWS;
  const int count = min(ROWS, rows - first);
  for (int r = threadIdx.x; r <= count; r += THREADS) starts[r] = row_starts[first + r];
  __syncthreads();
  const int begin = starts[0];
  const int end = starts[count];
  float sum = 0;
  for (int chunk = begin; chunk < end; chunk += CHUNK) {
    const int last = min(chunk + CHUNK, end);
    for (int i = chunk + threadIdx.x; i < last; i += THREADS) products[i - chunk] = elements[i] * __ldg(x + columns[i]);
    __syncthreads();
    if (threadIdx.x < count) {
      const int from = max(starts[threadIdx.x], chunk);
      const int to = min(starts[threadIdx.x + 1], last);
      for (int i = from; i < to; ++i) sum += products[i - chunk];
    }
    __syncthreads();
  }
  if (threadIdx.x < count) y[first + threadIdx.x] = sum;
}
