// No shared memory on the way in: each warp reads its fragments from global memory.
#include <cuda_bf16.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_direct(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
                __nv_bfloat16* __restrict__ c, long long m_wide, long long n_wide,
                long long k_wide) {
  const int m = (int)m_wide;
  const int n = (int)n_wide;
  const int k = (int)k_wide;
  __shared__ __align__(32) float out[WARPS][16][16];
  const int warp = threadIdx.x / 32;
  const int top = (blockIdx.y * WARPS + warp) * DOWN * 16;
  const int left = blockIdx.x * ACROSS * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[DOWN][ACROSS];
  for (int i = 0; i < DOWN; ++i) {
    for (int j = 0; j < ACROSS; ++j) wmma::fill_fragment(sum[i][j], 0.0f);
  }
  for (int p = 0; p < k; p += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> part_a[DOWN];
#pragma unroll
    for (int i = 0; i < DOWN; ++i) {
      // Fragments beyond the edge repeat the last one and are not stored.
      const int row = min(top + i * 16, m - 16);
      wmma::load_matrix_sync(part_a[i], a + (long long)row * k + p, k);
    }
#pragma unroll
    for (int j = 0; j < ACROSS; ++j) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> part_b;
      const int column = min(left + j * 16, n - 16);
      wmma::load_matrix_sync(part_b, b + (long long)p * n + column, n);
#pragma unroll
      for (int i = 0; i < DOWN; ++i) wmma::mma_sync(sum[i][j], part_a[i], part_b, sum[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < DOWN; ++i) {
#pragma unroll
    for (int j = 0; j < ACROSS; ++j) {
      wmma::store_matrix_sync(&out[warp][0][0], sum[i][j], 16, wmma::mem_row_major);
      __syncwarp();
      const int row = top + i * 16;
      const int column = left + j * 16;
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
