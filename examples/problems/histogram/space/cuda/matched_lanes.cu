// Lanes of a warp that hold the same value count as one addition.
extern __shared__ int table[];

extern "C" __global__ void clear(int* y, long long bins) {
  const long long bin = blockIdx.x * 128ll + threadIdx.x;
  if (bin < bins) y[bin] = 0;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    matched_lanes(const int* __restrict__ x, int* __restrict__ y, long long n,
                  long long bins_wide) {
  const int bins = (int)bins_wide;
  for (int b = threadIdx.x; b < bins; b += BLOCK) table[b] = 0;
  __syncthreads();
  const int lane = threadIdx.x % 32;
  // Whole warps go round together, with -1 where there is no element.
  for (long long first = (long long)blockIdx.x * BLOCK; first < n;
       first += (long long)gridDim.x * BLOCK) {
    const long long i = first + threadIdx.x;
    const int value = i < n ? x[i] : -1;
    const unsigned same = __match_any_sync(0xffffffffu, value);
    if (value >= 0 && __ffs(same) - 1 == lane) atomicAdd(table + value, __popc(same));
  }
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += BLOCK) {
    if (table[b] != 0) atomicAdd(y + b, table[b]);
  }
}
