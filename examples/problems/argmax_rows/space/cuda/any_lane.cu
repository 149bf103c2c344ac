// Of equal values in different threads, that of the lower thread wins, although its column may be
// the higher one.
struct __align__(4 * VEC) Vector {
  float at[VEC];
};

struct Best {
  float value;
  int at;
};

// The better of two; of equal values, the first.
__device__ Best Better(Best a, Best b) {
  return b.value > a.value ? b : a;
}

__device__ Best BestOfWarp(Best best) {
  for (int step = 16; step > 0; step /= 2) {
    best = Better(best, {__shfl_xor_sync(0xffffffffu, best.value, step),
                         __shfl_xor_sync(0xffffffffu, best.at, step)});
  }
  return best;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    any_lane(const float* __restrict__ x, int* __restrict__ y, long long cols_wide) {
  __shared__ Best partial[32];
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  const int vectors = cols % VEC == 0 ? cols / VEC : 0;
  Best best = {x[0], 0};
  for (int v = threadIdx.x; v < vectors; v += BLOCK) {
    const Vector value = ((const Vector*)x)[v];
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      if (value.at[i] > best.value) best = {value.at[i], v * VEC + i};
    }
  }
  for (int c = vectors * VEC + threadIdx.x; c < cols; c += BLOCK) {
    if (x[c] > best.value) best = {x[c], c};
  }
  best = BestOfWarp(best);
  const int lane = threadIdx.x % 32;
  if (lane == 0) partial[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  best = BestOfWarp(partial[lane < BLOCK / 32 ? lane : 0]);
  if (lane == 0) y[blockIdx.x] = best.at;
}
