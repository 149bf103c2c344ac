// One block a row. Each thread keeps GROUPS vectors in registers, so that the row is read once; what a
// long row has beyond them is read again.
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
    register_rows(const __half* __restrict__ x, const __half* __restrict__ gamma,
                  const __half* __restrict__ beta, __half* __restrict__ y, long long cols_wide) {
  constexpr int kKept = BLOCK * GROUPS * VEC;
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  y += (long long)blockIdx.x * cols;
  const bool aligned = cols % VEC == 0;
  Vector kept[GROUPS];
  float sum = 0;
#pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    const int first = (g * BLOCK + threadIdx.x) * VEC;
    if (aligned && first < cols) {
      kept[g] = *(const Vector*)(x + first);
    } else {
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        kept[g].at[i] = first + i < cols ? x[first + i] : __float2half(0);
      }
    }
#pragma unroll
    for (int i = 0; i < VEC; ++i) sum += __half2float(kept[g].at[i]);
  }
  for (int c = kKept + threadIdx.x; c < cols; c += BLOCK) sum += __half2float(x[c]);
  const float mean = SumBlock(sum) / cols;
  float squares = 0;
#pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    const int first = (g * BLOCK + threadIdx.x) * VEC;
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      const float d = first + i < cols ? __half2float(kept[g].at[i]) - mean : 0;
      squares += d * d;
    }
  }
  for (int c = kKept + threadIdx.x; c < cols; c += BLOCK) {
    const float d = __half2float(x[c]) - mean;
    squares += d * d;
  }
  const float scale = rsqrtf(SumBlock(squares) / cols + 1e-5f);
#pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    const int first = (g * BLOCK + threadIdx.x) * VEC;
    if (aligned && first < cols) {
      Vector value = kept[g];
      const Vector w = *(const Vector*)(gamma + first);
      const Vector b = *(const Vector*)(beta + first);
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        value.at[i] = __float2half((__half2float(value.at[i]) - mean) * scale *
                                       __half2float(w.at[i]) +
                                   __half2float(b.at[i]));
      }
      *(Vector*)(y + first) = value;
    } else {
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        if (first + i >= cols) continue;
        y[first + i] = __float2half((__half2float(kept[g].at[i]) - mean) * scale *
                                        __half2float(gamma[first + i]) +
                                    __half2float(beta[first + i]));
      }
    }
  }
  for (int c = kKept + threadIdx.x; c < cols; c += BLOCK) {
    y[c] = __float2half((__half2float(x[c]) - mean) * scale * __half2float(gamma[c]) +
                        __half2float(beta[c]));
  }
}
