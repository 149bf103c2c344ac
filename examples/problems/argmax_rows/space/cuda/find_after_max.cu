// One block a row: the largest value without its position, then the first position that holds it,
// from what the caches still have of the row.
struct __align__(4 * VEC) Vector {
  float at[VEC];
};

extern "C" __global__ void __launch_bounds__(BLOCK)
    find_after_max(const float* __restrict__ x, int* __restrict__ y, long long cols_wide) {
  __shared__ float tops[32];
  __shared__ int first;
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  const int vectors = cols % VEC == 0 ? cols / VEC : 0;
  if (threadIdx.x == 0) first = cols;
  float top = x[0];
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    const Vector value = ((const Vector*)x)[v];
#pragma unroll
    for (int i = 0; i < VEC; ++i) top = fmaxf(top, value.at[i]);
  }
  for (int c = vectors * VEC + threadIdx.x; c < cols; c += BLOCK) top = fmaxf(top, x[c]);
  for (int step = 16; step > 0; step /= 2) {
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
  }
  const int lane = threadIdx.x % 32;
  if (lane == 0) tops[threadIdx.x / 32] = top;
  __syncthreads();
  top = tops[lane < BLOCK / 32 ? lane : 0];
  for (int step = 16; step > 0; step /= 2) {
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
  }
  int at = cols;
  for (int v = threadIdx.x; v < vectors && at == cols; v += BLOCK) {
    const Vector value = ((const Vector*)x)[v];
#pragma unroll
    for (int i = VEC - 1; i >= 0; --i) at = value.at[i] == top ? v * VEC + i : at;
  }
  for (int c = vectors * VEC + threadIdx.x; c < cols && at == cols; c += BLOCK) {
    if (x[c] == top) at = c;
  }
  if (at < cols) atomicMin(&first, at);
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = first;
}
