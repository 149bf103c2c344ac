// Mistake: each lane keeps only its best logit, so that the second best of a lane is lost. With at most
// 32 experts no lane has two.
constexpr int K = 4;

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    one_per_lane(const float* __restrict__ logits, float* __restrict__ weights,
                 int* __restrict__ chosen, int tokens, int experts) {
  const int token = blockIdx.x * WARPS + threadIdx.y;
  if (token >= tokens) return;
  const int lane = threadIdx.x;
  logits += (long long)token * experts;
  float best = __int_as_float(0xff800000);
  int index = 0x7fffffff;
  for (int e = lane; e < experts; e += 32) {
    if (logits[e] > best) {
      best = logits[e];
      index = e;
    }
  }
  float value = 0;
  int at = 0;
  for (int k = 0; k < K; ++k) {
    float top = best;
    int top_at = index;
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, top, step);
      const int other_at = __shfl_xor_sync(0xffffffffu, top_at, step);
      if (other > top || (other == top && other_at < top_at)) {
        top = other;
        top_at = other_at;
      }
    }
    if (top_at == index) best = __int_as_float(0xff800000);
    if (lane == k) {
      value = top;
      at = top_at;
    }
  }
  const float largest = __shfl_sync(0xffffffffu, value, 0);
  const float exponent = lane < K ? expf(value - largest) : 0;
  float sum = exponent;
  for (int step = K / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane < K) {
    weights[(long long)token * K + lane] = exponent / sum;
    chosen[(long long)token * K + lane] = at;
  }
}
