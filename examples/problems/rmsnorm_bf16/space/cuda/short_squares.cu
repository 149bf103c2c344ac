// Squares and their sums in bfloat16, which has eight bits for them.
#include <cuda_bf16.h>

struct __align__(2 * VEC) Vector {
  __nv_bfloat16 at[VEC];
};

// The sum over the block, for every thread.
__device__ float SumBlock(float value) {
  __shared__ float partial[32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  const int lane = threadIdx.x % 32;
  // The last call's sums may still be read.
  __syncthreads();
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = lane < BLOCK / 32 ? partial[lane] : 0;
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    short_squares(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ weight,
                  __nv_bfloat16* __restrict__ y, long long cols_wide) {
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  y += (long long)blockIdx.x * cols;
  const int vectors = cols % VEC == 0 ? cols / VEC : 0;
  const int tail = vectors * VEC;
  __nv_bfloat16 sum = __float2bfloat16(0);
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    const Vector value = ((const Vector*)x)[v];
#pragma unroll
    for (int i = 0; i < VEC; ++i) sum = __hfma(value.at[i], value.at[i], sum);
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) sum = __hfma(x[c], x[c], sum);
  const float squares = __bfloat162float(sum);
  const float scale = rsqrtf(SumBlock(squares) / cols + 1e-6f);
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    Vector value = ((const Vector*)x)[v];
    const Vector w = ((const Vector*)weight)[v];
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      value.at[i] =
          __float2bfloat16(__bfloat162float(value.at[i]) * scale * __bfloat162float(w.at[i]));
    }
    ((Vector*)y)[v] = value;
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) {
    y[c] = __float2bfloat16(__bfloat162float(x[c]) * scale * __bfloat162float(weight[c]));
  }
}
