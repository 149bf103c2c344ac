extern "C" __global__ void map(const float* x, float* y, long long n) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float from = x[i];
  float v = 0;
  for (int step = 0; step < 256; ++step) v = v * 0.99f + from / (2.0f + v * v);
  y[i] = v;
}
