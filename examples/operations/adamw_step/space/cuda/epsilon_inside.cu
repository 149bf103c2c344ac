// Mistake: epsilon is added below the root, where it outweighs the squares of small gradients.
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

extern "C" __global__ void __launch_bounds__(THREADS)
    epsilon_inside(const float* __restrict__ param, const __nv_bfloat16* __restrict__ grad,
                   const float* __restrict__ mean, const float* __restrict__ square,
                   float* __restrict__ new_param, float* __restrict__ new_mean,
                   float* __restrict__ new_square, long long n) {
  for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < n; i += (long long)gridDim.x * THREADS) {
    const float g = __bfloat162float(grad[i]);
    const float m = kFirst * mean[i] + kFirstRest * g;
    const float s = kSecond * square[i] + kSecondRest * g * g;
    new_mean[i] = m;
    new_square[i] = s;
    const float root = sqrtf(s * kRootScale * kRootScale + kEpsilon);
    new_param[i] = param[i] * (1 - kRate * kDecay) - kRate / kFirstLeft * m / root;
  }
}
