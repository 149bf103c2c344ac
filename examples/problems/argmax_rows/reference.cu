// One block a row: each thread searches every 256th column, then the winners meet in shared memory.
constexpr int kBlock = 256;

extern "C" __global__ void argmax(const float* x, int* y, long long cols) {
  __shared__ float tops[kBlock];
  __shared__ int ats[kBlock];
  x += blockIdx.x * cols;
  float top = x[0];
  int at = 0;
  for (long long c = threadIdx.x; c < cols; c += kBlock) {
    if (x[c] > top) {
      top = x[c];
      at = (int)c;
    }
  }
  tops[threadIdx.x] = top;
  ats[threadIdx.x] = at;
  for (int step = kBlock / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) {
      const float other = tops[threadIdx.x + step];
      const int other_at = ats[threadIdx.x + step];
      if (other > tops[threadIdx.x] ||
          (other == tops[threadIdx.x] && other_at < ats[threadIdx.x])) {
        tops[threadIdx.x] = other;
        ats[threadIdx.x] = other_at;
      }
    }
  }
  if (threadIdx.x == 0) y[blockIdx.x] = ats[0];
}
