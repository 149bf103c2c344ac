// One block a head and one pass with exponentials straight from the scores: nothing to rescale, until
// they overflow. Heads wider than 128 are taken in pieces.
// Elements of the result that a lane carries.
constexpr int kWide = 4;

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    direct_exp(const float* __restrict__ q, const float* __restrict__ k,
               const float* __restrict__ v, float* __restrict__ out, long long length_wide,
               long long dim_wide) {
  __shared__ float sums[WARPS];
  __shared__ float totals[WARPS][kWide][32];
  const int length = (int)length_wide;
  const int dim = (int)dim_wide;
  const int lane = threadIdx.x;
  const float scale = 1 / sqrtf((float)dim);
  q += blockIdx.x * dim_wide;
  k += blockIdx.x * length_wide * dim;
  v += blockIdx.x * length_wide * dim;
  out += blockIdx.x * dim_wide;
  for (int left = 0; left < dim; left += 32 * kWide) {
    float sum = 0;
    float total[kWide] = {};
    for (int t = threadIdx.y * KEYS; t < length; t += WARPS * KEYS) {
#pragma unroll
      for (int i = 0; i < KEYS; ++i) {
        if (t + i >= length) continue;
        float score = 0;
        for (int d = lane; d < dim; d += 32) score += q[d] * k[(t + i) * dim + d];
        for (int step = 16; step > 0; step /= 2) {
          score += __shfl_xor_sync(0xffffffffu, score, step);
        }
        const float weight = __expf(score * scale);
        sum += weight;
#pragma unroll
        for (int j = 0; j < kWide; ++j) {
          const int d = left + j * 32 + lane;
          if (d < dim) total[j] += weight * v[(t + i) * dim + d];
        }
      }
    }
    __syncthreads();
    if (lane == 0) sums[threadIdx.y] = sum;
#pragma unroll
    for (int j = 0; j < kWide; ++j) totals[threadIdx.y][j][lane] = total[j];
    __syncthreads();
    if (threadIdx.y > 0) continue;
    for (int w = 1; w < WARPS; ++w) {
      sum += sums[w];
#pragma unroll
      for (int j = 0; j < kWide; ++j) total[j] += totals[w][j][lane];
    }
#pragma unroll
    for (int j = 0; j < kWide; ++j) {
      const int d = left + j * 32 + lane;
      if (d < dim) out[d] = total[j] / sum;
    }
  }
}
