// One block of eight warps a head: a warp a key for the scores, which go through memory, then their
// softmax, then each warp adds every eighth value.
constexpr int kWarps = 8;

__device__ float ReduceBlock(float value, bool is_sum) {
  __shared__ float partial[kWarps];
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = is_sum ? value + other : fmaxf(value, other);
  }
  __syncthreads();
  if (threadIdx.x == 0) partial[threadIdx.y] = value;
  __syncthreads();
  value = partial[0];
  for (int w = 1; w < kWarps; ++w) {
    value = is_sum ? value + partial[w] : fmaxf(value, partial[w]);
  }
  return value;
}

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* out,
                                     float* scores, long long length, long long dim) {
  __shared__ float parts[kWarps][32];
  q += blockIdx.x * dim;
  k += blockIdx.x * length * dim;
  v += blockIdx.x * length * dim;
  out += blockIdx.x * dim;
  scores += blockIdx.x * length;
  const float scale = 1 / sqrtf((float)dim);
  for (long long t = threadIdx.y; t < length; t += kWarps) {
    float dot = 0;
    for (long long d = threadIdx.x; d < dim; d += 32) dot += q[d] * k[t * dim + d];
    for (int step = 16; step > 0; step /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, step);
    if (threadIdx.x == 0) scores[t] = dot * scale;
  }
  __syncthreads();
  const int thread = threadIdx.y * 32 + threadIdx.x;
  float top = scores[0];
  for (long long t = thread; t < length; t += 32 * kWarps) top = fmaxf(top, scores[t]);
  top = ReduceBlock(top, false);
  float sum = 0;
  for (long long t = thread; t < length; t += 32 * kWarps) {
    scores[t] = expf(scores[t] - top);
    sum += scores[t];
  }
  // The weights are complete for all threads after this as well.
  sum = ReduceBlock(sum, true);
  for (long long first = 0; first < dim; first += 32) {
    const long long d = first + threadIdx.x;
    float total = 0;
    if (d < dim) {
      for (long long t = threadIdx.y; t < length; t += kWarps) total += scores[t] * v[t * dim + d];
    }
    __syncthreads();
    parts[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y == 0 && d < dim) {
      for (int w = 1; w < kWarps; ++w) total += parts[w][threadIdx.x];
      out[d] = total / sum;
    }
  }
}
