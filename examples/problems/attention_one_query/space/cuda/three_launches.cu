// Scores, their softmax and the weighted values by a launch each, so that every one has blocks
// enough; a last one adds up what SPLITS blocks have of the values of a head.
//
// The workspace holds the scores, the sum of each head's weights and the parts of the result.

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    score(const float* __restrict__ q, const float* __restrict__ k, float* __restrict__ scores,
          long long heads, long long length_wide, long long dim_wide) {
  const int length = (int)length_wide;
  const int dim = (int)dim_wide;
  const int blocks = (length + WARPS - 1) / WARPS;
  const long long head = blockIdx.x / blocks;
  const int t = blockIdx.x % blocks * WARPS + threadIdx.y;
  if (t >= length) return;
  q += head * dim;
  k += (head * length + t) * dim;
  float dot = 0;
  for (int d = threadIdx.x; d < dim; d += 32) dot += q[d] * k[d];
  for (int step = 16; step > 0; step /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, step);
  if (threadIdx.x == 0) scores[head * length + t] = dot / sqrtf((float)dim);
}

__device__ float ReduceBlock(float value, bool is_sum) {
  __shared__ float partial[32];
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = is_sum ? value + other : fmaxf(value, other);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[0];
  for (int w = 1; w < BLOCK / 32; ++w) {
    value = is_sum ? value + partial[w] : fmaxf(value, partial[w]);
  }
  return value;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    weigh(float* __restrict__ workspace, long long heads, long long length_wide) {
  const int length = (int)length_wide;
  float* scores = workspace + blockIdx.x * length_wide;
  float* sums = workspace + heads * length_wide;
  float top = scores[0];
  for (int t = threadIdx.x; t < length; t += BLOCK) top = fmaxf(top, scores[t]);
  top = ReduceBlock(top, false);
  float sum = 0;
  for (int t = threadIdx.x; t < length; t += BLOCK) {
    const float weight = __expf(scores[t] - top);
    scores[t] = weight;
    sum += weight;
  }
  sum = ReduceBlock(sum, true);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    add(const float* __restrict__ v, float* __restrict__ workspace, long long heads,
        long long length_wide, long long dim_wide) {
  __shared__ float sums[WARPS][32];
  const int length = (int)length_wide;
  const int dim = (int)dim_wide;
  const int blocks = (dim + 31) / 32;
  const long long head = blockIdx.x / blocks;
  const int d = blockIdx.x % blocks * 32 + threadIdx.x;
  const int share = (length + SPLITS - 1) / SPLITS;
  const int first = blockIdx.y * share;
  const int last = min(first + share, length);
  const float* weights = workspace + head * length;
  float* parts = workspace + heads * (length + 1);
  v += head * length * dim;
  float total = 0;
  if (d < dim) {
#pragma unroll 4
    for (int t = first + (int)threadIdx.y; t < last; t += WARPS) total += weights[t] * v[t * dim + d];
  }
  sums[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y > 0 || d >= dim) return;
  for (int w = 1; w < WARPS; ++w) total += sums[w][threadIdx.x];
  parts[(blockIdx.y * heads + head) * dim + d] = total;
}

extern "C" __global__ void finish(const float* __restrict__ workspace, float* __restrict__ out,
                                  long long heads, long long length, long long dim) {
  const long long e = blockIdx.x * 128ll + threadIdx.x;
  if (e >= heads * dim) return;
  const float* sums = workspace + heads * length;
  const float* parts = sums + heads;
  float total = 0;
  for (int s = 0; s < SPLITS; ++s) total += parts[s * heads * dim + e];
  out[e] = total / sums[e / dim];
}
