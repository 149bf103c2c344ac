// Mistake: the step is along the mean before this gradient, which is still in the register.
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
    old_mean(const float* __restrict__ param, const __nv_bfloat16* __restrict__ grad,
             const float* __restrict__ mean, const float* __restrict__ square,
             float* __restrict__ new_param, float* __restrict__ new_mean,
             float* __restrict__ new_square, long long n) {
  for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < n; i += (long long)gridDim.x * THREADS) {
    const float g = __bfloat162float(grad[i]);
    const float m = mean[i];
    const float s = kSecond * square[i] + kSecondRest * g * g;
    new_mean[i] = kFirst * m + kFirstRest * g;
    new_square[i] = s;
    new_param[i] = param[i] * (1 - kRate * kDecay) - kRate / kFirstLeft * m / (sqrtf(s) * kRootScale + kEpsilon);
  }
}
