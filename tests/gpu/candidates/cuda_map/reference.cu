extern "C" __global__ void map(const float* x, float* y, long long n) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  for (int step = 0; step < 256; ++step) v = v - v * v * v / 3.0f + 0.1f;
  y[i] = v;
}
