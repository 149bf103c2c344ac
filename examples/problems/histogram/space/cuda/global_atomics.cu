// Straight to the result.
struct __align__(4 * VEC) Vector {
  int at[VEC];
};

extern "C" __global__ void clear(int* y, long long bins) {
  const long long bin = blockIdx.x * 128ll + threadIdx.x;
  if (bin < bins) y[bin] = 0;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    global_atomics(const int* __restrict__ x, int* __restrict__ y, long long n) {
  const long long stride = (long long)gridDim.x * BLOCK;
  const long long thread = (long long)blockIdx.x * BLOCK + threadIdx.x;
  const long long vectors = n / VEC;
  for (long long v = thread; v < vectors; v += stride) {
    const Vector value = ((const Vector*)x)[v];
#pragma unroll
    for (int i = 0; i < VEC; ++i) atomicAdd(y + value.at[i], 1);
  }
  for (long long i = vectors * VEC + thread; i < n; i += stride) atomicAdd(y + x[i], 1);
}
