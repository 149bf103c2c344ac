// Mistake: what is kept is not scaled up. Right where the residual is all that is left.
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
    unscaled(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ residual,
             const int* __restrict__ seeds, __nv_bfloat16* __restrict__ y,
             unsigned char* __restrict__ kept, int cols, long long count) {
  for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < count; i += (long long)gridDim.x * THREADS) {
    const bool keep = Mixed((int)(i % cols) ^ seeds[i / cols]) >= 1u << 30;
    y[i] = keep ? __hadd(residual[i], x[i]) : residual[i];
    kept[i] = keep;
  }
}
