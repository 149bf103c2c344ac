// One block a row: mean square, result; two reads of the row, of which the caches serve most of the
// second.
constexpr int kBlock = 256;

extern "C" __global__ void rmsnorm(const float* x, const float* weight, float* y, long long cols) {
  __shared__ float partial[kBlock / 32];
  x += blockIdx.x * cols;
  y += blockIdx.x * cols;
  float squares = 0;
  for (long long c = threadIdx.x; c < cols; c += kBlock) squares += x[c] * x[c];
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = squares;
  __syncthreads();
  squares = 0;
  for (int w = 0; w < kBlock / 32; ++w) squares += partial[w];
  const float scale = 1 / sqrtf(squares / cols + 1e-6f);
  for (long long c = threadIdx.x; c < cols; c += kBlock) y[c] = x[c] * scale * weight[c];
}
