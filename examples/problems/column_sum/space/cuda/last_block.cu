// Sums of CHUNK rows; of the blocks of some columns, the one that finishes last adds them up.
extern "C" __global__ void clear(unsigned* finished, long long cols) {
  const long long i = blockIdx.x * 128ll + threadIdx.x;
  if (i < (cols + 31) / 32) finished[i] = 0;
}

extern "C" __global__ void __launch_bounds__(32 * LINES)
    last_block(const float* __restrict__ x, unsigned* workspace, float* __restrict__ y,
               long long rows, long long cols) {
  __shared__ float sums[LINES][33];
  __shared__ bool is_last;
  unsigned* finished = workspace;
  volatile float* parts = (float*)(workspace + (cols + 31) / 32);
  const long long column = blockIdx.x * 32ll + threadIdx.x;
  const long long first = (long long)blockIdx.y * CHUNK;
  const long long last = first + CHUNK < rows ? first + CHUNK : rows;
  float sum = 0;
  if (column < cols) {
#pragma unroll 4
    for (long long r = first + threadIdx.y; r < last; r += LINES) sum += x[r * cols + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0) {
    for (int i = 1; i < LINES; ++i) sum += sums[i][threadIdx.x];
    if (column < cols) parts[blockIdx.y * cols + column] = sum;
    __threadfence();
    __syncwarp();
    if (threadIdx.x == 0) is_last = atomicAdd(finished + blockIdx.x, 1u) == gridDim.y - 1;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  sum = 0;
  if (column < cols) {
    for (long long p = threadIdx.y; p < gridDim.y; p += LINES) sum += parts[p * cols + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && column < cols) {
    for (int i = 1; i < LINES; ++i) sum += sums[i][threadIdx.x];
    y[column] = sum;
  }
}
