extern "C" __global__ void clear(int* y, long long bins) {
  const long long bin = blockIdx.x * 128ll + threadIdx.x;
  if (bin < bins) y[bin] = 0;
}

extern "C" __global__ void histogram_oracle(const int* x, int* y, long long n) {
  const long long i = blockIdx.x * 256ll + threadIdx.x;
  if (i < n) atomicAdd(y + x[i], 1);
}
