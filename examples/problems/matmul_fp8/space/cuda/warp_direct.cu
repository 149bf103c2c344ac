// No shared memory: each warp reads its fragments from global memory, makes float16 of them and has
// tensor cores multiply them.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

// sum += a b for 16 x 16 and 16 x 8 in float16.
__device__ void MultiplyHalves(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The lower and the upper two float8 of a word as float16.
__device__ void Widen(unsigned bytes, unsigned& lower, unsigned& upper) {
#if __CUDA_ARCH__ >= 890
  const __half2_raw low = __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)bytes, __NV_E4M3);
  const __half2_raw high =
      __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)(bytes >> 16), __NV_E4M3);
  lower = low.x | (unsigned)low.y << 16;
  upper = high.x | (unsigned)high.y << 16;
#else
  // Sign, exponent and fraction in place; the exponents' biases are 7 and 15.
  const auto widen = [](unsigned pair) {
    const unsigned moved = (pair & 0x80008000) | (pair & 0x7f007f00) >> 1;
    unsigned wide;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(wide) : "r"(moved), "r"(0x5c005c00));
    return wide;
  };
  lower = widen(__byte_perm(bytes, 0, 0x1404));
  upper = widen(__byte_perm(bytes, 0, 0x3424));
#endif
}

// sum += a b for 16 x 32 and 32 x 8; a lane has four neighbours along the depth in each word.
__device__ void Multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b_near,
                         unsigned b_far) {
  // The order along the depth is the same for both sides, and no matter otherwise.
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    unsigned wide[4];
    unsigned b0;
    unsigned b1;
    Widen(a[2 * h], wide[0], wide[2]);
    Widen(a[2 * h + 1], wide[1], wide[3]);
    Widen(h == 0 ? b_near : b_far, b0, b1);
    MultiplyHalves(sum, wide, b0, b1);
  }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_direct(const __nv_fp8_e4m3* __restrict__ a, const __nv_fp8_e4m3* __restrict__ b,
                __nv_bfloat16* __restrict__ c, long long m_wide, long long n_wide,
                long long k_wide) {
  const int m = (int)m_wide;
  const int n = (int)n_wide;
  const int k = (int)k_wide;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int top = (blockIdx.y * WARPS + warp) * DOWN * 16;
  const int left = blockIdx.x * ACROSS * 8;
  // Four bytes of a row, or zeros; rows beyond the edges repeat the last and are not stored.
  const auto read = [&](const __nv_fp8_e4m3* from, int row, int rows, int p) {
    return p < k ? *(const unsigned*)(from + (long long)min(row, rows - 1) * k + p) : 0;
  };
  float sum[DOWN][ACROSS][4] = {};
  for (int p = lane % 4 * 4; p < k; p += 32) {
    unsigned part_a[DOWN][4];
#pragma unroll
    for (int i = 0; i < DOWN; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        part_a[i][e] = read(a, top + i * 16 + e % 2 * 8 + lane / 4, m, p + e / 2 * 16);
      }
    }
#pragma unroll
    for (int j = 0; j < ACROSS; ++j) {
      const unsigned near = read(b, left + j * 8 + lane / 4, n, p);
      const unsigned far = read(b, left + j * 8 + lane / 4, n, p + 16);
#pragma unroll
      for (int i = 0; i < DOWN; ++i) Multiply(sum[i][j], part_a[i], near, far);
    }
  }
#pragma unroll
  for (int i = 0; i < DOWN; ++i) {
#pragma unroll
    for (int j = 0; j < ACROSS; ++j) {
      const int row = top + i * 16 + lane / 4;
      const int column = left + j * 8 + lane % 4 * 2;
      if (column >= n) continue;
      __nv_bfloat162* out = (__nv_bfloat162*)(c + (long long)row * n + column);
      if (row < m) *out = __floats2bfloat162_rn(sum[i][j][0], sum[i][j][1]);
      if (row + 8 < m) out[4ll * n] = __floats2bfloat162_rn(sum[i][j][2], sum[i][j][3]);
    }
  }
}
