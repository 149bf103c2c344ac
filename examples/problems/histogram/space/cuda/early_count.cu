// Warps begin to count while others still clear the block's table.
extern __shared__ int table[];

extern "C" __global__ void clear(int* y, long long bins) {
  const long long bin = blockIdx.x * 128ll + threadIdx.x;
  if (bin < bins) y[bin] = 0;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    early_count(const int* __restrict__ x, int* __restrict__ y, long long n, long long bins_wide) {
  const int bins = (int)bins_wide;
  // The last warp clears last.
  for (int b = BLOCK - 1 - threadIdx.x; b < bins; b += BLOCK) table[b] = 0;
  for (long long i = (long long)blockIdx.x * BLOCK + threadIdx.x; i < n;
       i += (long long)gridDim.x * BLOCK) {
    atomicAdd(table + x[i], 1);
  }
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += BLOCK) {
    if (table[b] != 0) atomicAdd(y + b, table[b]);
  }
}
