// No shared memory: either the reads or the writes are far apart.
extern "C" __global__ void __launch_bounds__(BLOCK)
    strided(const float* __restrict__ x, float* __restrict__ y, long long rows, long long cols) {
  const long long along = (long long)blockIdx.x * BLOCK + threadIdx.x;
#if FAR_READS
  for (long long c = blockIdx.y; c < cols; c += gridDim.y) {
    if (along < rows) y[c * rows + along] = x[along * cols + c];
  }
#else
  for (long long r = blockIdx.y; r < rows; r += gridDim.y) {
    if (along < cols) y[along * rows + r] = x[r * cols + along];
  }
#endif
}
