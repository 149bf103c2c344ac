// One block a row, three passes, VEC elements at a time where rows are aligned for it. EXP is
// expf or __expf.
constexpr float kLowest = -3.402823466e38f;

struct __align__(4 * VEC) Vector {
  float at[VEC];
};

template <class Combine>
__device__ float ReduceBlock(float value, float neutral, Combine combine) {
  __shared__ float partial[32];
  for (int step = 16; step > 0; step /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  const int lane = threadIdx.x % 32;
  __syncthreads();
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = lane < BLOCK / 32 ? partial[lane] : neutral;
  for (int step = 16; step > 0; step /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  return value;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    block_rows(const float* __restrict__ x, float* __restrict__ y, long long cols_wide) {
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  y += (long long)blockIdx.x * cols;
  const int vectors = cols % VEC == 0 ? cols / VEC : 0;
  const int tail = vectors * VEC;
  const Vector* in = (const Vector*)x;
  Vector* out = (Vector*)y;

  float top = kLowest;
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    const Vector value = in[v];
    for (int i = 0; i < VEC; ++i) top = fmaxf(top, value.at[i]);
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) top = fmaxf(top, x[c]);
  top = ReduceBlock(top, kLowest, [](float a, float b) { return fmaxf(a, b); });

  float sum = 0;
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    const Vector value = in[v];
    for (int i = 0; i < VEC; ++i) sum += EXP(value.at[i] - top);
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) sum += EXP(x[c] - top);
  sum = ReduceBlock(sum, 0.0f, [](float a, float b) { return a + b; });

  const float scale = 1 / sum;
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    Vector value = in[v];
    for (int i = 0; i < VEC; ++i) value.at[i] = EXP(value.at[i] - top) * scale;
    out[v] = value;
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) y[c] = EXP(x[c] - top) * scale;
}
