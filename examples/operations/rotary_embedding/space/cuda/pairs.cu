// A thread for VEC pairs of one head, which finds its token, head and pair by divisions.
#include <cuda_bf16.h>

struct __align__(2 * VEC) Vector {
  __nv_bfloat16 at[VEC];
};
struct __align__(4 * VEC) Angles {
  float at[VEC];
};

extern "C" __global__ void __launch_bounds__(THREADS)
    pairs(const __nv_bfloat16* __restrict__ q, const float* __restrict__ cosines,
          const float* __restrict__ sines, __nv_bfloat16* __restrict__ rotated, int heads, int half,
          long long all_heads) {
  const int groups = (half + VEC - 1) / VEC;
  const long long thread = (long long)blockIdx.x * THREADS + threadIdx.x;
  const long long head = thread / groups;
  if (head >= all_heads) return;
  const int pair = (int)(thread % groups) * VEC;
  const __nv_bfloat16* const from = q + head * 2 * half + pair;
  __nv_bfloat16* const to = rotated + head * 2 * half + pair;
  const long long angle = head / heads * half + pair;
  if (half % VEC == 0) {
    Vector first = *(const Vector*)from;
    Vector second = *(const Vector*)(from + half);
    const Angles c = *(const Angles*)(cosines + angle);
    const Angles s = *(const Angles*)(sines + angle);
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      const float a = __bfloat162float(first.at[i]);
      const float b = __bfloat162float(second.at[i]);
      first.at[i] = __float2bfloat16(a * c.at[i] - b * s.at[i]);
      second.at[i] = __float2bfloat16(b * c.at[i] + a * s.at[i]);
    }
    *(Vector*)to = first;
    *(Vector*)(to + half) = second;
    return;
  }
  for (int i = 0; i < VEC && pair + i < half; ++i) {
    const float a = __bfloat162float(from[i]);
    const float b = __bfloat162float(from[half + i]);
    const float c = cosines[angle + i];
    const float s = sines[angle + i];
    to[i] = __float2bfloat16(a * c - b * s);
    to[half + i] = __float2bfloat16(b * c + a * s);
  }
}
