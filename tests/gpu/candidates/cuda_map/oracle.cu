extern "C" __global__ void map(const float* x, double* y, long long n) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const double from = x[i];
  double v = 0;
  for (int step = 0; step < 256; ++step) v = v * 0.99 + from / (2.0 + v * v);
  y[i] = v;
}
