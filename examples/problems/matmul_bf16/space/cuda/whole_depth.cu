// Whole steps of the depth only: what is left over is not multiplied.
#include <cuda_bf16.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

// Eight elements move at once; sizes are multiples of that.
struct __align__(16) Eight {
  __nv_bfloat16 at[8];
};

extern "C" __global__ void __launch_bounds__(32 * WARPS_M * WARPS_N)
    whole_depth(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
                __nv_bfloat16* __restrict__ c, long long m_wide, long long n_wide,
                long long k_wide) {
  const int m = (int)m_wide;
  const int n = (int)n_wide;
  const int k = (int)k_wide;
  constexpr int kThreads = 32 * WARPS_M * WARPS_N;
  constexpr int kDown = BM / WARPS_M / 16;
  constexpr int kAcross = BN / WARPS_N / 16;
  __shared__ __align__(32) __nv_bfloat16 tile_a[BM][BK + 16];
  __shared__ __align__(32) __nv_bfloat16 tile_b[BK][BN + 16];
  __shared__ __align__(32) float out[WARPS_M * WARPS_N][16][16];
  const int warp = threadIdx.x / 32;
  const int down = warp / WARPS_N * kDown * 16;
  const int across = warp % WARPS_N * kAcross * 16;
  const int top = blockIdx.y * BM;
  const int left = blockIdx.x * BN;
  Eight zeros;
  for (int i = 0; i < 8; ++i) zeros.at[i] = __float2bfloat16(0);
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[kDown][kAcross];
  for (int i = 0; i < kDown; ++i) {
    for (int j = 0; j < kAcross; ++j) wmma::fill_fragment(sum[i][j], 0.0f);
  }
  for (int p = 0; p < k / BK * BK; p += BK) {
    for (int e = threadIdx.x; e < BM * BK / 8; e += kThreads) {
      const int r = e / (BK / 8);
      const int q = e % (BK / 8) * 8;
      const bool inside = top + r < m && p + q < k;
      *(Eight*)&tile_a[r][q] =
          inside ? *(const Eight*)(a + (long long)(top + r) * k + p + q) : zeros;
    }
    for (int e = threadIdx.x; e < BK * BN / 8; e += kThreads) {
      const int q = e / (BN / 8);
      const int s = e % (BN / 8) * 8;
      const bool inside = p + q < k && left + s < n;
      *(Eight*)&tile_b[q][s] =
          inside ? *(const Eight*)(b + (long long)(p + q) * n + left + s) : zeros;
    }
    __syncthreads();
#pragma unroll
    for (int q = 0; q < BK; q += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> part_a[kDown];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> part_b[kAcross];
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
        wmma::load_matrix_sync(part_a[i], &tile_a[down + i * 16][q], BK + 16);
      }
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        wmma::load_matrix_sync(part_b[j], &tile_b[q][across + j * 16], BN + 16);
      }
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
#pragma unroll
        for (int j = 0; j < kAcross; ++j) {
          wmma::mma_sync(sum[i][j], part_a[i], part_b[j], sum[i][j]);
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kDown; ++i) {
#pragma unroll
    for (int j = 0; j < kAcross; ++j) {
      wmma::store_matrix_sync(&out[warp][0][0], sum[i][j], 16, wmma::mem_row_major);
      __syncwarp();
      const int row = top + down + i * 16;
      const int column = left + across + j * 16;
      if (row < m && column < n) {
        for (int e = threadIdx.x % 32; e < 256; e += 32) {
          c[(long long)(row + e / 16) * n + column + e % 16] =
              __float2bfloat16(out[warp][e / 16][e % 16]);
        }
      }
      __syncwarp();
    }
  }
}
