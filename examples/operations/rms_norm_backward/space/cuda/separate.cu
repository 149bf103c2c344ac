// One launch for the rows' gradients, and two for the weight's: sums over SPLITS parts of the rows, and
// their sums. All of x and grad is read twice.
struct __align__(4 * VEC) Vector {
  float at[VEC];
};

// The sum over the block, for every thread.
__device__ float SumBlock(float value) {
  __shared__ float partial[32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  const int lane = threadIdx.x % 32;
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = lane < BLOCK / 32 ? partial[lane] : 0;
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    row_gradients(const float* __restrict__ x, const float* __restrict__ weight,
                  const float* __restrict__ inverse, const float* __restrict__ grad,
                  float* __restrict__ dx, int cols) {
  const long long first = (long long)blockIdx.x * cols;
  const float scale = inverse[blockIdx.x];
  const int whole = cols % VEC == 0 ? cols : 0;
  float along = 0;
  for (int c = threadIdx.x * VEC; c < whole; c += BLOCK * VEC) {
    const Vector value = *(const Vector*)(x + first + c);
    const Vector g = *(const Vector*)(grad + first + c);
    const Vector w = *(const Vector*)(weight + c);
#pragma unroll
    for (int i = 0; i < VEC; ++i) along += g.at[i] * w.at[i] * value.at[i];
  }
  for (int c = whole + threadIdx.x; c < cols; c += BLOCK) along += grad[first + c] * weight[c] * x[first + c];
  along = SumBlock(along) * scale * scale / cols;
  for (int c = threadIdx.x * VEC; c < whole; c += BLOCK * VEC) {
    const Vector value = *(const Vector*)(x + first + c);
    const Vector g = *(const Vector*)(grad + first + c);
    const Vector w = *(const Vector*)(weight + c);
    Vector result;
#pragma unroll
    for (int i = 0; i < VEC; ++i) result.at[i] = (g.at[i] * w.at[i] - value.at[i] * along) * scale;
    *(Vector*)(dx + first + c) = result;
  }
  for (int c = whole + threadIdx.x; c < cols; c += BLOCK) {
    dx[first + c] = (grad[first + c] * weight[c] - x[first + c] * along) * scale;
  }
}

extern "C" __global__ void __launch_bounds__(128)
    column_parts(const float* __restrict__ x, const float* __restrict__ inverse,
                 const float* __restrict__ grad, float* __restrict__ parts, int rows, int cols) {
  const int column = blockIdx.x * 128 + threadIdx.x;
  if (column >= cols) return;
  const int share = (rows + SPLITS - 1) / SPLITS;
  const int first = blockIdx.y * share;
  const int last = min(first + share, rows);
  float sum = 0;
#pragma unroll 4
  for (int row = first; row < last; ++row) {
    const long long at = (long long)row * cols + column;
    sum += grad[at] * x[at] * inverse[row];
  }
  parts[(long long)blockIdx.y * cols + column] = sum;
}

extern "C" __global__ void __launch_bounds__(128)
    column_sums(const float* __restrict__ parts, float* __restrict__ dweight, int cols) {
  const int column = blockIdx.x * 128 + threadIdx.x;
  if (column >= cols) return;
  float sum = 0;
#pragma unroll 8
  for (int s = 0; s < SPLITS; ++s) sum += parts[(long long)s * cols + column];
  dweight[column] = sum;
}
