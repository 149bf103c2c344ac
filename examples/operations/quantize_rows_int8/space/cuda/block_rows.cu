// A block for each row, which is read twice: for the largest magnitude, and to quantise it.
#include <cuda_bf16.h>

struct __align__(2 * VEC) Vector {
  __nv_bfloat16 at[VEC];
};
struct __align__(VEC) Bytes {
  signed char at[VEC];
};

// The largest value over the block, for every thread.
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
    block_rows(const __nv_bfloat16* __restrict__ x, signed char* __restrict__ quantized,
               float* __restrict__ scale, int cols) {
  x += (long long)blockIdx.x * cols;
  quantized += (long long)blockIdx.x * cols;
  // Rows begin at multiples of a vector only if it divides them.
  const int whole = cols % VEC == 0 ? cols : 0;
  float largest = 0;
#pragma unroll UNROLL
  for (int c = threadIdx.x * VEC; c < whole; c += BLOCK * VEC) {
    const Vector value = *(const Vector*)(x + c);
#pragma unroll
    for (int i = 0; i < VEC; ++i) largest = fmaxf(largest, fabsf(__bfloat162float(value.at[i])));
  }
  for (int c = whole + threadIdx.x; c < cols; c += BLOCK) largest = fmaxf(largest, fabsf(__bfloat162float(x[c])));
  const float unit = MaxBlock(largest) / 127;
  if (threadIdx.x == 0) scale[blockIdx.x] = unit;
  const float divisor = unit > 0 ? unit : 1;
#pragma unroll UNROLL
  for (int c = threadIdx.x * VEC; c < whole; c += BLOCK * VEC) {
    const Vector value = *(const Vector*)(x + c);
    Bytes bytes;
#pragma unroll
    for (int i = 0; i < VEC; ++i) bytes.at[i] = (signed char)__float2int_rn(__bfloat162float(value.at[i]) / divisor);
    *(Bytes*)(quantized + c) = bytes;
  }
  for (int c = whole + threadIdx.x; c < cols; c += BLOCK) {
    quantized[c] = (signed char)__float2int_rn(__bfloat162float(x[c]) / divisor);
  }
}
