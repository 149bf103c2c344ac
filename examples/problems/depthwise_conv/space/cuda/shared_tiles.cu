// A block's Y by X pixels of 32 channels lie in shared memory with a border of one pixel; each warp
// takes every WARPS-th of them.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    shared_tiles(const float* __restrict__ x, const float* __restrict__ filter,
                 float* __restrict__ y, long long height_wide, long long width_wide,
                 long long channels_wide) {
  __shared__ float tile[Y + 2][X + 2][32];
  const int height = (int)height_wide;
  const int width = (int)width_wide;
  const int channels = (int)channels_wide;
  const int parts = (channels + 31) / 32;
  const int lane = threadIdx.x;
  const int c = blockIdx.x % parts * 32 + lane;
  const int left = blockIdx.x / parts * X;
  const int top = blockIdx.y * Y;
  for (int p = threadIdx.y; p < (Y + 2) * (X + 2); p += WARPS) {
    const int i = top + p / (X + 2) - 1;
    const int j = left + p % (X + 2) - 1;
    const bool inside = c < channels && i >= 0 && i < height && j >= 0 && j < width;
    tile[p / (X + 2)][p % (X + 2)][lane] =
        inside ? x[((long long)i * width + j) * channels + c] : 0;
  }
  __syncthreads();
  if (c >= channels) return;
  float tap[9];
#pragma unroll
  for (int t = 0; t < 9; ++t) tap[t] = filter[t * channels + c];
  for (int p = threadIdx.y; p < Y * X; p += WARPS) {
    const int i = p / X;
    const int j = p % X;
    if (top + i >= height || left + j >= width) continue;
    float sum = 0;
#pragma unroll
    for (int t = 0; t < 9; ++t) sum += tile[i + t / 3][j + t % 3][lane] * tap[t];
    y[((long long)(top + i) * width + left + j) * channels + c] = sum;
  }
}
