// One block a head. A warp computes the scores of KEYS keys at once; they go through memory to their
// softmax, and each warp then adds every WARPS-th value.
__device__ float ReduceBlock(float value, bool is_sum) {
  __shared__ float partial[32];
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = is_sum ? value + other : fmaxf(value, other);
  }
  __syncthreads();
  if (threadIdx.x == 0) partial[threadIdx.y] = value;
  __syncthreads();
  value = partial[0];
  for (int w = 1; w < WARPS; ++w) {
    value = is_sum ? value + partial[w] : fmaxf(value, partial[w]);
  }
  return value;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    block_scores(const float* __restrict__ q, const float* __restrict__ k,
                 const float* __restrict__ v, float* __restrict__ out, float* scores,
                 long long length_wide, long long dim_wide) {
  __shared__ float parts[WARPS][32];
  const int length = (int)length_wide;
  const int dim = (int)dim_wide;
  const int lane = threadIdx.x;
  const int warp = threadIdx.y;
  q += blockIdx.x * dim_wide;
  k += blockIdx.x * length_wide * dim;
  v += blockIdx.x * length_wide * dim;
  out += blockIdx.x * dim_wide;
  scores += blockIdx.x * length_wide;
  const float scale = 1 / sqrtf((float)dim);
  for (int first = warp * KEYS; first < length; first += WARPS * KEYS) {
    float dot[KEYS] = {};
    for (int d = lane; d < dim; d += 32) {
      const float query = q[d];
#pragma unroll
      for (int i = 0; i < KEYS; ++i) {
        if (first + i < length) dot[i] += query * k[(first + i) * dim + d];
      }
    }
#pragma unroll
    for (int i = 0; i < KEYS; ++i) {
      for (int step = 16; step > 0; step /= 2) {
        dot[i] += __shfl_xor_sync(0xffffffffu, dot[i], step);
      }
      if (lane == 0 && first + i < length) scores[first + i] = dot[i] * scale;
    }
  }
  __syncthreads();
  const int thread = warp * 32 + lane;
  float top = scores[0];
  for (int t = thread; t < length; t += 32 * WARPS) top = fmaxf(top, scores[t]);
  top = ReduceBlock(top, false);
  float sum = 0;
  for (int t = thread; t < length; t += 32 * WARPS) {
    scores[t] = __expf(scores[t] - top);
    sum += scores[t];
  }
  // The weights are complete for all threads after this as well.
  sum = ReduceBlock(sum, true);
  for (int first = 0; first < dim; first += 32) {
    const int d = first + lane;
    float total = 0;
    if (d < dim) {
#pragma unroll KEYS
      for (int t = warp; t < length; t += WARPS) total += scores[t] * v[t * dim + d];
    }
    __syncthreads();
    parts[warp][lane] = total;
    __syncthreads();
    if (warp == 0 && d < dim) {
      for (int w = 1; w < WARPS; ++w) total += parts[w][lane];
      out[d] = total / sum;
    }
  }
}
