// As many blocks as fit at once, each going through many rows and starting to read the next one
// before it has finished this one.
// The sum over the block, for every thread.
__device__ float SumBlock(float value) {
  __shared__ float partial[32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  const int lane = threadIdx.x % 32;
  // The last call's sums may still be read.
  __syncthreads();
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = lane < BLOCK / 32 ? partial[lane] : 0;
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    persistent_rows(const float* __restrict__ x, const float* __restrict__ weight,
                    float* __restrict__ y, long long rows, long long cols_wide) {
  const int cols = (int)cols_wide;
  float next[ITEMS];
  long long row = blockIdx.x;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int c = i * BLOCK + threadIdx.x;
    next[i] = c < cols ? x[row * cols + c] : 0;
  }
  for (; row < rows; row += gridDim.x) {
    float kept[ITEMS];
    float squares = 0;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      kept[i] = next[i];
      squares += kept[i] * kept[i];
    }
    const float* in = x + row * cols;
    float* out = y + row * cols;
    for (int c = BLOCK * ITEMS + threadIdx.x; c < cols; c += BLOCK) squares += in[c] * in[c];
    const long long following = row + gridDim.x;
    if (following < rows) {
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) {
        const int c = i * BLOCK + threadIdx.x;
        next[i] = c < cols ? x[following * cols + c] : 0;
      }
    }
    const float scale = rsqrtf(SumBlock(squares) / cols + 1e-6f);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int c = i * BLOCK + threadIdx.x;
      if (c < cols) out[c] = kept[i] * scale * weight[c];
    }
    for (int c = BLOCK * ITEMS + threadIdx.x; c < cols; c += BLOCK) {
      out[c] = in[c] * scale * weight[c];
    }
  }
}
