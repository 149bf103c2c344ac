// Tensor cores by wgmma, which groups of four warps drive straight from shared memory (sm_90a): each
// makes 64 x BN of the result from a ring of STAGES tiles that asynchronous copies fill ahead, and adds
// what a tile gives to sums in float32. Other devices go through mma.sync in float16.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

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

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Where a matrix lies in shared memory: neighbours along the depth are `deep_bytes` apart, groups of
// eight rows 128; not swizzled.
__device__ unsigned long long Describe(const void* matrix, int deep_bytes) {
  const unsigned address = (unsigned)__cvta_generic_to_shared(matrix);
  return (unsigned long long)((address & 0x3ffff) >> 4) |
         (unsigned long long)(deep_bytes >> 4) << 16 | 128ull >> 4 << 32;
}

// sum = a b, or sum += a b where `add` is not 0, for 64 x 32 and 32 x BN; begins only.
__device__ void Multiply(float (&sum)[BN / 2], unsigned long long a, unsigned long long b, int add) {
#if BN == 64
  asm volatile(
      "{\n.reg .pred add;\n"
      "setp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
      "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, add, 1, 1;\n}"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
        "+f"(sum[6]), "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]),
        "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]),
        "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]),
        "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]),
        "+f"(sum[30]), "+f"(sum[31])
      : "l"(a), "l"(b), "r"(add));
#elif BN == 128
  asm volatile(
      "{\n.reg .pred add;\n"
      "setp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
      "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "
      "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
      "%62, %63}, "
      "%64, %65, add, 1, 1;\n}"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
        "+f"(sum[6]), "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]),
        "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]),
        "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]),
        "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]),
        "+f"(sum[30]), "+f"(sum[31]), "+f"(sum[32]), "+f"(sum[33]), "+f"(sum[34]), "+f"(sum[35]),
        "+f"(sum[36]), "+f"(sum[37]), "+f"(sum[38]), "+f"(sum[39]), "+f"(sum[40]), "+f"(sum[41]),
        "+f"(sum[42]), "+f"(sum[43]), "+f"(sum[44]), "+f"(sum[45]), "+f"(sum[46]), "+f"(sum[47]),
        "+f"(sum[48]), "+f"(sum[49]), "+f"(sum[50]), "+f"(sum[51]), "+f"(sum[52]), "+f"(sum[53]),
        "+f"(sum[54]), "+f"(sum[55]), "+f"(sum[56]), "+f"(sum[57]), "+f"(sum[58]), "+f"(sum[59]),
        "+f"(sum[60]), "+f"(sum[61]), "+f"(sum[62]), "+f"(sum[63])
      : "l"(a), "l"(b), "r"(add));
#endif
}
#else
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
#endif

extern __shared__ __align__(128) unsigned char memory[];

extern "C" __global__ void __launch_bounds__(128 * GROUPS)
    warp_groups(const __nv_fp8_e4m3* __restrict__ a, const __nv_fp8_e4m3* __restrict__ b,
                __nv_bfloat16* __restrict__ c, long long m_wide, long long n_wide,
                long long k_wide) {
  constexpr int BM = 64 * GROUPS;
  constexpr int kThreads = 128 * GROUPS;
  const int m = (int)m_wide;
  const int n = (int)n_wide;
  const int k = (int)k_wide;
  Tile<BM>* tiles_a = (Tile<BM>*)memory;
  Tile<BN>* tiles_b = (Tile<BN>*)(memory + STAGES * sizeof(Tile<BM>));
  const int lane = threadIdx.x % 32;
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
  float sum[BN / 8][4] = {};
  for (int step = 0; step < STAGES - 1; ++step) load(step);
  for (int step = 0; step < steps; ++step) {
    Wait();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    // What was copied is to be seen by the tensor cores as well.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    __syncthreads();
    load(step + STAGES - 1);
    const Tile<BM>& tile_a = tiles_a[step % STAGES];
    const Tile<BN>& tile_b = tiles_b[step % STAGES];
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    const int first = threadIdx.x / 128 * 64;
    float part[BN / 2];
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int q = 0; q < BK / 16; q += 2) {
      Multiply(part, Describe(&tile_a.column[q].row[first], sizeof(tile_a.column[0])),
               Describe(&tile_b.column[q].row[0], sizeof(tile_b.column[0])), q);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int e = 0; e < BN / 2; ++e) sum[e / 4][e % 4] += part[e];
#else
    const int first = threadIdx.x / 32 * 16;
#pragma unroll
    for (int q = 0; q < BK / 16; q += 2) {
      unsigned part_a[4];
      LoadMatrix(part_a, &tile_a.column[q + lane / 16].row[first + lane % 16]);
#pragma unroll
      for (int j = 0; j < BN / 8; j += 2) {
        unsigned part_b[4];
        LoadMatrix(part_b, &tile_b.column[q + lane / 8 % 2].row[j * 8 + lane / 16 * 8 + lane % 8]);
        Multiply(sum[j], part_a, part_b[0], part_b[1]);
        Multiply(sum[j + 1], part_a, part_b[2], part_b[3]);
      }
    }
#endif
  }
  const int row = top + threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
  for (int j = 0; j < BN / 8; ++j) {
    const int column = left + j * 8 + lane % 4 * 2;
    if (column >= n) continue;
    __nv_bfloat162* out = (__nv_bfloat162*)(c + (long long)row * n + column);
    if (row < m) *out = __floats2bfloat162_rn(sum[j][0], sum[j][1]);
    if (row + 8 < m) out[4ll * n] = __floats2bfloat162_rn(sum[j][2], sum[j][3]);
  }
}
