// Counts for each logit how many of its token's are larger. The count is the place of the logit, and
// nothing depends on the round before.
constexpr int K = 4;

extern "C" __global__ void __launch_bounds__(LANES * TOKENS)
    rank_counts(const float* __restrict__ logits, float* __restrict__ weights,
                int* __restrict__ chosen, int tokens, int experts) {
  extern __shared__ float rows[];
  __shared__ float tops[TOKENS][K];
  __shared__ int places[TOKENS][K];
  const int token = blockIdx.x * TOKENS + threadIdx.y;
  float* const row = rows + threadIdx.y * experts;
  if (token < tokens) {
    for (int e = threadIdx.x; e < experts; e += LANES) row[e] = logits[(long long)token * experts + e];
  }
  __syncthreads();
  if (token < tokens) {
    for (int e = threadIdx.x; e < experts; e += LANES) {
      const float value = row[e];
      int rank = 0;
#pragma unroll UNROLL
      for (int o = 0; o < experts; ++o) rank += row[o] > value || (row[o] == value && o < e);
      if (rank < K) {
        tops[threadIdx.y][rank] = value;
        places[threadIdx.y][rank] = e;
      }
    }
  }
  __syncthreads();
  if (token >= tokens || threadIdx.x >= K) return;
  float sum = 0;
#pragma unroll
  for (int k = 0; k < K; ++k) sum += expf(tops[threadIdx.y][k] - tops[threadIdx.y][0]);
  const long long to = (long long)token * K + threadIdx.x;
  weights[to] = expf(tops[threadIdx.y][threadIdx.x] - tops[threadIdx.y][0]) / sum;
  chosen[to] = places[threadIdx.y][threadIdx.x];
}
