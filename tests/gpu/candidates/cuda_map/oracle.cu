extern "C" __global__ void map(const float* x, double* y, long long n) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double v = x[i];
  for (int step = 0; step < 256; ++step) v = v - v * v * v / 3.0 + 0.1;
  y[i] = v;
}
