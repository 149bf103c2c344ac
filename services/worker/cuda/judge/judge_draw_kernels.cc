#include <string_view>

#include "services/worker/core/draw_plan.h"
#include "services/worker/cuda/judge/judge_kernels.h"

namespace kernelcast::worker {
namespace {

// Makes a string literal of the arguments, whatever macros they contain.
#define KERNELCAST_DRAW_CODE(...) #__VA_ARGS__
constexpr std::string_view kShared =
#include "services/worker/core/counter_draw.inc"
    ;
#undef KERNELCAST_DRAW_CODE

// Must match DrawPlan and its enumerations.
constexpr std::string_view kBefore = R"cuda(
enum {
  kDrawNormal, kDrawUniform, kDrawIntegers, kDrawConstant, kDrawLogNormal, kDrawPowerLaw
};
enum { kDrawPlain, kDrawLarge, kDrawZeros, kDrawExtreme, kDrawEqualRows };
struct DrawPlan {
  int kind;
  int change;
  double a;
  double b;
  double exponent;
  double step;
  long long low;
  unsigned long long range;
  long long row;
};
// Large functions are compiled once.
#define KERNELCAST_DRAW_FUNCTION static __device__ __noinline__
__device__ inline double DrawCosine(double turns) { return cospi(2 * turns); }
__device__ inline unsigned long long DrawHighProduct(unsigned long long a, unsigned long long b) {
  return __umul64hi(a, b);
}
)cuda";
static_assert(sizeof(DrawPlan) == 64 && kDrawPowerLaw == 5 && kDrawEqualRows == 4);

constexpr std::string_view kAfter = R"cuda(
// In the order of the types that the judge numbers.
enum { kF64, kF32, kF16, kBf16, kI64, kI32, kI8, kU8, kE4m3, kE5m2 };

#define DRAW_LOOP                                                                          \
  const long long stride = (long long)gridDim.x * blockDim.x;                              \
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)

extern "C" __global__ void draw_real(void* to, long long n, u64 seed, DrawPlan plan, int type) {
  DRAW_LOOP {
    if (type == kF64) {
      ((double*)to)[i] = DrawFloat<double>(plan, seed, i, n);
      continue;
    }
    const float v = DrawFloat<float>(plan, seed, i, n);
    if (type == kF32) ((float*)to)[i] = v;
    else if (type == kF16) ((__half*)to)[i] = __float2half_rn(v);
    else if (type == kBf16) ((__nv_bfloat16*)to)[i] = __float2bfloat16_rn(v);
    // Infinite beyond the largest value where the type has infinities.
    else if (type == kE4m3) ((__nv_fp8_storage_t*)to)[i] = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
    else ((__nv_fp8_storage_t*)to)[i] = __nv_cvt_float_to_fp8(v, __NV_NOSAT, __NV_E5M2);
  }
}

extern "C" __global__ void draw_whole(void* to, long long n, u64 seed, DrawPlan plan, int type) {
  const long long least = type == kI64 ? -9223372036854775807ll - 1
                          : type == kI32 ? -2147483647ll - 1 : type == kI8 ? -128 : 0;
  const long long most = type == kI64 ? 9223372036854775807ll
                         : type == kI32 ? 2147483647ll : type == kI8 ? 127 : 255;
  DRAW_LOOP {
    const long long v = DrawWhole(plan, seed, i, least, most);
    if (type == kI64) ((long long*)to)[i] = v;
    else if (type == kI32) ((int*)to)[i] = (int)v;
    else ((unsigned char*)to)[i] = (unsigned char)v;
  }
}

template <class T> __device__ void AlterAs(void* to, const void* from, long long n, long long at) {
  ((T*)to)[at] = ((const T*)from)[at];
}
extern "C" __global__ void alter(void* to, const void* from, long long n, int size, u64 seed) {
  const long long picks = n / 128 + 1;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < picks; i += stride) {
    const long long at = DrawPosition(seed, i, n);
    if (size == 8) AlterAs<u64>(to, from, n, at);
    else if (size == 4) AlterAs<unsigned>(to, from, n, at);
    else if (size == 2) AlterAs<unsigned short>(to, from, n, at);
    else AlterAs<unsigned char>(to, from, n, at);
  }
}
)cuda";
static_assert(kAlteredEvery == 128);

}  // namespace

std::string DrawKernelsSource() {
  std::string source(kBefore);
  source += kShared;
  source += kAfter;
  return source;
}

}  // namespace kernelcast::worker
