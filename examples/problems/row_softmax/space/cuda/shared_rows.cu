// One block a row, staged in shared memory: the row is read once and the exponentials are kept.
constexpr float kLowest = -3.402823466e38f;

extern __shared__ __align__(16) float stage[];

__device__ float ReduceBlock(float value, bool is_sum) {
  __shared__ float partial[32];
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = is_sum ? value + other : fmaxf(value, other);
  }
  const int lane = threadIdx.x % 32;
  __syncthreads();
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = lane < BLOCK / 32 ? partial[lane] : (is_sum ? 0 : kLowest);
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = is_sum ? value + other : fmaxf(value, other);
  }
  return value;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    shared_rows(const float* __restrict__ x, float* __restrict__ y, long long cols_wide) {
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  y += (long long)blockIdx.x * cols;
  float top = kLowest;
#if VEC == 4
  const int aligned = cols % 4 == 0 ? cols : 0;
  for (int c = threadIdx.x * 4; c < aligned; c += BLOCK * 4) {
    const float4 value = *(const float4*)(x + c);
    *(float4*)(stage + c) = value;
    top = fmaxf(fmaxf(fmaxf(top, value.x), fmaxf(value.y, value.z)), value.w);
  }
#else
  const int aligned = 0;
#endif
  for (int c = aligned + threadIdx.x; c < cols; c += BLOCK) {
    stage[c] = x[c];
    top = fmaxf(top, stage[c]);
  }
  top = ReduceBlock(top, false);
  float sum = 0;
  for (int c = threadIdx.x; c < cols; c += BLOCK) {
    const float e = EXP(stage[c] - top);
    stage[c] = e;
    sum += e;
  }
  // Its barriers order the writes to `stage` before the reads below.
  const float scale = 1 / ReduceBlock(sum, true);
#if VEC == 4
  for (int c = threadIdx.x * 4; c < aligned; c += BLOCK * 4) {
    float4 value = *(const float4*)(stage + c);
    value.x *= scale;
    value.y *= scale;
    value.z *= scale;
    value.w *= scale;
    *(float4*)(y + c) = value;
  }
#endif
  for (int c = aligned + threadIdx.x; c < cols; c += BLOCK) y[c] = stage[c] * scale;
}
