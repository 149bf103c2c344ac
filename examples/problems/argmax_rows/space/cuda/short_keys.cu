// The upper half of a value and its column make one word, which the warp's own instruction finds the
// maximum of: values are told apart by their first sixteen bits.
struct __align__(4 * VEC) Vector {
  float at[VEC];
};

__device__ unsigned MakeKey(float value, int c) {
  const unsigned bits = __float_as_uint(value);
  const unsigned ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return (ordered & 0xffff0000u) | (0xffffu - (unsigned)c);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    short_keys(const float* __restrict__ x, int* __restrict__ y, long long cols_wide) {
  __shared__ unsigned tops[32];
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  const int vectors = cols % VEC == 0 ? cols / VEC : 0;
  unsigned top = 0;
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    const Vector value = ((const Vector*)x)[v];
#pragma unroll
    for (int i = 0; i < VEC; ++i) top = max(top, MakeKey(value.at[i], v * VEC + i));
  }
  for (int c = vectors * VEC + threadIdx.x; c < cols; c += BLOCK) top = max(top, MakeKey(x[c], c));
  top = __reduce_max_sync(0xffffffffu, top);
  const int lane = threadIdx.x % 32;
  if (lane == 0) tops[threadIdx.x / 32] = top;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  top = __reduce_max_sync(0xffffffffu, lane < BLOCK / 32 ? tops[lane] : 0);
  if (lane == 0) y[blockIdx.x] = (int)(0xffffu - (top & 0xffffu));
}
