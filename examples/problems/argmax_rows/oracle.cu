// One warp a row: the largest value first, then the first column that holds it.
extern "C" __global__ void argmax_oracle(const float* x, int* y, long long rows, long long cols) {
  const long long row = blockIdx.x * 4ll + threadIdx.y;
  if (row >= rows) return;
  x += row * cols;
  float top = x[0];
  for (long long c = threadIdx.x; c < cols; c += 32) top = fmaxf(top, x[c]);
  for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
  long long at = cols;
  for (long long c = threadIdx.x; c < cols && at == cols; c += 32) {
    if (x[c] == top) at = c;
  }
  for (int step = 16; step > 0; step /= 2) at = min(at, __shfl_xor_sync(0xffffffffu, at, step));
  if (threadIdx.x == 0) y[row] = (int)at;
}
