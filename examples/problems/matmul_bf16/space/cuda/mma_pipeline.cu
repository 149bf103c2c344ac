// Tensor cores by mma.sync, fed by ldmatrix from a ring of STAGES tiles that asynchronous copies
// fill ahead.
#include <cuda_bf16.h>

// Sixteen bytes to shared memory, or zeros.
__device__ void CopyAsync(void* to, const void* from, bool valid) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
      "l"(from), "r"(valid ? 16 : 0)
      : "memory");
}

__device__ void Commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until all groups but the last STAGES - 2 have arrived.
__device__ void Wait() { asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory"); }

// Four matrices of 8 x 8; lane i has the address of row i of them.
__device__ void LoadMatrix(unsigned (&to)[4], const void* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"((unsigned)__cvta_generic_to_shared(from))
               : "memory");
}

__device__ void LoadTransposed(unsigned (&to)[4], const void* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"((unsigned)__cvta_generic_to_shared(from))
               : "memory");
}

// sum += a b for 16 x 16 and 16 x 8.
__device__ void Multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern __shared__ __align__(16) unsigned char memory[];

extern "C" __global__ void __launch_bounds__(32 * WARPS_M * WARPS_N)
    mma_pipeline(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
                 __nv_bfloat16* __restrict__ c, long long m_wide, long long n_wide,
                 long long k_wide) {
  const int m = (int)m_wide;
  const int n = (int)n_wide;
  const int k = (int)k_wide;
  constexpr int kThreads = 32 * WARPS_M * WARPS_N;
  constexpr int kDown = BM / WARPS_M / 16;
  constexpr int kAcross = BN / WARPS_N / 16;
  // Rows are padded by 16 bytes, so that the eight rows of a matrix lie in different banks.
  using TileA = __nv_bfloat16[BM][BK + 8];
  using TileB = __nv_bfloat16[BK][BN + 8];
  TileA* tiles_a = (TileA*)memory;
  TileB* tiles_b = (TileB*)(memory + STAGES * sizeof(TileA));
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int down = warp / WARPS_N * kDown * 16;
  const int across = warp % WARPS_N * kAcross * 16;
  const int top = blockIdx.y * BM;
  const int left = blockIdx.x * BN;
  const int steps = (k + BK - 1) / BK;
  const auto load = [&](int step) {
    const int p = step * BK;
    if (step < steps) {
      for (int e = threadIdx.x; e < BM * BK / 8; e += kThreads) {
        const int r = e / (BK / 8);
        const int q = e % (BK / 8) * 8;
        const bool inside = top + r < m && p + q < k;
        CopyAsync(&tiles_a[step % STAGES][r][q], inside ? a + (long long)(top + r) * k + p + q : a,
                  inside);
      }
      for (int e = threadIdx.x; e < BK * BN / 8; e += kThreads) {
        const int q = e / (BN / 8);
        const int s = e % (BN / 8) * 8;
        const bool inside = p + q < k && left + s < n;
        CopyAsync(&tiles_b[step % STAGES][q][s], inside ? b + (long long)(p + q) * n + left + s : b,
                  inside);
      }
    }
    // An empty group keeps the count of groups right.
    Commit();
  };
  float sum[kDown][kAcross * 2][4] = {};
  for (int step = 0; step < STAGES - 1; ++step) load(step);
  for (int step = 0; step < steps; ++step) {
    Wait();
    __syncthreads();
    load(step + STAGES - 1);
    const TileA& tile_a = tiles_a[step % STAGES];
    const TileB& tile_b = tiles_b[step % STAGES];
#pragma unroll
    for (int q = 0; q < BK; q += 16) {
      unsigned part_a[kDown][4];
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
        LoadMatrix(part_a[i], &tile_a[down + i * 16 + lane % 16][q + lane / 16 * 8]);
      }
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        unsigned part_b[4];
        LoadTransposed(part_b, &tile_b[q + lane % 16][across + j * 16 + lane / 16 * 8]);
#pragma unroll
        for (int i = 0; i < kDown; ++i) {
          Multiply(sum[i][2 * j], part_a[i], part_b[0], part_b[1]);
          Multiply(sum[i][2 * j + 1], part_a[i], part_b[2], part_b[3]);
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kDown; ++i) {
#pragma unroll
    for (int j = 0; j < 2 * kAcross; ++j) {
      const int row = top + down + i * 16 + lane / 4;
      const int column = left + across + j * 8 + lane % 4 * 2;
      if (column >= n) continue;
      __nv_bfloat162* out = (__nv_bfloat162*)(c + (long long)row * n + column);
      if (row < m) *out = __floats2bfloat162_rn(sum[i][j][0], sum[i][j][1]);
      if (row + 8 < m) out[4ll * n] = __floats2bfloat162_rn(sum[i][j][2], sum[i][j][3]);
    }
  }
}
