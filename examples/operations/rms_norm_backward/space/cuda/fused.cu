// Each of a few blocks goes over many rows, and keeps its sums for the weight's gradient in shared memory.
// With STAGE the products of a row stay in shared memory, so that x and grad are read once from DRAM.
struct __align__(4 * VEC) Vector {
  float at[VEC];
};

// The sum over the block, for every thread.
__device__ float SumBlock(float value) {
  __shared__ float partial[32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  const int lane = threadIdx.x % 32;
  // The last row's sums may still be read.
  __syncthreads();
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = lane < BLOCK / 32 ? partial[lane] : 0;
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

__device__ Vector Load(const float* from, int left) {
  Vector value;
  if (left >= VEC && (unsigned long long)from % sizeof(Vector) == 0) return *(const Vector*)from;
#pragma unroll
  for (int i = 0; i < VEC; ++i) value.at[i] = i < left ? from[i] : 0;
  return value;
}

// Every thread handles the same columns in each row, and is the only one that uses their places in
// shared memory.
extern "C" __global__ void __launch_bounds__(BLOCK)
    fused(const float* __restrict__ x, const float* __restrict__ weight,
          const float* __restrict__ inverse, const float* __restrict__ grad,
          float* __restrict__ dx, float* __restrict__ parts, int rows, int cols) {
  extern __shared__ float shared[];
  float* const sums = shared;
  float* const staged_x = sums + cols;
  float* const staged_grad = staged_x + cols;
  for (int c = threadIdx.x * VEC; c < cols; c += BLOCK * VEC) {
    for (int i = 0; i < VEC && c + i < cols; ++i) sums[c + i] = 0;
  }
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    const float* const from_x = x + (long long)row * cols;
    const float* const from_grad = grad + (long long)row * cols;
    const float scale = inverse[row];
    float along = 0;
    for (int c = threadIdx.x * VEC; c < cols; c += BLOCK * VEC) {
      const Vector value = Load(from_x + c, cols - c);
      const Vector g = Load(from_grad + c, cols - c);
      const Vector w = Load(weight + c, cols - c);
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        if (c + i >= cols) break;
        sums[c + i] += g.at[i] * value.at[i] * scale;
        along += g.at[i] * w.at[i] * value.at[i];
        if (STAGE) {
          staged_x[c + i] = value.at[i];
          staged_grad[c + i] = g.at[i] * w.at[i];
        }
      }
    }
    along = SumBlock(along) * scale * scale / cols;
    float* const to = dx + (long long)row * cols;
    for (int c = threadIdx.x * VEC; c < cols; c += BLOCK * VEC) {
      if (STAGE) {
        for (int i = 0; i < VEC && c + i < cols; ++i) {
          to[c + i] = (staged_grad[c + i] - staged_x[c + i] * along) * scale;
        }
        continue;
      }
      const Vector value = Load(from_x + c, cols - c);
      const Vector g = Load(from_grad + c, cols - c);
      const Vector w = Load(weight + c, cols - c);
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        if (c + i < cols) to[c + i] = (g.at[i] * w.at[i] - value.at[i] * along) * scale;
      }
    }
  }
  for (int c = threadIdx.x * VEC; c < cols; c += BLOCK * VEC) {
    for (int i = 0; i < VEC && c + i < cols; ++i) parts[(long long)blockIdx.x * cols + c + i] = sums[c + i];
  }
}

extern "C" __global__ void __launch_bounds__(128)
    column_sums(const float* __restrict__ parts, float* __restrict__ dweight, int blocks, int cols) {
  const int column = blockIdx.x * 128 + threadIdx.x;
  if (column >= cols) return;
  float sum = 0;
#pragma unroll 8
  for (int b = 0; b < blocks; ++b) sum += parts[(long long)b * cols + column];
  dweight[column] = sum;
}
