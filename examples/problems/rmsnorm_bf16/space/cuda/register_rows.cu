// One block a row. Each thread keeps GROUPS vectors in registers, so that the row is read once;
// what a long row has beyond them is read again.
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
    register_rows(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ weight,
                  __nv_bfloat16* __restrict__ y, long long cols_wide) {
  constexpr int kKept = BLOCK * GROUPS * VEC;
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  y += (long long)blockIdx.x * cols;
  const bool aligned = cols % VEC == 0;
  Vector kept[GROUPS];
  float squares = 0;
#pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    const int first = (g * BLOCK + threadIdx.x) * VEC;
    if (aligned && first < cols) {
      kept[g] = *(const Vector*)(x + first);
    } else {
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        kept[g].at[i] = first + i < cols ? x[first + i] : __float2bfloat16(0);
      }
    }
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      squares += __bfloat162float(kept[g].at[i]) * __bfloat162float(kept[g].at[i]);
    }
  }
  for (int c = kKept + threadIdx.x; c < cols; c += BLOCK) {
    squares += __bfloat162float(x[c]) * __bfloat162float(x[c]);
  }
  const float scale = rsqrtf(SumBlock(squares) / cols + 1e-6f);
#pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    const int first = (g * BLOCK + threadIdx.x) * VEC;
    if (aligned && first < cols) {
      Vector value = *(const Vector*)(weight + first);
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        value.at[i] = __float2bfloat16(__bfloat162float(kept[g].at[i]) * scale *
                                       __bfloat162float(value.at[i]));
      }
      *(Vector*)(y + first) = value;
    } else {
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        if (first + i >= cols) continue;
        y[first + i] = __float2bfloat16(__bfloat162float(kept[g].at[i]) * scale *
                                        __bfloat162float(weight[first + i]));
      }
    }
  }
  for (int c = kKept + threadIdx.x; c < cols; c += BLOCK) {
    y[c] = __float2bfloat16(__bfloat162float(x[c]) * scale * __bfloat162float(weight[c]));
  }
}
