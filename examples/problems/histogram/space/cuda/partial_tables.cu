// One table a block, written out whole; a second launch adds the tables up.
extern __shared__ int table[];

struct __align__(4 * VEC) Vector {
  int at[VEC];
};

extern "C" __global__ void __launch_bounds__(BLOCK)
    partial_tables(const int* __restrict__ x, int* __restrict__ parts, long long n,
                   long long bins_wide) {
  const int bins = (int)bins_wide;
  for (int b = threadIdx.x; b < bins; b += BLOCK) table[b] = 0;
  __syncthreads();
  const long long stride = (long long)gridDim.x * BLOCK;
  const long long thread = (long long)blockIdx.x * BLOCK + threadIdx.x;
  const long long vectors = n / VEC;
  for (long long v = thread; v < vectors; v += stride) {
    const Vector value = ((const Vector*)x)[v];
#pragma unroll
    for (int i = 0; i < VEC; ++i) atomicAdd(table + value.at[i], 1);
  }
  for (long long i = vectors * VEC + thread; i < n; i += stride) atomicAdd(table + x[i], 1);
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += BLOCK)
    parts[(long long)blockIdx.x * bins + b] = table[b];
}

// One warp a bin.
extern "C" __global__ void total(const int* __restrict__ parts, int* __restrict__ y,
                                 long long bins) {
  const long long bin = blockIdx.x * 4ll + threadIdx.y;
  if (bin >= bins) return;
  int count = 0;
  for (int p = threadIdx.x; p < BLOCKS; p += 32) count += parts[p * bins + bin];
  for (int step = 16; step > 0; step /= 2) count += __shfl_xor_sync(0xffffffffu, count, step);
  if (threadIdx.x == 0) y[bin] = count;
}
