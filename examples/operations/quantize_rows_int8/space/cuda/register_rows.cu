// A block for each row, whose first BLOCK * GROUPS * VEC values stay in registers, so that they are read
// once. The rest of a long row is read twice.
#include <cuda_bf16.h>

struct __align__(2 * VEC) Vector {
  __nv_bfloat16 at[VEC];
};
struct __align__(VEC) Bytes {
  signed char at[VEC];
};

__device__ float MaxBlock(float value) {
  __shared__ float partial[32];
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  const int lane = threadIdx.x % 32;
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = lane < BLOCK / 32 ? partial[lane] : 0;
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    register_rows(const __nv_bfloat16* __restrict__ x, signed char* __restrict__ quantized,
                  float* __restrict__ scale, int cols) {
  x += (long long)blockIdx.x * cols;
  quantized += (long long)blockIdx.x * cols;
  const bool aligned = cols % VEC == 0;
  Vector kept[GROUPS];
  float largest = 0;
#pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    const int first = (g * BLOCK + threadIdx.x) * VEC;
    if (aligned && first < cols) {
      kept[g] = *(const Vector*)(x + first);
    } else {
#pragma unroll
      for (int i = 0; i < VEC; ++i) kept[g].at[i] = first + i < cols ? x[first + i] : __float2bfloat16(0);
    }
#pragma unroll
    for (int i = 0; i < VEC; ++i) largest = fmaxf(largest, fabsf(__bfloat162float(kept[g].at[i])));
  }
  constexpr int kKept = BLOCK * GROUPS * VEC;
  for (int c = kKept + threadIdx.x; c < cols; c += BLOCK) largest = fmaxf(largest, fabsf(__bfloat162float(x[c])));
  const float unit = MaxBlock(largest) / 127;
  if (threadIdx.x == 0) scale[blockIdx.x] = unit;
  const float divisor = unit > 0 ? unit : 1;
#pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    const int first = (g * BLOCK + threadIdx.x) * VEC;
    Bytes bytes;
#pragma unroll
    for (int i = 0; i < VEC; ++i) bytes.at[i] = (signed char)__float2int_rn(__bfloat162float(kept[g].at[i]) / divisor);
    if (aligned && first < cols) {
      *(Bytes*)(quantized + first) = bytes;
    } else {
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        if (first + i < cols) quantized[first + i] = bytes.at[i];
      }
    }
  }
  for (int c = kKept + threadIdx.x; c < cols; c += BLOCK) {
    quantized[c] = (signed char)__float2int_rn(__bfloat162float(x[c]) / divisor);
  }
}
