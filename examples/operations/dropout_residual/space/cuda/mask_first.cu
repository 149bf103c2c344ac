// One launch for the mask, four bytes at a time, and one that reads it again and adds. A grid of fixed size
// goes over everything.
#include <cuda_bf16.h>

// murmur3's last step.
__device__ unsigned Mixed(unsigned bits) {
  bits ^= bits >> 16;
  bits *= 0x85ebca6bu;
  bits ^= bits >> 13;
  bits *= 0xc2b2ae35u;
  return bits ^ bits >> 16;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    masks(const int* __restrict__ seeds, unsigned char* __restrict__ kept, int cols,
          long long count) {
#pragma unroll UNROLL
  for (long long word = (long long)blockIdx.x * THREADS + threadIdx.x; 4 * word < count;
       word += (long long)gridDim.x * THREADS) {
    unsigned bytes = 0;
    long long row = 4 * word / cols;
    int column = (int)(4 * word % cols);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (4 * word + i >= count) break;
      const unsigned keep = Mixed(column ^ seeds[row]) >= 1u << 30;
      bytes |= keep << 8 * i;
      if (4 * word + 4 > count) kept[4 * word + i] = keep;
      if (++column == cols) {
        column = 0;
        ++row;
      }
    }
    if (4 * word + 4 <= count) ((unsigned*)kept)[word] = bytes;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sums(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ residual,
         const unsigned char* __restrict__ kept, __nv_bfloat16* __restrict__ y, long long count) {
  const long long pairs = count / 2;
#pragma unroll UNROLL
  for (long long p = (long long)blockIdx.x * THREADS + threadIdx.x; p < pairs; p += (long long)gridDim.x * THREADS) {
    const __nv_bfloat162 value = ((const __nv_bfloat162*)x)[p];
    const __nv_bfloat162 base = ((const __nv_bfloat162*)residual)[p];
    const uchar2 keep = ((const uchar2*)kept)[p];
    ((__nv_bfloat162*)y)[p] =
        __floats2bfloat162_rn(__bfloat162float(base.x) + keep.x * (4.f / 3) * __bfloat162float(value.x),
                              __bfloat162float(base.y) + keep.y * (4.f / 3) * __bfloat162float(value.y));
  }
  if (blockIdx.x == 0 && threadIdx.x == 0 && count % 2 == 1) {
    const long long at = count - 1;
    y[at] = __float2bfloat16(__bfloat162float(residual[at]) + kept[at] * (4.f / 3) * __bfloat162float(x[at]));
  }
}
