// Whole steps of the depth only: what lies beyond the last is left out.
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

struct __align__(16) Bytes {
  __nv_fp8x2_storage_t at[8];
};

struct __align__(16) Halves {
  __half2_raw at[4];
};

// Sixteen elements, which sizes are multiples of, or zeros, as float16.
__device__ void Load(const __nv_fp8_e4m3* from, bool inside, __half* to) {
  Bytes bytes = {};
  if (inside) bytes = *(const Bytes*)from;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    Halves halves;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      halves.at[i] = __nv_cvt_fp8x2_to_halfraw2(bytes.at[h * 4 + i], __NV_E4M3);
    }
    ((Halves*)to)[h] = halves;
  }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS_M * WARPS_N)
    whole_depth(const __nv_fp8_e4m3* __restrict__ a, const __nv_fp8_e4m3* __restrict__ b,
                __nv_bfloat16* __restrict__ c, long long m_wide, long long n_wide, long long k_wide) {
  const int m = (int)m_wide;
  const int n = (int)n_wide;
  const int k = (int)k_wide;
  constexpr int kThreads = 32 * WARPS_M * WARPS_N;
  constexpr int kDown = BM / WARPS_M / 16;
  constexpr int kAcross = BN / WARPS_N / 16;
  __shared__ __align__(32) __half tile_a[BM][BK + 16];
  __shared__ __align__(32) __half tile_b[BN][BK + 16];
  __shared__ __align__(32) float out[WARPS_M * WARPS_N][16][16];
  const int warp = threadIdx.x / 32;
  const int down = warp / WARPS_N * kDown * 16;
  const int across = warp % WARPS_N * kAcross * 16;
  const int top = blockIdx.y * BM;
  const int left = blockIdx.x * BN;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[kDown][kAcross];
  for (int i = 0; i < kDown; ++i) {
    for (int j = 0; j < kAcross; ++j) wmma::fill_fragment(sum[i][j], 0.0f);
  }
  for (int p = 0; p + BK <= k; p += BK) {
    for (int e = threadIdx.x; e < BM * BK / 16; e += kThreads) {
      const int r = e / (BK / 16);
      const int q = e % (BK / 16) * 16;
      const bool inside = top + r < m && p + q < k;
      Load(a + (long long)(top + r) * k + p + q, inside, &tile_a[r][q]);
    }
    for (int e = threadIdx.x; e < BN * BK / 16; e += kThreads) {
      const int s = e / (BK / 16);
      const int q = e % (BK / 16) * 16;
      const bool inside = left + s < n && p + q < k;
      Load(b + (long long)(left + s) * k + p + q, inside, &tile_b[s][q]);
    }
    __syncthreads();
#pragma unroll
    for (int q = 0; q < BK; q += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> part_a[kDown];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> part_b[kAcross];
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
        wmma::load_matrix_sync(part_a[i], &tile_a[down + i * 16][q], BK + 16);
      }
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        wmma::load_matrix_sync(part_b[j], &tile_b[across + j * 16][q], BK + 16);
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
