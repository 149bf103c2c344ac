// Kernels whose counts follow from their source. kernels.ptx is NVRTC 13.0's output for this file
// with sm_80.
extern "C" __global__ void copy(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}

extern "C" __global__ void copy_strided(const float* x, float* y, int stride) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i * stride];
}

extern "C" __global__ void copy_vectors(const float4* x, float4* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
}

// Blocks of 32 x 32 threads; `n` is the side length.
template <int kPitch>
__device__ void Transpose(const float* x, float* y, int n) {
  __shared__ float tile[32][kPitch];
  const int column = blockIdx.x * 32 + threadIdx.x;
  const int row = blockIdx.y * 32 + threadIdx.y;
  tile[threadIdx.y][threadIdx.x] = x[row * n + column];
  __syncthreads();
  y[(blockIdx.x * 32 + threadIdx.y) * n + blockIdx.y * 32 + threadIdx.x] =
      tile[threadIdx.x][threadIdx.y];
}
extern "C" __global__ void transpose_plain(const float* x, float* y, int n) { Transpose<32>(x, y, n); }
extern "C" __global__ void transpose_padded(const float* x, float* y, int n) { Transpose<33>(x, y, n); }

extern "C" __global__ void warp_sum(const float* x, float* y) {
  float sum = x[blockIdx.x * 32 + threadIdx.x];
  for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffff, sum, by);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

// 256 threads.
extern "C" __global__ void block_sum(const int* x, int* y) {
  __shared__ int parts[256];
  parts[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
#pragma unroll 1
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = parts[0];
}

extern "C" __global__ void count_one(unsigned* y) { atomicAdd(&y[0], 1u); }
extern "C" __global__ void count_own(unsigned* y) { atomicAdd(&y[threadIdx.x], 1u); }

// 16 x 16 threads; sides are multiples of 16.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n, int k) {
  __shared__ float left[16][16];
  __shared__ float right[16][16];
  const int row = blockIdx.y * 16 + threadIdx.y;
  const int column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
#pragma unroll 1
  for (int at = 0; at < k; at += 16) {
    left[threadIdx.y][threadIdx.x] = a[row * k + at + threadIdx.x];
    right[threadIdx.y][threadIdx.x] = b[(at + threadIdx.y) * n + column];
    __syncthreads();
#pragma unroll
    for (int d = 0; d < 16; ++d) sum += left[threadIdx.y][d] * right[d][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

// One warp: 16 x 8 of the result in half precision with float32 sums, `steps` times 16 deep.
extern "C" __global__ void tensor_tile(const unsigned* a, const unsigned* b, float* c, int steps) {
  __shared__ __align__(16) unsigned tile[32 * 4];
  float sum[4] = {0, 0, 0, 0};
#pragma unroll 1
  for (int s = 0; s < steps; ++s) {
    const unsigned to = (unsigned)__cvta_generic_to_shared(&tile[threadIdx.x * 4]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to),
                 "l"(a + s * 128 + threadIdx.x * 4));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 0;");
    __syncwarp();
    unsigned f[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
                 : "r"(to));
    const unsigned b0 = b[s * 64 + threadIdx.x * 2];
    const unsigned b1 = b[s * 64 + threadIdx.x * 2 + 1];
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(f[0]), "r"(f[1]), "r"(f[2]), "r"(f[3]), "r"(b0), "r"(b1));
  }
  for (int i = 0; i < 4; ++i) c[threadIdx.x * 4 + i] = sum[i];
}

// Lane i makes i + 1 iterations.
extern "C" __global__ void uneven(float* y, float f) {
  float sum = 1;
#pragma unroll 1
  for (int i = 0; i <= threadIdx.x; ++i) sum = sum * f + f;
  y[threadIdx.x] = sum;
}

// A long loop that is the same for every thread.
extern "C" __global__ void row_sums(const float* x, float* y, int columns) {
  float sum = 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < columns; i += 32) sum += x[(long long)blockIdx.x * columns + i];
  y[blockIdx.x * 32 + threadIdx.x] = sum;
}

// Waits for a value that no earlier block writes.
extern "C" __global__ void wait(volatile int* flag) {
  while (flag[0] == 0) {
  }
}

extern "C" __global__ void gather(const float* x, const int* index, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[index[i]];
}
