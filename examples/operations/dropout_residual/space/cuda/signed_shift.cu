// Mistake: hashes in signed integers, whose shifts to the right fill in ones.
#include <cuda_bf16.h>

__device__ int Mixed(int bits) {
  bits ^= bits >> 16;
  bits *= (int)0x85ebca6b;
  bits ^= bits >> 13;
  bits *= (int)0xc2b2ae35;
  return bits ^ bits >> 16;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    signed_shift(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ residual,
                 const int* __restrict__ seeds, __nv_bfloat16* __restrict__ y,
                 unsigned char* __restrict__ kept, int cols, long long count) {
  for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < count; i += (long long)gridDim.x * THREADS) {
    const bool keep = (unsigned)Mixed((int)(i % cols) ^ seeds[i / cols]) >= 1u << 30;
    const float scaled = keep ? __bfloat162float(x[i]) * (4.f / 3) : 0;
    y[i] = __float2bfloat16(__bfloat162float(residual[i]) + scaled);
    kept[i] = keep;
  }
}
