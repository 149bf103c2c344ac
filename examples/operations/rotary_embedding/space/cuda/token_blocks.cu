// A block for one token. A thread has the same VEC pairs in all the heads that it handles, so that it
// loads their angles once and divides nothing.
#include <cuda_bf16.h>

struct __align__(2 * VEC) Vector {
  __nv_bfloat16 at[VEC];
};

extern "C" __global__ void __launch_bounds__(LANES * HEADS)
    token_blocks(const __nv_bfloat16* __restrict__ q, const float* __restrict__ cosines,
                 const float* __restrict__ sines, __nv_bfloat16* __restrict__ rotated, int heads,
                 int half) {
  const long long token = blockIdx.x;
  const bool whole = half % VEC == 0;
  for (int pair = threadIdx.x * VEC; pair < half; pair += LANES * VEC) {
    float c[VEC];
    float s[VEC];
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      c[i] = pair + i < half ? cosines[token * half + pair + i] : 0;
      s[i] = pair + i < half ? sines[token * half + pair + i] : 0;
    }
#pragma unroll UNROLL
    for (int head = threadIdx.y; head < heads; head += HEADS) {
      const long long at = (token * heads + head) * 2 * half + pair;
      Vector first;
      Vector second;
      if (whole) {
        first = *(const Vector*)(q + at);
        second = *(const Vector*)(q + at + half);
      }
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        if (pair + i >= half) break;
        const float a = __bfloat162float(whole ? first.at[i] : q[at + i]);
        const float b = __bfloat162float(whole ? second.at[i] : q[at + half + i]);
        first.at[i] = __float2bfloat16(a * c[i] - b * s[i]);
        second.at[i] = __float2bfloat16(b * c[i] + a * s[i]);
        if (!whole) {
          rotated[at + i] = first.at[i];
          rotated[at + half + i] = second.at[i];
        }
      }
      if (whole) {
        *(Vector*)(rotated + at) = first;
        *(Vector*)(rotated + at + half) = second;
      }
    }
  }
}
