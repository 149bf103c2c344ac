// Everything in one launch. Each thread has VECTORS vectors, whose loads are in flight together.
#include <cuda_bf16.h>

constexpr float kRate = 1e-2f;
constexpr float kFirst = 0.9f;
constexpr float kFirstRest = 0.1f;
constexpr float kSecond = 0.999f;
constexpr float kSecondRest = 0.001f;
constexpr float kEpsilon = 1e-8f;
constexpr float kDecay = 0.1f;
// 1 - 0.9^100 and 1 / sqrt(1 - 0.999^100).
constexpr float kFirstLeft = 0.99997344f;
constexpr float kRootScale = 3.2408850f;

struct __align__(4 * VEC) Floats {
  float at[VEC];
};
struct __align__(2 * VEC) Halves {
  __nv_bfloat16 at[VEC];
};

__device__ void Update(float& param, float grad, float& mean, float& square) {
  mean = kFirst * mean + kFirstRest * grad;
  square = kSecond * square + kSecondRest * grad * grad;
  const float root = sqrtf(square) * kRootScale + kEpsilon;
  param = param * (1 - kRate * kDecay) - kRate / kFirstLeft * mean / root;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    one_pass(const float* __restrict__ param, const __nv_bfloat16* __restrict__ grad,
             const float* __restrict__ mean, const float* __restrict__ square,
             float* __restrict__ new_param, float* __restrict__ new_mean,
             float* __restrict__ new_square, long long n) {
  const long long first = ((long long)blockIdx.x * VECTORS * THREADS + threadIdx.x) * VEC;
  Floats p[VECTORS];
  Floats m[VECTORS];
  Floats s[VECTORS];
  Halves g[VECTORS];
#pragma unroll
  for (int v = 0; v < VECTORS; ++v) {
    const long long at = first + (long long)v * THREADS * VEC;
    if (at + VEC > n) continue;
    p[v] = *(const Floats*)(param + at);
    g[v] = *(const Halves*)(grad + at);
    m[v] = *(const Floats*)(mean + at);
    s[v] = *(const Floats*)(square + at);
  }
#pragma unroll
  for (int v = 0; v < VECTORS; ++v) {
    const long long at = first + (long long)v * THREADS * VEC;
    if (at + VEC <= n) {
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        Update(p[v].at[i], __bfloat162float(g[v].at[i]), m[v].at[i], s[v].at[i]);
      }
      *(Floats*)(new_param + at) = p[v];
      *(Floats*)(new_mean + at) = m[v];
      *(Floats*)(new_square + at) = s[v];
      continue;
    }
    for (long long i = at; i < n; ++i) {
      float one = param[i];
      float m1 = mean[i];
      float s1 = square[i];
      Update(one, __bfloat162float(grad[i]), m1, s1);
      new_param[i] = one;
      new_mean[i] = m1;
      new_square[i] = s1;
    }
  }
}
