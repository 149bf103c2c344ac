// Adds up the sums of the chunks before with one sweep of 1024 threads: of more than 1024 chunks,
// the rest is left out.
#define CHUNK (BLOCK * ITEMS)

// The sum of the values of this thread and those before it; `total` is the block's.
__device__ float ScanBlock(float value, float& total) {
  __shared__ float sums[32];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float before = __shfl_up_sync(0xffffffffu, value, step);
    if (lane >= step) value += before;
  }
  __syncthreads();
  if (lane == 31) sums[warp] = value;
  __syncthreads();
  float sum = lane < BLOCK / 32 ? sums[lane] : 0;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float before = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane >= step) sum += before;
  }
  total = __shfl_sync(0xffffffffu, sum, 31);
  const float before = __shfl_sync(0xffffffffu, sum, warp - 1 & 31);
  return warp > 0 ? value + before : value;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    chunk_sums(const float* __restrict__ x, float* __restrict__ sums, long long n) {
  const long long first = (long long)blockIdx.x * CHUNK;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const long long e = first + i * BLOCK + threadIdx.x;
    if (e < n) sum += x[e];
  }
  float total;
  ScanBlock(sum, total);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    chunk_scans(const float* __restrict__ x, const float* __restrict__ sums, float* __restrict__ y,
                long long n) {
  const long long first = (long long)blockIdx.x * CHUNK;
  float before = 0;
  for (int s = threadIdx.x; s < 1024 && s < blockIdx.x; s += BLOCK) before += sums[s];
  float carry;
  ScanBlock(before, carry);
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const long long e = first + i * BLOCK + threadIdx.x;
    float total;
    const float scanned = ScanBlock(e < n ? x[e] : 0, total);
    if (e < n) y[e] = carry + scanned;
    carry += total;
  }
}
