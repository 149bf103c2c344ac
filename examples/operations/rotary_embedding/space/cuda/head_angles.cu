// Mistake: takes the angles by the index of the head among all heads instead of the token's, which is the
// same where a token has one head. With several it also reads past the end of the angles, unless the
// index is clamped, as here.
#include <cuda_bf16.h>

struct __align__(2 * VEC) Vector {
  __nv_bfloat16 at[VEC];
};

extern "C" __global__ void __launch_bounds__(THREADS)
    head_angles(const __nv_bfloat16* __restrict__ q, const float* __restrict__ cosines,
                const float* __restrict__ sines, __nv_bfloat16* __restrict__ rotated, int tokens,
                int half, long long all_heads) {
  const int groups = (half + VEC - 1) / VEC;
  const long long thread = (long long)blockIdx.x * THREADS + threadIdx.x;
  const long long head = thread / groups;
  if (head >= all_heads) return;
  const int pair = (int)(thread % groups) * VEC;
  const long long token = min(head, (long long)tokens - 1);
  const long long at = head * 2 * half + pair;
  for (int i = 0; i < VEC && pair + i < half; ++i) {
    const float a = __bfloat162float(q[at + i]);
    const float b = __bfloat162float(q[at + half + i]);
    const float c = cosines[token * half + pair + i];
    const float s = sines[token * half + pair + i];
    rotated[at + i] = __float2bfloat16(a * c - b * s);
    rotated[at + half + i] = __float2bfloat16(b * c + a * s);
  }
}
