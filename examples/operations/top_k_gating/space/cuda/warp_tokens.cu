// A warp for each token. Each lane sorts the best K of its logits in registers; then the warp takes the
// best of all lanes K times.
constexpr int K = 4;

// Logits come in the order of their indices, so that an equal one goes behind.
__device__ void Insert(float value, int at, float (&best)[K], int (&index)[K]) {
#pragma unroll
  for (int i = 0; i < K; ++i) {
    if (value > best[i]) {
      const float next = best[i];
      const int next_at = index[i];
      best[i] = value;
      index[i] = at;
      value = next;
      at = next_at;
    }
  }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_tokens(const float* __restrict__ logits, float* __restrict__ weights,
                int* __restrict__ chosen, int tokens, int experts) {
  const int token = blockIdx.x * WARPS + threadIdx.y;
  if (token >= tokens) return;
  const int lane = threadIdx.x;
  logits += (long long)token * experts;
  float best[K];
  int index[K];
#pragma unroll
  for (int i = 0; i < K; ++i) {
    best[i] = __int_as_float(0xff800000);
    index[i] = 0x7fffffff;
  }
#pragma unroll UNROLL
  for (int e = lane; e < experts; e += 32) Insert(logits[e], e, best, index);
  float value = 0;
  int at = 0;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    float top = best[0];
    int top_at = index[0];
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, top, step);
      const int other_at = __shfl_xor_sync(0xffffffffu, top_at, step);
      if (other > top || (other == top && other_at < top_at)) {
        top = other;
        top_at = other_at;
      }
    }
    if (top_at == index[0]) {
#pragma unroll
      for (int i = 0; i + 1 < K; ++i) {
        best[i] = best[i + 1];
        index[i] = index[i + 1];
      }
      best[K - 1] = __int_as_float(0xff800000);
      index[K - 1] = 0x7fffffff;
    }
    // Lane k keeps the k-th.
    if (lane == k) {
      value = top;
      at = top_at;
    }
  }
  const float largest = __shfl_sync(0xffffffffu, value, 0);
  const float exponent = lane < K ? expf(value - largest) : 0;
  float sum = exponent;
#pragma unroll
  for (int step = K / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane < K) {
    weights[(long long)token * K + lane] = exponent / sum;
    chosen[(long long)token * K + lane] = at;
  }
}
