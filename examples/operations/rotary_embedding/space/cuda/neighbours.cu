// Mistake: rotates neighbours instead of the halves, the other layout of this operation. They are the
// same where a head has one pair.
#include <cuda_bf16.h>

extern "C" __global__ void __launch_bounds__(THREADS)
    neighbours(const __nv_bfloat16* __restrict__ q, const float* __restrict__ cosines,
               const float* __restrict__ sines, __nv_bfloat16* __restrict__ rotated, int heads,
               int half, long long all_heads) {
  for (long long thread = (long long)blockIdx.x * THREADS + threadIdx.x; thread < all_heads * half;
       thread += (long long)gridDim.x * THREADS) {
    const long long head = thread / half;
    const int pair = (int)(thread % half);
    const long long angle = head / heads * half + pair;
    const __nv_bfloat162 value = ((const __nv_bfloat162*)q)[head * half + pair];
    const float a = __bfloat162float(value.x);
    const float b = __bfloat162float(value.y);
    const float c = cosines[angle];
    const float s = sines[angle];
    ((__nv_bfloat162*)rotated)[head * half + pair] =
        __floats2bfloat162_rn(a * c - b * s, b * c + a * s);
  }
}
