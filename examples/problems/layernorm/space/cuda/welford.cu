// Mean and variance in one pass by Welford's recurrence, merged over lanes and warps.
struct Moments {
  float count;
  float mean;
  float squares;  // of deviations from the mean
};

__device__ Moments Merge(Moments a, Moments b) {
  const float count = a.count + b.count;
  if (count == 0) return a;
  const float delta = b.mean - a.mean;
  const float share = b.count / count;
  return {count, a.mean + delta * share, a.squares + b.squares + delta * delta * a.count * share};
}

__device__ Moments MergeWarp(Moments m) {
  for (int step = 16; step > 0; step /= 2) {
    Moments other;
    other.count = __shfl_down_sync(0xffffffffu, m.count, step);
    other.mean = __shfl_down_sync(0xffffffffu, m.mean, step);
    other.squares = __shfl_down_sync(0xffffffffu, m.squares, step);
    m = Merge(m, other);
  }
  return m;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    welford(const float* __restrict__ x, const float* __restrict__ gamma,
            const float* __restrict__ beta, float* __restrict__ y, long long cols_wide) {
  __shared__ Moments partial[32];
  __shared__ Moments total;
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  y += (long long)blockIdx.x * cols;
  Moments m = {0, 0, 0};
#pragma unroll UNROLL
  for (int c = threadIdx.x; c < cols; c += BLOCK) {
    const float value = x[c];
    const float delta = value - m.mean;
    m.count += 1;
    m.mean += __fdividef(delta, m.count);
    m.squares += delta * (value - m.mean);
  }
  m = MergeWarp(m);
  const int lane = threadIdx.x % 32;
  if (lane == 0) partial[threadIdx.x / 32] = m;
  __syncthreads();
  if (threadIdx.x < 32) {
    m = lane < BLOCK / 32 ? partial[lane] : Moments{0, 0, 0};
    m = MergeWarp(m);
    if (lane == 0) total = m;
  }
  __syncthreads();
  const float mean = total.mean;
  const float scale = rsqrtf(total.squares / cols + 1e-5f);
#pragma unroll UNROLL
  for (int c = threadIdx.x; c < cols; c += BLOCK) {
    y[c] = (x[c] - mean) * scale * gamma[c] + beta[c];
  }
}
