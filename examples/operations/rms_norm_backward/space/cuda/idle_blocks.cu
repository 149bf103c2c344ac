// Mistake: the sums over blocks are those of BLOCKS blocks, of which some have not run where there are
// fewer rows. What they would have written is whatever was in memory.
__device__ float SumBlock(float value) {
  __shared__ float partial[32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  const int lane = threadIdx.x % 32;
  __syncthreads();
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = lane < BLOCK / 32 ? partial[lane] : 0;
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    fused(const float* __restrict__ x, const float* __restrict__ weight,
          const float* __restrict__ inverse, const float* __restrict__ grad,
          float* __restrict__ dx, float* __restrict__ parts, int rows, int cols) {
  extern __shared__ float sums[];
  for (int c = threadIdx.x; c < cols; c += BLOCK) sums[c] = 0;
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    const long long first = (long long)row * cols;
    const float scale = inverse[row];
    float along = 0;
    for (int c = threadIdx.x; c < cols; c += BLOCK) {
      sums[c] += grad[first + c] * x[first + c] * scale;
      along += grad[first + c] * weight[c] * x[first + c];
    }
    along = SumBlock(along) * scale * scale / cols;
    for (int c = threadIdx.x; c < cols; c += BLOCK) {
      dx[first + c] = (grad[first + c] * weight[c] - x[first + c] * along) * scale;
    }
  }
  for (int c = threadIdx.x; c < cols; c += BLOCK) parts[(long long)blockIdx.x * cols + c] = sums[c];
}

extern "C" __global__ void __launch_bounds__(128)
    column_sums(const float* __restrict__ parts, float* __restrict__ dweight, int cols) {
  const int column = blockIdx.x * 128 + threadIdx.x;
  if (column >= cols) return;
  float sum = 0;
#pragma unroll 8
  for (int b = 0; b < BLOCKS; ++b) sum += parts[(long long)b * cols + column];
  dweight[column] = sum;
}
