// Sums of chunks, what comes before each, and then the chunks again, ITEMS consecutive elements a
// thread. LOAD is scalars or vectors.
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

__device__ void scalars(const float* x, long long n, long long first, float* value) {
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) value[i] = first + i < n ? x[first + i] : 0;
}

__device__ void vectors(const float* x, long long n, long long first, float* value) {
#pragma unroll
  for (int i = 0; i < ITEMS; i += 4) {
    if (first + i + 4 <= n) {
      const float4 four = *(const float4*)(x + first + i);
      value[i] = four.x;
      value[i + 1] = four.y;
      value[i + 2] = four.z;
      value[i + 3] = four.w;
    } else {
#pragma unroll
      for (int j = i; j < i + 4; ++j) value[j] = first + j < n ? x[first + j] : 0;
    }
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    chunk_scans(const float* __restrict__ x, const float* __restrict__ workspace,
                float* __restrict__ y, long long n) {
  __shared__ float last[BLOCK];
  const long long first = ((long long)blockIdx.x * BLOCK + threadIdx.x) * ITEMS;
  float value[ITEMS];
  LOAD(x, n, first, value);
#pragma unroll
  for (int i = 1; i < ITEMS; ++i) value[i] += value[i - 1];
  float total;
  last[threadIdx.x] = ScanBlock(value[ITEMS - 1], total);
  __syncthreads();
  const float before = workspace[(n + CHUNK - 1) / CHUNK + blockIdx.x] +
                       (threadIdx.x > 0 ? last[threadIdx.x - 1] : 0);
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    if (first + i < n) y[first + i] = before + value[i];
  }
}
