// SPLITS blocks a head, each with a running softmax over its share of the keys; a second launch
// brings them to one maximum. Heads wider than 128 are taken in pieces.
constexpr float kLowest = -3.402823466e38f;
// Elements of the result that a lane carries.
constexpr int kWide = 4;

// Adds the keys from `first` to `last` of a head, every WARPS-th group of KEYS of them, to the piece
// of the result that begins at `left`.
__device__ void AddKeys(const float* q, const float* k, const float* v, int first, int last,
                        int dim, int left, float& top, float& sum, float (&total)[kWide]) {
  const int lane = threadIdx.x;
  const float scale = 1 / sqrtf((float)dim);
  for (int t = first + (int)threadIdx.y * KEYS; t < last; t += WARPS * KEYS) {
    float score[KEYS] = {};
    for (int d = lane; d < dim; d += 32) {
      const float query = q[d];
#pragma unroll
      for (int i = 0; i < KEYS; ++i) {
        if (t + i < last) score[i] += query * k[(t + i) * dim + d];
      }
    }
    float next = top;
#pragma unroll
    for (int i = 0; i < KEYS; ++i) {
      for (int step = 16; step > 0; step /= 2) {
        score[i] += __shfl_xor_sync(0xffffffffu, score[i], step);
      }
      score[i] = t + i < last ? score[i] * scale : kLowest;
      next = fmaxf(next, score[i]);
    }
    const float factor = __expf(top - next);
    top = next;
    sum *= factor;
#pragma unroll
    for (int j = 0; j < kWide; ++j) total[j] *= factor;
#pragma unroll
    for (int i = 0; i < KEYS; ++i) {
      if (t + i >= last) continue;
      const float weight = __expf(score[i] - top);
      sum += weight;
#pragma unroll
      for (int j = 0; j < kWide; ++j) {
        const int d = left + j * 32 + lane;
        if (d < dim) total[j] += weight * v[(t + i) * dim + d];
      }
    }
  }
}

// Brings the warps of the block to one maximum; the first warp has the whole afterwards.
__device__ void MergeWarps(float& top, float& sum, float (&total)[kWide]) {
  __shared__ float tops[WARPS];
  __shared__ float sums[WARPS];
  __shared__ float totals[WARPS][kWide][32];
  const int lane = threadIdx.x;
  // The last piece may still be read.
  __syncthreads();
  if (lane == 0) {
    tops[threadIdx.y] = top;
    sums[threadIdx.y] = sum;
  }
#pragma unroll
  for (int j = 0; j < kWide; ++j) totals[threadIdx.y][j][lane] = total[j];
  __syncthreads();
  if (threadIdx.y > 0) return;
  float highest = top;
  for (int w = 1; w < WARPS; ++w) highest = fmaxf(highest, tops[w]);
  const float own = __expf(top - highest);
  sum *= own;
#pragma unroll
  for (int j = 0; j < kWide; ++j) total[j] *= own;
  for (int w = 1; w < WARPS; ++w) {
    const float factor = __expf(tops[w] - highest);
    sum += factor * sums[w];
#pragma unroll
    for (int j = 0; j < kWide; ++j) total[j] += factor * totals[w][j][lane];
  }
  top = highest;
}

// A block's part of the workspace: its maximum, its sum and its result.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    split_cache(const float* __restrict__ q, const float* __restrict__ k,
                const float* __restrict__ v, float* __restrict__ parts, long long length_wide,
                long long dim_wide) {
  const int length = (int)length_wide;
  const int dim = (int)dim_wide;
  const int share = (length + SPLITS - 1) / SPLITS;
  const int first = blockIdx.x * share;
  const int last = min(first + share, length);
  q += blockIdx.y * dim_wide;
  k += blockIdx.y * length_wide * dim;
  v += blockIdx.y * length_wide * dim;
  parts += (blockIdx.y * SPLITS + blockIdx.x) * (dim_wide + 2);
  for (int left = 0; left < dim; left += 32 * kWide) {
    float top = kLowest;
    float sum = 0;
    float total[kWide] = {};
    AddKeys(q, k, v, first, last, dim, left, top, sum, total);
    MergeWarps(top, sum, total);
    if (threadIdx.y > 0) continue;
    if (threadIdx.x == 0) {
      parts[0] = top;
      parts[1] = sum;
    }
#pragma unroll
    for (int j = 0; j < kWide; ++j) {
      const int d = left + j * 32 + threadIdx.x;
      if (d < dim) parts[2 + d] = total[j];
    }
  }
}

extern "C" __global__ void merge(const float* __restrict__ parts, float* __restrict__ out,
                                 long long dim) {
  parts += blockIdx.x * SPLITS * (dim + 2);
  out += blockIdx.x * dim;
  float top = kLowest;
  for (int s = 0; s < SPLITS; ++s) top = fmaxf(top, parts[s * (dim + 2)]);
  float sum = 0;
  for (int s = 0; s < SPLITS; ++s) {
    sum += __expf(parts[s * (dim + 2)] - top) * parts[s * (dim + 2) + 1];
  }
  for (long long d = threadIdx.x; d < dim; d += 64) {
    float total = 0;
    for (int s = 0; s < SPLITS; ++s) {
      total += __expf(parts[s * (dim + 2)] - top) * parts[s * (dim + 2) + 2 + d];
    }
    out[d] = total / sum;
  }
}
