// One pass: each chunk publishes its sum, then adds up those before it until one has published
// what comes before it as well. Chunks are taken in the order of a counter, so that a chunk only
// waits for ones that have begun.
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

// State and value of a chunk in one word, so that they are seen together.
constexpr unsigned kSum = 1;
constexpr unsigned kPrefix = 2;

extern "C" __global__ void clear(unsigned long long* workspace, long long n) {
  const long long i = blockIdx.x * 128ll + threadIdx.x;
  if (i <= (n + CHUNK - 1) / CHUNK) workspace[i] = 0;
}

__device__ unsigned long long Pack(unsigned state, float value) {
  return (unsigned long long)state << 32 | __float_as_uint(value);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    look_back(const float* __restrict__ x, unsigned long long* workspace, float* __restrict__ y,
              long long n) {
  __shared__ long long taken;
  __shared__ float last[BLOCK];
  __shared__ float prefix;
  volatile unsigned long long* chunks = workspace + 1;
  if (threadIdx.x == 0) taken = atomicAdd(workspace, 1ull);
  __syncthreads();
  const long long chunk = taken;
  const long long first = (chunk * BLOCK + threadIdx.x) * ITEMS;
  float value[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) value[i] = first + i < n ? x[first + i] : 0;
#pragma unroll
  for (int i = 1; i < ITEMS; ++i) value[i] += value[i - 1];
  float total;
  last[threadIdx.x] = ScanBlock(value[ITEMS - 1], total);
  if (threadIdx.x == 0) {
    float before = 0;
    if (chunk > 0) {
      chunks[chunk] = Pack(kSum, total);
      for (long long c = chunk - 1;; --c) {
        unsigned long long word;
        do {
          word = chunks[c];
        } while (word >> 32 == 0);
        before += __uint_as_float((unsigned)word);
        if (word >> 32 == kPrefix) break;
      }
    }
    chunks[chunk] = Pack(kPrefix, before + total);
    prefix = before;
  }
  __syncthreads();
  const float before = prefix + (threadIdx.x > 0 ? last[threadIdx.x - 1] : 0);
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    if (first + i < n) y[first + i] = before + value[i];
  }
}
