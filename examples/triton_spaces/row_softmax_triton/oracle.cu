// Stable softmax in double precision, one warp a row.
extern "C" __global__ void row_softmax_oracle(const float* x, double* y, long long cols) {
  x += blockIdx.x * cols;
  y += blockIdx.x * cols;
  double top = -1.7976931348623157e308;
  for (long long c = threadIdx.x; c < cols; c += 32) top = fmax(top, (double)x[c]);
  for (int step = 16; step > 0; step /= 2) {
    top = fmax(top, __shfl_xor_sync(0xffffffffu, top, step));
  }
  double sum = 0;
  for (long long c = threadIdx.x; c < cols; c += 32) sum += exp((double)x[c] - top);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  for (long long c = threadIdx.x; c < cols; c += 32) y[c] = exp((double)x[c] - top) / sum;
}
