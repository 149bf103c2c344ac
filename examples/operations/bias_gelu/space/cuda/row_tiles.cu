// A block has THREADS * VEC columns of ROWS rows. Each thread keeps its part of the bias in registers.
#include <cuda_bf16.h>

struct __align__(2 * VEC) Vector {
  __nv_bfloat16 at[VEC];
};

__device__ float GeluErf(float v) { return 0.5f * v * (1 + erff(v * 0.70710678f)); }

// The common approximation.
__device__ float GeluTanh(float v) {
  return 0.5f * v * (1 + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    row_tiles(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ bias,
              __nv_bfloat16* __restrict__ y, int rows, int cols) {
  const int column = (blockIdx.y * THREADS + threadIdx.x) * VEC;
  if (column >= cols) return;
  const int first = blockIdx.x * ROWS;
  const int last = min(first + ROWS, rows);
  float added[VEC];
#pragma unroll
  for (int i = 0; i < VEC; ++i) added[i] = column + i < cols ? __bfloat162float(bias[column + i]) : 0;
  if (cols % VEC == 0) {
#pragma unroll
    for (int row = first; row < last; ++row) {
      const long long at = (long long)row * cols + column;
      Vector value = *(const Vector*)(x + at);
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        value.at[i] = __float2bfloat16(FORM(__bfloat162float(value.at[i]) + added[i]));
      }
      *(Vector*)(y + at) = value;
    }
    return;
  }
  // Rows do not begin at multiples of a vector.
  for (int row = first; row < last; ++row) {
    const long long at = (long long)row * cols + column;
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      if (column + i < cols) y[at + i] = __float2bfloat16(FORM(__bfloat162float(x[at + i]) + added[i]));
    }
  }
}
