extern "C" __global__ void depthwise_conv_oracle(const float* x, const float* filter, double* y,
                                                 long long height, long long width,
                                                 long long channels) {
  const long long i = blockIdx.y;
  const long long e = blockIdx.x * 256ll + threadIdx.x;
  if (e >= width * channels) return;
  const long long j = e / channels;
  const long long c = e % channels;
  double sum = 0;
  for (long long a = 0; a < 3; ++a) {
    for (long long b = 0; b < 3; ++b) {
      const long long ii = i + a - 1;
      const long long jj = j + b - 1;
      if (ii < 0 || ii >= height || jj < 0 || jj >= width) continue;
      sum += (double)x[(ii * width + jj) * channels + c] * filter[(a * 3 + b) * channels + c];
    }
  }
  y[i * width * channels + e] = sum;
}
