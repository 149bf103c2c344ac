// One block a row. Each thread keeps ITEMS elements in registers, so that the row is read once;
// what a long row has beyond BLOCK * ITEMS is read again.
constexpr float kLowest = -3.402823466e38f;

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
    register_rows(const float* __restrict__ x, float* __restrict__ y, long long cols_wide) {
  constexpr int kGroups = ITEMS / VEC;
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  y += (long long)blockIdx.x * cols;
#if VEC == 4
  const bool aligned = cols % 4 == 0;
#endif
  float kept[ITEMS];
  float top = kLowest;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int first = (g * BLOCK + threadIdx.x) * VEC;
#if VEC == 4
    if (aligned && first < cols) {
      const float4 value = *(const float4*)(x + first);
      kept[g * 4] = value.x;
      kept[g * 4 + 1] = value.y;
      kept[g * 4 + 2] = value.z;
      kept[g * 4 + 3] = value.w;
    } else
#endif
    {
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        kept[g * VEC + i] = first + i < cols ? x[first + i] : kLowest;
      }
    }
#pragma unroll
    for (int i = 0; i < VEC; ++i) top = fmaxf(top, kept[g * VEC + i]);
  }
  for (int c = BLOCK * ITEMS + threadIdx.x; c < cols; c += BLOCK) top = fmaxf(top, x[c]);
  top = ReduceBlock(top, kLowest, [](float a, float b) { return fmaxf(a, b); });

  float sum = 0;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    kept[i] = EXP(kept[i] - top);
    sum += kept[i];
  }
  for (int c = BLOCK * ITEMS + threadIdx.x; c < cols; c += BLOCK) sum += EXP(x[c] - top);
  sum = ReduceBlock(sum, 0.0f, [](float a, float b) { return a + b; });

  const float scale = 1 / sum;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int first = (g * BLOCK + threadIdx.x) * VEC;
#if VEC == 4
    if (aligned && first < cols) {
      *(float4*)(y + first) = make_float4(kept[g * 4] * scale, kept[g * 4 + 1] * scale,
                                          kept[g * 4 + 2] * scale, kept[g * 4 + 3] * scale);
    } else
#endif
    {
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        if (first + i < cols) y[first + i] = kept[g * VEC + i] * scale;
      }
    }
  }
  for (int c = BLOCK * ITEMS + threadIdx.x; c < cols; c += BLOCK) y[c] = EXP(x[c] - top) * scale;
}
