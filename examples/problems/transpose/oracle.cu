extern "C" __global__ void transpose_oracle(const float* x, double* y, long long rows,
                                            long long cols) {
  const long long column = blockIdx.x * 32ll + threadIdx.x;
  const long long row = blockIdx.y * 8ll + threadIdx.y;
  if (row < rows && column < cols) y[column * rows + row] = x[row * cols + column];
}
