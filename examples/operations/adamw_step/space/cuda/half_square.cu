// Mistake: the square of the gradient is computed in float16, in which that of a small one is 0.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

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
    half_square(const float* __restrict__ param, const __nv_bfloat16* __restrict__ grad,
                const float* __restrict__ mean, const float* __restrict__ square,
                float* __restrict__ new_param, float* __restrict__ new_mean,
                float* __restrict__ new_square, long long n) {
  for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < n; i += (long long)gridDim.x * THREADS) {
    const float g = __bfloat162float(grad[i]);
    const __half half = __float2half(g);
    const float m = kFirst * mean[i] + kFirstRest * g;
    const float s = kSecond * square[i] + kSecondRest * __half2float(__hmul(half, half));
    new_mean[i] = m;
    new_square[i] = s;
    new_param[i] = param[i] * (1 - kRate * kDecay) - kRate / kFirstLeft * m / (sqrtf(s) * kRootScale + kEpsilon);
  }
}
