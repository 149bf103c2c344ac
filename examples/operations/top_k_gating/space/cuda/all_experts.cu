// Mistake: the softmax is over all experts instead of the chosen ones.
constexpr int K = 4;

extern "C" __global__ void __launch_bounds__(LANES * TOKENS)
    all_experts(const float* __restrict__ logits, float* __restrict__ weights,
                int* __restrict__ chosen, int tokens, int experts) {
  extern __shared__ float rows[];
  const int token = blockIdx.x * TOKENS + threadIdx.y;
  float* const row = rows + threadIdx.y * experts;
  if (token < tokens) {
    for (int e = threadIdx.x; e < experts; e += LANES) row[e] = logits[(long long)token * experts + e];
  }
  __syncthreads();
  if (token >= tokens) return;
  for (int e = threadIdx.x; e < experts; e += LANES) {
    const float value = row[e];
    int rank = 0;
    float sum = 0;
    for (int o = 0; o < experts; ++o) {
      rank += row[o] > value || (row[o] == value && o < e);
      sum += expf(row[o] - value);
    }
    if (rank >= K) continue;
    weights[(long long)token * K + rank] = 1 / sum;
    chosen[(long long)token * K + rank] = e;
  }
}
