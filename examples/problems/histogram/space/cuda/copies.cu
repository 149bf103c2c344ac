// COPIES tables a block, so that fewer threads meet at one counter; a warp uses one of them.
extern __shared__ int tables[];

struct __align__(4 * VEC) Vector {
  int at[VEC];
};

extern "C" __global__ void clear(int* y, long long bins) {
  const long long bin = blockIdx.x * 128ll + threadIdx.x;
  if (bin < bins) y[bin] = 0;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    copies(const int* __restrict__ x, int* __restrict__ y, long long n, long long bins_wide) {
  const int bins = (int)bins_wide;
  for (int b = threadIdx.x; b < bins * COPIES; b += BLOCK) tables[b] = 0;
  __syncthreads();
  int* table = tables + threadIdx.x / 32 % COPIES * bins;
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
  for (int b = threadIdx.x; b < bins; b += BLOCK) {
    int count = 0;
    for (int c = 0; c < COPIES; ++c) count += tables[c * bins + b];
    if (count != 0) atomicAdd(y + b, count);
  }
}
