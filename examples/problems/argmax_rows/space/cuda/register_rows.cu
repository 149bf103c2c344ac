// One block a row. Each thread keeps GROUPS times four elements in registers: their maximum is found
// without positions, and the first position afterwards; what a long row has beyond them is read
// again.
constexpr float kLowest = -3.402823466e38f;

extern "C" __global__ void __launch_bounds__(BLOCK)
    register_rows(const float* __restrict__ x, int* __restrict__ y, long long cols_wide) {
  __shared__ float tops[32];
  __shared__ int first;
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  const bool aligned = cols % 4 == 0;
  if (threadIdx.x == 0) first = cols;
  float kept[GROUPS][4];
  float top = kLowest;
#pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    const int c = (g * BLOCK + threadIdx.x) * 4;
    if (aligned && c < cols) {
      const float4 value = *(const float4*)(x + c);
      kept[g][0] = value.x;
      kept[g][1] = value.y;
      kept[g][2] = value.z;
      kept[g][3] = value.w;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) kept[g][i] = c + i < cols ? x[c + i] : kLowest;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) top = fmaxf(top, kept[g][i]);
  }
  for (int c = BLOCK * GROUPS * 4 + threadIdx.x; c < cols; c += BLOCK) top = fmaxf(top, x[c]);
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
#pragma unroll
  for (int g = GROUPS - 1; g >= 0; --g) {
    const int c = (g * BLOCK + threadIdx.x) * 4;
#pragma unroll
    for (int i = 3; i >= 0; --i) at = c + i < cols && kept[g][i] == top ? c + i : at;
  }
  for (int c = BLOCK * GROUPS * 4 + threadIdx.x; c < cols && at == cols; c += BLOCK) {
    if (x[c] == top) at = c;
  }
  if (at < cols) atomicMin(&first, at);
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = first;
}
