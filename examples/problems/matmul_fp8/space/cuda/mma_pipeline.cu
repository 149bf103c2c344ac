// Tensor cores by mma.sync, fed by ldmatrix from a ring of STAGES tiles that asynchronous copies
// fill ahead. CORES == byte_cores multiplies float8 where the device can (from sm_89 on), and adds what
// a tile gives to sums in float32; CORES == half_cores makes float16 of it first, as older devices
// must.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#define byte_cores 0
#define half_cores 1

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

// Four matrices of 8 x 16 bytes; lane i has the address of row i of them.
__device__ void LoadMatrix(unsigned (&to)[4], const void* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"((unsigned)__cvta_generic_to_shared(from))
               : "memory");
}

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
#if CORES == byte_cores && __CUDA_ARCH__ >= 890
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_near), "r"(b_far));
#else
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
#endif
}

// A tile of some rows in shared memory: all rows of the first 16 bytes of the depth, then those of the
// next, padded so that what is copied together goes to different banks.
template <int kRows>
struct Tile {
  struct __align__(16) Piece {
    unsigned char at[16];
  };
  struct Column {
    Piece row[kRows];
    Piece padding[128 / BK];
  };
  Column column[BK / 16];
};

extern __shared__ __align__(16) unsigned char memory[];

extern "C" __global__ void __launch_bounds__(32 * WARPS_M * WARPS_N)
    mma_pipeline(const __nv_fp8_e4m3* __restrict__ a, const __nv_fp8_e4m3* __restrict__ b,
                 __nv_bfloat16* __restrict__ c, long long m_wide, long long n_wide,
                 long long k_wide) {
  const int m = (int)m_wide;
  const int n = (int)n_wide;
  const int k = (int)k_wide;
  constexpr int kThreads = 32 * WARPS_M * WARPS_N;
  constexpr int kDown = BM / WARPS_M / 16;
  constexpr int kAcross = BN / WARPS_N / 16;
  constexpr int kDeep = BK / 32;
  Tile<BM>* tiles_a = (Tile<BM>*)memory;
  Tile<BN>* tiles_b = (Tile<BN>*)(memory + STAGES * sizeof(Tile<BM>));
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
      for (int e = threadIdx.x; e < BM * BK / 16; e += kThreads) {
        const int r = e / (BK / 16);
        const int q = e % (BK / 16);
        const bool inside = top + r < m && p + q * 16 < k;
        CopyAsync(&tiles_a[step % STAGES].column[q].row[r],
                  inside ? a + (long long)(top + r) * k + p + q * 16 : a, inside);
      }
      for (int e = threadIdx.x; e < BN * BK / 16; e += kThreads) {
        const int s = e / (BK / 16);
        const int q = e % (BK / 16);
        const bool inside = left + s < n && p + q * 16 < k;
        CopyAsync(&tiles_b[step % STAGES].column[q].row[s],
                  inside ? b + (long long)(left + s) * k + p + q * 16 : b, inside);
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
    const Tile<BM>& tile_a = tiles_a[step % STAGES];
    const Tile<BN>& tile_b = tiles_b[step % STAGES];
    unsigned part_a[kDown][kDeep][4];
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int q = 0; q < kDeep; ++q) {
        LoadMatrix(part_a[i][q],
                   &tile_a.column[q * 2 + lane / 16].row[down + i * 16 + lane % 16]);
      }
    }
#pragma unroll
    for (int j = 0; j < kAcross; ++j) {
      unsigned part_b[kDeep][4];
#pragma unroll
      for (int q = 0; q < kDeep; ++q) {
        LoadMatrix(part_b[q], &tile_b.column[q * 2 + lane / 8 % 2]
                                   .row[across + j * 16 + lane / 16 * 8 + lane % 8]);
      }
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float part[4] = {};
#pragma unroll
          for (int q = 0; q < kDeep; ++q) {
            Multiply(part, part_a[i][q], part_b[q][2 * h], part_b[q][2 * h + 1]);
          }
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[i][2 * j + h][e] += part[e];
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
