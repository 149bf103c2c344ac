// Scans each chunk on its own, then adds what comes before it: the result is written twice.
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
    chunk_scans(const float* __restrict__ x, float* __restrict__ sums, float* __restrict__ y,
                long long n) {
  const long long first = (long long)blockIdx.x * CHUNK;
  float carry = 0;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const long long e = first + i * BLOCK + threadIdx.x;
    float total;
    const float scanned = ScanBlock(e < n ? x[e] : 0, total);
    if (e < n) y[e] = carry + scanned;
    carry += total;
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = carry;
}

// What comes before each chunk, with one block; it lies behind the sums in the workspace.
extern "C" __global__ void __launch_bounds__(BLOCK) scan_sums(float* workspace, long long n) {
  const long long count = (n + CHUNK - 1) / CHUNK;
  const float* sums = workspace;
  float* before = workspace + count;
  float carry = 0;
  for (long long first = 0; first < count; first += BLOCK) {
    const long long i = first + threadIdx.x;
    float total;
    const float scanned = ScanBlock(i < count ? sums[i] : 0, total);
    if (i < count) before[i + 1] = carry + scanned;
    carry += total;
  }
  if (threadIdx.x == 0) before[0] = 0;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    add_before(const float* __restrict__ workspace, float* __restrict__ y, long long n) {
  const long long first = (long long)blockIdx.x * CHUNK;
  const float before = workspace[(n + CHUNK - 1) / CHUNK + blockIdx.x];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const long long e = first + i * BLOCK + threadIdx.x;
    if (e < n) y[e] += before;
  }
}
