// Mistake: hashes the position in the whole matrix instead of the row, which is the same in the first row.
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
    flat_position(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ residual,
                  const int* __restrict__ seeds, __nv_bfloat16* __restrict__ y,
                  unsigned char* __restrict__ kept, int cols, long long count) {
  for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < count; i += (long long)gridDim.x * THREADS) {
    const bool keep = Mixed((unsigned)i ^ seeds[i / cols]) >= 1u << 30;
    const float scaled = keep ? __bfloat162float(x[i]) * (4.f / 3) : 0;
    y[i] = __float2bfloat16(__bfloat162float(residual[i]) + scaled);
    kept[i] = keep;
  }
}
