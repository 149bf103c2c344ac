// One block a row. Each thread keeps ITEMS elements in registers, so that the row is read once;
// what a long row has beyond BLOCK * ITEMS is read again.
struct __align__(4 * VEC) Vector {
  float at[VEC];
};

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
    register_rows(const float* __restrict__ x, const float* __restrict__ gamma,
                  const float* __restrict__ beta, float* __restrict__ y, long long cols_wide) {
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.x * cols;
  y += (long long)blockIdx.x * cols;
  float kept[ITEMS];
#pragma unroll
  for (int g = 0; g < ITEMS / VEC; ++g) {
    const int first = (g * BLOCK + threadIdx.x) * VEC;
    if (cols % VEC == 0 && first < cols) {
      const Vector value = *(const Vector*)(x + first);
#pragma unroll
      for (int i = 0; i < VEC; ++i) kept[g * VEC + i] = value.at[i];
    } else {
#pragma unroll
      for (int i = 0; i < VEC; ++i) kept[g * VEC + i] = first + i < cols ? x[first + i] : 0;
    }
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) sum += kept[i];
  for (int c = BLOCK * ITEMS + threadIdx.x; c < cols; c += BLOCK) sum += x[c];
  const float mean = SumBlock(sum) / cols;
  float squares = 0;
#pragma unroll
  for (int g = 0; g < ITEMS / VEC; ++g) {
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      const float d = kept[g * VEC + i] - mean;
      if ((g * BLOCK + threadIdx.x) * VEC + i < cols) squares += d * d;
    }
  }
  for (int c = BLOCK * ITEMS + threadIdx.x; c < cols; c += BLOCK) {
    squares += (x[c] - mean) * (x[c] - mean);
  }
  const float scale = rsqrtf(SumBlock(squares) / cols + 1e-5f);
#pragma unroll
  for (int g = 0; g < ITEMS / VEC; ++g) {
    const int first = (g * BLOCK + threadIdx.x) * VEC;
    if (cols % VEC == 0 && first < cols) {
      const Vector weight = *(const Vector*)(gamma + first);
      const Vector bias = *(const Vector*)(beta + first);
      Vector value;
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        value.at[i] = (kept[g * VEC + i] - mean) * scale * weight.at[i] + bias.at[i];
      }
      *(Vector*)(y + first) = value;
    } else {
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        if (first + i >= cols) continue;
        y[first + i] = (kept[g * VEC + i] - mean) * scale * gamma[first + i] + beta[first + i];
      }
    }
  }
  for (int c = BLOCK * ITEMS + threadIdx.x; c < cols; c += BLOCK) {
    y[c] = (x[c] - mean) * scale * gamma[c] + beta[c];
  }
}
