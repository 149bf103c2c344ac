// Mistake: no barrier after the sums, so that the next products may overwrite those that a slower warp has
// still to add. With one chunk there are none.
extern "C" __global__ void __launch_bounds__(THREADS)
    early_products(const int* __restrict__ row_starts, const int* __restrict__ columns,
                   const float* __restrict__ elements, const float* __restrict__ x,
                   float* __restrict__ y, int rows) {
  __shared__ float products[CHUNK];
  const int first = blockIdx.x * THREADS;
  const int count = min(THREADS, rows - first);
  const int begin = row_starts[first];
  const int end = row_starts[first + count];
  const int own = threadIdx.x < count ? row_starts[first + threadIdx.x] : end;
  const int own_end = threadIdx.x < count ? row_starts[first + threadIdx.x + 1] : end;
  float sum = 0;
  for (int chunk = begin; chunk < end; chunk += CHUNK) {
    const int last = min(chunk + CHUNK, end);
    for (int i = chunk + threadIdx.x; i < last; i += THREADS) products[i - chunk] = elements[i] * __ldg(x + columns[i]);
    __syncthreads();
    for (int i = max(own, chunk); i < min(own_end, last); ++i) sum += products[i - chunk];
  }
  if (threadIdx.x < count) y[first + threadIdx.x] = sum;
}
