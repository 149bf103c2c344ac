// One launch for the moments and one for the parameters, which reads the new moments again. A grid of
// fixed size goes over everything.
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
    moments(const __nv_bfloat16* __restrict__ grad, const float* __restrict__ mean,
            const float* __restrict__ square, float* __restrict__ new_mean,
            float* __restrict__ new_square, long long n) {
#pragma unroll UNROLL
  for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < n; i += (long long)gridDim.x * THREADS) {
    const float g = __bfloat162float(grad[i]);
    new_mean[i] = kFirst * mean[i] + kFirstRest * g;
    new_square[i] = kSecond * square[i] + kSecondRest * g * g;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    parameters(const float* __restrict__ param, const float* __restrict__ new_mean,
               const float* __restrict__ new_square, float* __restrict__ new_param, long long n) {
#pragma unroll UNROLL
  for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < n; i += (long long)gridDim.x * THREADS) {
    const float root = sqrtf(new_square[i]) * kRootScale + kEpsilon;
    new_param[i] = param[i] * (1 - kRate * kDecay) - kRate / kFirstLeft * new_mean[i] / root;
  }
}
