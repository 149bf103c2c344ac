// Kernels with one fault each, next to their correct versions. faults.ptx is NVRTC 13.0's output
// for this file with sm_90a.

#define KERNEL(name) extern "C" __global__ void name(float* out, const float* in, int n)

// A block's sum; the first version lacks the barrier between two steps.
KERNEL(sum_without_barrier) {
  __shared__ float part[256];
  part[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
KERNEL(sum_with_barrier) {
  __shared__ float part[256];
  part[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
// The next tile is written while others still read the last one.
KERNEL(tile_overwritten) {
  __shared__ float tile[256];
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    tile[threadIdx.x] = in[k * 256 + threadIdx.x];
    __syncthreads();
    sum += tile[255 - threadIdx.x];
  }
  out[threadIdx.x] = sum;
}
KERNEL(tile_kept) {
  __shared__ float tile[256];
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    tile[threadIdx.x] = in[k * 256 + threadIdx.x];
    __syncthreads();
    sum += tile[255 - threadIdx.x];
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}
// Two buffers and one barrier are enough.
KERNEL(tiles_in_turn) {
  __shared__ float tile[2][256];
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    tile[k & 1][threadIdx.x] = in[k * 256 + threadIdx.x];
    __syncthreads();
    sum += tile[k & 1][255 - threadIdx.x];
  }
  out[threadIdx.x] = sum;
}
// Bytes of one word belong to several warps.
KERNEL(bytes_of_a_word) {
  __shared__ unsigned char cell[128];
  if (threadIdx.x % 32 < 1) cell[threadIdx.x / 32] = threadIdx.x;
  __syncthreads();
  if (threadIdx.x < 4) out[threadIdx.x] = cell[threadIdx.x];
}
KERNEL(lanes_collide) {
  __shared__ float cell[4];
  cell[threadIdx.x / 8 % 4] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = cell[threadIdx.x % 4];
}
KERNEL(same_value_for_all) {
  __shared__ int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (in[threadIdx.x] > -1e30f) flag = 1;
  __syncthreads();
  out[threadIdx.x] = flag;
}
KERNEL(counted_by_atomics) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, threadIdx.x & 3);
  __syncthreads();
  out[threadIdx.x] = count;
}
KERNEL(count_not_zeroed) {
  __shared__ int count;
  atomicAdd(&count, threadIdx.x & 3);
  __syncthreads();
  out[threadIdx.x] = count;
}
KERNEL(count_read_early) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, threadIdx.x & 3);
  out[threadIdx.x] = count;
}
// Copies without a wait.
__device__ void Copy(float* to, const float* from) {
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
}
KERNEL(copy_without_wait) {
  __shared__ float tile[256];
  Copy(tile + threadIdx.x, in + threadIdx.x);
  asm volatile("cp.async.commit_group;" ::: "memory");
  __syncthreads();
  out[threadIdx.x] = tile[255 - threadIdx.x];
}
KERNEL(copy_without_barrier) {
  __shared__ float tile[256];
  Copy(tile + threadIdx.x, in + threadIdx.x);
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  out[threadIdx.x] = tile[255 - threadIdx.x];
}
KERNEL(copy_in_stages) {
  __shared__ float tile[2][256];
  Copy(tile[0] + threadIdx.x, in + threadIdx.x);
  asm volatile("cp.async.commit_group;" ::: "memory");
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    Copy(tile[(k + 1) & 1] + threadIdx.x, in + (k + 1) * 256 + threadIdx.x);
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    sum += tile[k & 1][255 - threadIdx.x];
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}
// Bounds.
KERNEL(one_too_many) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) out[i] = in[i];
}
KERNEL(just_enough) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}
KERNEL(before_the_start) { out[threadIdx.x] = in[static_cast<int>(threadIdx.x) - 1]; }
KERNEL(beyond_shared) {
  extern __shared__ float part[];
  part[threadIdx.x + 1] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = part[threadIdx.x + 1];
}
KERNEL(misaligned_vector) {
  const float4 v = *reinterpret_cast<const float4*>(in + threadIdx.x + n);
  out[threadIdx.x] = v.x + v.y + v.z + v.w;
}
KERNEL(shared_not_written) {
  __shared__ float part[64];
  if (threadIdx.x < 32) part[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = part[threadIdx.x];
}
KERNEL(local_not_written) {
  float kept[16];
  for (int k = 0; k < n; ++k) kept[k] = in[k];
  float sum = 0;
  for (int k = 0; k < 16; ++k) sum += kept[(k * static_cast<int>(in[0] + 3)) & 15];
  out[threadIdx.x] = sum;
}
KERNEL(adds_to_output) { atomicAdd(out, in[threadIdx.x]); }
// Warp-level operations.
KERNEL(mask_names_absent) {
  float x = in[threadIdx.x];
  if (threadIdx.x % 32 < n) x += __shfl_down_sync(0xffffffff, x, 1);
  out[threadIdx.x] = x;
}
KERNEL(mask_leaves_out) {
  float x = in[threadIdx.x];
  x += __shfl_down_sync(0x0000ffff, x, 1);
  out[threadIdx.x] = x;
}
KERNEL(mask_right) {
  float x = in[threadIdx.x];
  if (threadIdx.x % 32 < 16) x += __shfl_down_sync(0x0000ffff, x, 1);
  x += __shfl_xor_sync(0xffffffff, x, 1);
  out[threadIdx.x] = x;
}
KERNEL(divergent_barrier) {
  __shared__ float part[64];
  part[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x < n) {
    __syncthreads();
    out[threadIdx.x] = part[63 - threadIdx.x];
  }
}
