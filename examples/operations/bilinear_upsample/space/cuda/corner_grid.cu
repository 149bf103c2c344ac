// Mistake: interpolates between the corners of the image (align_corners), another convention of this
// operation.
extern "C" __global__ void __launch_bounds__(THREADS)
    corner_grid(const float* __restrict__ x, float* __restrict__ y, int height, int width) {
  const int row = blockIdx.y;
  const float* const image = x + (long long)blockIdx.x * height * width;
  float* const to = y + ((long long)blockIdx.x * 2 * height + row) * 2 * width;
  const float at_row = (float)row * (height - 1) / (2 * height - 1);
  const int top = (int)at_row;
  const int bottom = min(top + 1, height - 1);
  const float down = at_row - top;
  for (int column = threadIdx.x; column < 2 * width; column += THREADS) {
    const float at_column = (float)column * (width - 1) / (2 * width - 1);
    const int left = (int)at_column;
    const int right = min(left + 1, width - 1);
    const float along = at_column - left;
    const float upper = (1 - along) * image[(long long)top * width + left] + along * image[(long long)top * width + right];
    const float lower = (1 - along) * image[(long long)bottom * width + left] + along * image[(long long)bottom * width + right];
    to[column] = (1 - down) * upper + down * lower;
  }
}
