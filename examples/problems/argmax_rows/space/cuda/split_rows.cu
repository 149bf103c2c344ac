// SPLITS blocks a row. A value and its column become one key, ordered by value and, of equal ones,
// by column from the right, so that a maximum of keys is all there is to do; a second launch merges.
typedef unsigned long long Key;

__device__ Key MakeKey(float value, int c) {
  // The two zeros are equal.
  const unsigned bits = __float_as_uint(value + 0.0f);
  const unsigned ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return (Key)ordered << 32 | ~(unsigned)c;
}

__device__ Key TopOfWarp(Key top) {
  for (int step = 16; step > 0; step /= 2) {
    const Key other = __shfl_xor_sync(0xffffffffu, top, step);
    top = other > top ? other : top;
  }
  return top;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    split_rows(const float* __restrict__ x, Key* __restrict__ parts, long long cols_wide) {
  __shared__ Key tops[32];
  const int cols = (int)cols_wide;
  x += (long long)blockIdx.y * cols;
  const int share = (cols + SPLITS - 1) / SPLITS;
  const int first = blockIdx.x * share;
  const int last = min(first + share, cols);
  Key top = 0;
#pragma unroll UNROLL
  for (int c = first + (int)threadIdx.x; c < last; c += BLOCK) {
    const Key key = MakeKey(x[c], c);
    top = key > top ? key : top;
  }
  top = TopOfWarp(top);
  const int lane = threadIdx.x % 32;
  if (lane == 0) tops[threadIdx.x / 32] = top;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  top = TopOfWarp(lane < BLOCK / 32 ? tops[lane] : 0);
  if (lane == 0) parts[blockIdx.y * SPLITS + blockIdx.x] = top;
}

extern "C" __global__ void merge(const Key* __restrict__ parts, int* __restrict__ y,
                                 long long rows) {
  const long long row = blockIdx.x * 128ll + threadIdx.x;
  if (row >= rows) return;
  Key top = 0;
  for (int s = 0; s < SPLITS; ++s) {
    top = parts[row * SPLITS + s] > top ? parts[row * SPLITS + s] : top;
  }
  y[row] = (int)~(unsigned)top;
}
