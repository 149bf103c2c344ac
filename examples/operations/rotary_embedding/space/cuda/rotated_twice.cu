// Mistake: the second half is computed from the first half's result, which is in the register of its
// input already.
#include <cuda_bf16.h>

extern "C" __global__ void __launch_bounds__(THREADS)
    rotated_twice(const __nv_bfloat16* __restrict__ q, const float* __restrict__ cosines,
                  const float* __restrict__ sines, __nv_bfloat16* __restrict__ rotated, int heads,
                  int half, long long all_heads) {
  const long long thread = (long long)blockIdx.x * THREADS + threadIdx.x;
  const long long head = thread / half;
  if (head >= all_heads) return;
  const int pair = (int)(thread % half);
  const long long angle = head / heads * half + pair;
  const long long at = head * 2 * half + pair;
  float a = __bfloat162float(q[at]);
  float b = __bfloat162float(q[at + half]);
  a = a * cosines[angle] - b * sines[angle];
  b = b * cosines[angle] + a * sines[angle];
  rotated[at] = __float2bfloat16(a);
  rotated[at + half] = __float2bfloat16(b);
}
