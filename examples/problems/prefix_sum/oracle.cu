// Chunks of 4096 in double precision, each by one thread.
extern "C" __global__ void chunk_sums(const float* x, double* sums, long long n) {
  const long long chunk = blockIdx.x * 32ll + threadIdx.x;
  if (chunk * 4096 >= n) return;
  double sum = 0;
  for (long long i = chunk * 4096; i < (chunk + 1) * 4096 && i < n; ++i) sum += x[i];
  sums[chunk] = sum;
}

extern "C" __global__ void scan_sums(double* sums, long long n) {
  double total = 0;
  for (long long chunk = 0; chunk * 4096 < n; ++chunk) {
    const double sum = sums[chunk];
    sums[chunk] = total;
    total += sum;
  }
}

extern "C" __global__ void chunk_scans(const float* x, const double* sums, double* y, long long n) {
  const long long chunk = blockIdx.x * 32ll + threadIdx.x;
  if (chunk * 4096 >= n) return;
  double total = sums[chunk];
  for (long long i = chunk * 4096; i < (chunk + 1) * 4096 && i < n; ++i) y[i] = total += x[i];
}
