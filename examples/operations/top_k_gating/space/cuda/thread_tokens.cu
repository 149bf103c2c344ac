// A thread for each token. The block loads CHUNK logits of its tokens at a time into shared memory, so
// that neighbouring threads read neighbouring logits.
constexpr int K = 4;

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

extern "C" __global__ void __launch_bounds__(THREADS)
    thread_tokens(const float* __restrict__ logits, float* __restrict__ weights,
                  int* __restrict__ chosen, int tokens, int experts) {
  // With PAD the threads of a warp read different banks.
  __shared__ float tile[THREADS][CHUNK + PAD];
  const int first = blockIdx.x * THREADS;
  const int token = first + threadIdx.x;
  float best[K];
  int index[K];
#pragma unroll
  for (int i = 0; i < K; ++i) {
    best[i] = __int_as_float(0xff800000);
    index[i] = 0x7fffffff;
  }
  for (int start = 0; start < experts; start += CHUNK) {
    __syncthreads();
#pragma unroll 8
    for (int i = threadIdx.x; i < THREADS * CHUNK; i += THREADS) {
      const int row = i / CHUNK;
      const int column = i % CHUNK;
      if (first + row < tokens && start + column < experts) {
        tile[row][column] = logits[(long long)(first + row) * experts + start + column];
      }
    }
    __syncthreads();
    if (token >= tokens) continue;
    const int count = min(CHUNK, experts - start);
    for (int c = 0; c < count; ++c) Insert(tile[threadIdx.x][c], start + c, best, index);
  }
  if (token >= tokens) return;
  float exponents[K];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < K; ++i) {
    exponents[i] = expf(best[i] - best[0]);
    sum += exponents[i];
  }
  ((float4*)weights)[token] =
      make_float4(exponents[0] / sum, exponents[1] / sum, exponents[2] / sum, exponents[3] / sum);
  ((int4*)chosen)[token] = make_int4(index[0], index[1], index[2], index[3]);
}
