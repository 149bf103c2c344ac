// Four counters of eight bits a word, which a block with many equal values overflows.
extern __shared__ unsigned packed[];

struct __align__(4 * VEC) Vector {
  int at[VEC];
};

extern "C" __global__ void clear(int* y, long long bins) {
  const long long bin = blockIdx.x * 128ll + threadIdx.x;
  if (bin < bins) y[bin] = 0;
}

__device__ void Count(int value) { atomicAdd(packed + value / 4, 1u << value % 4 * 8); }

extern "C" __global__ void __launch_bounds__(BLOCK)
    byte_counters(const int* __restrict__ x, int* __restrict__ y, long long n,
                  long long bins_wide) {
  const int bins = (int)bins_wide;
  for (int b = threadIdx.x; b < (bins + 3) / 4; b += BLOCK) packed[b] = 0;
  __syncthreads();
  const long long stride = (long long)gridDim.x * BLOCK;
  const long long thread = (long long)blockIdx.x * BLOCK + threadIdx.x;
  const long long vectors = n / VEC;
  for (long long v = thread; v < vectors; v += stride) {
    const Vector value = ((const Vector*)x)[v];
#pragma unroll
    for (int i = 0; i < VEC; ++i) Count(value.at[i]);
  }
  for (long long i = vectors * VEC + thread; i < n; i += stride) Count(x[i]);
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += BLOCK) {
    const int count = packed[b / 4] >> b % 4 * 8 & 255;
    if (count != 0) atomicAdd(y + b, count);
  }
}
