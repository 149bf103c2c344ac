// One block a row: maximum, sum of exponentials, result; three reads of the row, of which the
// caches serve most of the second and third.
constexpr float kLowest = -3.402823466e38f;
constexpr int kBlock = 256;

template <class Combine>
__device__ float ReduceBlock(float value, float neutral, Combine combine) {
  __shared__ float partial[32];
  for (int step = 16; step > 0; step /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  __syncthreads();
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  value = lane < kBlock / 32 ? partial[lane] : neutral;
  for (int step = 16; step > 0; step /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  return value;
}

extern "C" __global__ void row_softmax(const float* x, float* y, long long cols) {
  x += blockIdx.x * cols;
  y += blockIdx.x * cols;
  float top = kLowest;
  for (long long c = threadIdx.x; c < cols; c += kBlock) top = fmaxf(top, x[c]);
  top = ReduceBlock(top, kLowest, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (long long c = threadIdx.x; c < cols; c += kBlock) sum += expf(x[c] - top);
  sum = ReduceBlock(sum, 0.0f, [](float a, float b) { return a + b; });
  for (long long c = threadIdx.x; c < cols; c += kBlock) y[c] = expf(x[c] - top) / sum;
}
