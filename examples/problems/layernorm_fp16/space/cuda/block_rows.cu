// One block a row, three passes, VEC elements at a time where rows are aligned for it.
#include <cuda_fp16.h>

struct __align__(2 * VEC) Vector {
  __half at[VEC];
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
    block_rows(const __half* __restrict__ x, const __half* __restrict__ gamma,
               const __half* __restrict__ beta, __half* __restrict__ y, long long cols_wide) {
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  y += (long long)blockIdx.x * cols;
  const int vectors = cols % VEC == 0 ? cols / VEC : 0;
  const int tail = vectors * VEC;
  float sum = 0;
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    const Vector value = ((const Vector*)x)[v];
#pragma unroll
    for (int i = 0; i < VEC; ++i) sum += __half2float(value.at[i]);
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) sum += __half2float(x[c]);
  const float mean = SumBlock(sum) / cols;
  float squares = 0;
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    const Vector value = ((const Vector*)x)[v];
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      const float d = __half2float(value.at[i]) - mean;
      squares += d * d;
    }
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) {
    const float d = __half2float(x[c]) - mean;
    squares += d * d;
  }
  const float scale = rsqrtf(SumBlock(squares) / cols + 1e-5f);
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    Vector value = ((const Vector*)x)[v];
    const Vector g = ((const Vector*)gamma)[v];
    const Vector b = ((const Vector*)beta)[v];
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      value.at[i] = __float2half((__half2float(value.at[i]) - mean) * scale * __half2float(g.at[i]) +
                                 __half2float(b.at[i]));
    }
    ((Vector*)y)[v] = value;
  }
  for (int c = tail + threadIdx.x; c < cols; c += BLOCK) {
    y[c] = __float2half((__half2float(x[c]) - mean) * scale * __half2float(gamma[c]) +
                        __half2float(beta[c]));
  }
}
