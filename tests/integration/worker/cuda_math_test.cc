// Compiles each function of the CUDA math API with NVRTC in its own kernel and runs it on the
// virtual GPU. Every instruction must be supported, and results must match the host's libm where it
// has the function.

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "services/worker/core/source_scan.h"
#include "services/worker/cuda/compiler/compiler_process.h"
#include "services/worker/cuda/compiler/header_archive.h"
#include "services/worker/virtual_gpu/execute/simulator.h"
#include "services/worker/virtual_gpu/parse/parser.h"

namespace kernelcast::worker {
namespace {

struct Functions {
  const char* result;
  const char* arguments;
  const char* names;
};

// The functions by the types of result and arguments.
constexpr Functions kFunctions[] = {
    {"float", "fa",
     "acosf acoshf asinf asinhf atanf atanhf cbrtf ceilf cosf coshf cospif cyl_bessel_i0f "
     "cyl_bessel_i1f erfcf erfcinvf erfcxf erff erfinvf exp10f exp2f expf expm1f fabsf floorf "
     "j0f j1f lgammaf log10f log1pf log2f logbf logf nearbyintf normcdff normcdfinvf rcbrtf "
     "rintf roundf rsqrtf sinf sinhf sinpif sqrtf tanf tanhf tgammaf truncf y0f y1f __cosf "
     "__exp10f __expf __log10f __log2f __logf __sinf __tanf __tanhf __saturatef __frcp_rd "
     "__frcp_rn __frcp_ru __frcp_rz __frsqrt_rn __fsqrt_rd __fsqrt_rn __fsqrt_ru __fsqrt_rz "},
    {"float", "fa,fb",
     "atan2f copysignf fdimf fdividef fmaxf fminf fmodf hypotf nextafterf powf remainderf "
     "rhypotf __fadd_rd __fadd_rn __fadd_ru __fadd_rz __fdiv_rd __fdiv_rn __fdiv_ru __fdiv_rz "
     "__fdividef __fmul_rd __fmul_rn __fmul_ru __fmul_rz __fsub_rd __fsub_rn __fsub_ru "
     "__fsub_rz __powf "},
    {"float", "fa,fb,fc",
     "fmaf norm3df rnorm3df __fmaf_rd __fmaf_rn __fmaf_ru __fmaf_rz __fmaf_ieee_rd "
     "__fmaf_ieee_rn __fmaf_ieee_ru __fmaf_ieee_rz "},
    {"double", "da",
     "acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 "
     "erfc erfcinv erfcx erf erfinv exp10 exp2 exp expm1 fabs floor j0 j1 lgamma log10 log1p "
     "log2 logb log nearbyint normcdf normcdfinv rcbrt rint round rsqrt sin sinh sinpi sqrt "
     "tan tanh tgamma trunc y0 y1 __drcp_rd __drcp_rn __drcp_ru __drcp_rz __dsqrt_rd "
     "__dsqrt_rn __dsqrt_ru __dsqrt_rz "},
    {"double", "da,db",
     "atan2 copysign fdim fmax fmin fmod hypot nextafter pow remainder rhypot __dadd_rd "
     "__dadd_rn __dadd_ru __dadd_rz __ddiv_rd __ddiv_rn __ddiv_ru __ddiv_rz __dmul_rd "
     "__dmul_rn __dmul_ru __dmul_rz __dsub_rd __dsub_rn __dsub_ru __dsub_rz "},
    {"double", "da,db,dc", "fma norm3d rnorm3d __fma_rd __fma_rn __fma_ru __fma_rz "},
    {"int", "fa",
     "ilogbf isfinite isinf isnan signbit __float2int_rd __float2int_rn __float2int_ru "
     "__float2int_rz __float_as_int "},
    {"int", "da",
     "ilogb isfinite isinf isnan signbit __double2int_rd __double2int_rn __double2int_ru "
     "__double2int_rz __double2hiint __double2loint "},
    {"int", "ia", "abs __clz __ffs "},
    {"int", "ia,ib", "min max __hadd __rhadd __mul24 __mulhi "},
    {"int", "la", "__clzll __ffsll "},
    {"int", "ua", "__popc "},
    {"int", "ula", "__popcll "},
    {"int", "ia,ib,uc", "__sad "},
    {"int", "ia,ib,ic", "__dp2a_hi __dp2a_lo __dp4a "},
    {"int", "ua,ub,ic", "__fns "},
    {"unsigned", "ua",
     "__brev __vabs2 __vabsss2 __vneg2 __vnegss2 __vabs4 __vabsss4 __vneg4 __vnegss4 "},
    {"unsigned", "ua,ub,uc",
     "__byte_perm __funnelshift_l __funnelshift_lc __funnelshift_r __funnelshift_rc __usad "
     "__dp2a_lo __dp4a __viaddmax_s32 __viaddmax_s32_relu __viaddmax_u32 __viaddmax_s16x2 "
     "__viaddmax_s16x2_relu __viaddmax_u16x2 __viaddmin_s32 __viaddmin_s32_relu __viaddmin_u32 "
     "__viaddmin_s16x2 __viaddmin_s16x2_relu __viaddmin_u16x2 __vimax3_s32 __vimax3_s32_relu "
     "__vimax3_u32 __vimax3_s16x2 __vimax3_s16x2_relu __vimax3_u16x2 __vimin3_s32 "
     "__vimin3_s32_relu __vimin3_u32 __vimin3_s16x2 __vimin3_s16x2_relu __vimin3_u16x2 "},
    {"unsigned", "ua,ub",
     "__uhadd __urhadd __umul24 __umulhi umin umax __vabsdiffs2 __vabsdiffu2 __vadd2 __vaddss2 "
     "__vaddus2 __vavgs2 __vavgu2 __vcmpeq2 __vcmpges2 __vcmpgeu2 __vcmpgts2 __vcmpgtu2 "
     "__vcmples2 __vcmpleu2 __vcmplts2 __vcmpltu2 __vcmpne2 __vhaddu2 __vmaxs2 __vmaxu2 "
     "__vmins2 __vminu2 __vsads2 __vsadu2 __vseteq2 __vsetges2 __vsetgeu2 __vsetgts2 "
     "__vsetgtu2 __vsetles2 __vsetleu2 __vsetlts2 __vsetltu2 __vsetne2 __vsub2 __vsubss2 "
     "__vsubus2 __vabsdiffs4 __vabsdiffu4 __vadd4 __vaddss4 __vaddus4 __vavgs4 __vavgu4 "
     "__vcmpeq4 __vcmpges4 __vcmpgeu4 __vcmpgts4 __vcmpgtu4 __vcmples4 __vcmpleu4 __vcmplts4 "
     "__vcmpltu4 __vcmpne4 __vhaddu4 __vmaxs4 __vmaxu4 __vmins4 __vminu4 __vsads4 __vsadu4 "
     "__vseteq4 __vsetges4 __vsetgeu4 __vsetgts4 __vsetgtu4 __vsetles4 __vsetleu4 __vsetlts4 "
     "__vsetltu4 __vsetne4 __vsub4 __vsubss4 __vsubus4 __vimax_s32_relu __vimin_s32_relu "
     "__vimax_s16x2_relu __vimin_s16x2_relu "},
    {"long long", "la,lb", "__mul64hi llmin llmax "},
    {"long long", "la", "llabs "},
    {"long long", "da",
     "llrint llround __double2ll_rd __double2ll_rn __double2ll_ru __double2ll_rz "
     "__double_as_longlong "},
    {"long long", "fa",
     "llrintf llroundf __float2ll_rd __float2ll_rn __float2ll_ru __float2ll_rz "},
    {"unsigned long long", "ula", "__brevll "},
    {"unsigned long long", "ula,ulb", "__umul64hi ullmin ullmax "},
    {"long", "fa", "lrintf lroundf "},
    {"long", "da", "lrint lround "},
    {"float", "da", "__double2float_rd __double2float_rn __double2float_ru __double2float_rz "},
    {"float", "ia", "__int2float_rd __int2float_rn __int2float_ru __int2float_rz __int_as_float "},
    {"float", "ua",
     "__uint2float_rd __uint2float_rn __uint2float_ru __uint2float_rz __uint_as_float "},
    {"float", "la", "__ll2float_rd __ll2float_rn __ll2float_ru __ll2float_rz "},
    {"float", "ula", "__ull2float_rd __ull2float_rn __ull2float_ru __ull2float_rz "},
    {"unsigned", "da", "__double2uint_rd __double2uint_rn __double2uint_ru __double2uint_rz "},
    {"unsigned", "fa",
     "__float2uint_rd __float2uint_rn __float2uint_ru __float2uint_rz __float_as_uint "},
    {"unsigned long long", "da",
     "__double2ull_rd __double2ull_rn __double2ull_ru __double2ull_rz "},
    {"unsigned long long", "fa", "__float2ull_rd __float2ull_rn __float2ull_ru __float2ull_rz "},
    {"double", "la",
     "__ll2double_rd __ll2double_rn __ll2double_ru __ll2double_rz __longlong_as_double "},
    {"double", "ula", "__ull2double_rd __ull2double_rn __ull2double_ru __ull2double_rz "},
    {"double", "ia", "__int2double_rn "},
    {"double", "ua", "__uint2double_rn "},
    {"double", "ia,ib", "__hiloint2double "},
    {"float", "fa,ib", "ldexpf scalbnf scalblnf "},
    {"float", "fa,fb,fc,fd", "norm4df rnorm4df "},
    {"float", "3,fa", "jnf ynf "},
    {"float", "3,f", "normf rnormf "},
    {"double", "da,ib", "ldexp scalbn scalbln "},
    {"double", "da,db,dc,dd", "norm4d rnorm4d "},
    {"double", "3,da", "jn yn "},
    {"double", "3,d", "norm rnorm "},
    {"__half", "ha",
     "__habs __hneg hceil hcos hexp hexp10 hexp2 hfloor hlog hlog10 hlog2 hrcp hrint hrsqrt "
     "hsin hsqrt htanh htanh_approx htrunc "},
    {"__half", "ha,hb",
     "__hadd __hadd_rn __hadd_sat __hsub __hsub_rn __hsub_sat __hmul __hmul_rn __hmul_sat "
     "__hdiv __hmax __hmax_nan __hmin __hmin_nan "},
    {"__half", "ha,hb,hc", "__hfma __hfma_sat __hfma_relu "},
    {"int", "ha,hb",
     "__heq __hequ __hge __hgeu __hgt __hgtu __hle __hleu __hlt __hltu __hne __hneu "},
    {"int", "ha", "__hisinf __hisnan __half2int_rd __half2int_rn __half2int_ru __half2int_rz "},
    {"__half2", "ga",
     "__habs2 __hneg2 h2ceil h2cos h2exp h2exp10 h2exp2 h2floor h2log h2log10 h2log2 h2rcp "
     "h2rint h2rsqrt h2sin h2sqrt h2tanh h2tanh_approx h2trunc __hisnan2 __low2half2 "
     "__high2half2 __lowhigh2highlow "},
    {"__half2", "ga,gb",
     "__hadd2 __hadd2_rn __hadd2_sat __hsub2 __hsub2_rn __hsub2_sat __hmul2 __hmul2_rn "
     "__hmul2_sat __h2div __hmax2 __hmax2_nan __hmin2 __hmin2_nan __heq2 __hequ2 __hge2 "
     "__hgeu2 __hgt2 __hgtu2 __hle2 __hleu2 __hlt2 __hltu2 __hne2 __hneu2 __lows2half2 "
     "__highs2half2 "},
    {"__half2", "ga,gb,gc", "__hfma2 __hfma2_sat __hfma2_relu __hcmadd "},
    {"int", "ga,gb",
     "__hbeq2 __hbequ2 __hbge2 __hbgeu2 __hbgt2 __hbgtu2 __hble2 __hbleu2 __hblt2 __hbltu2 "
     "__hbne2 __hbneu2 "},
    {"unsigned", "ga,gb",
     "__heq2_mask __hne2_mask __hlt2_mask __hgtu2_mask __hge2_mask __hle2_mask "},
    {"float", "ha", "__half2float "},
    {"__half", "fa",
     "__float2half __float2half_rd __float2half_rn __float2half_ru __float2half_rz "},
    {"__half", "da", "__double2half "},
    {"__half2", "fa", "__float2half2_rn "},
    {"__half2", "fa,fb", "__floats2half2_rn "},
    {"unsigned", "ha", "__half2uint_rd __half2uint_rn __half2uint_ru __half2uint_rz "},
    {"short", "ha",
     "__half2short_rd __half2short_rn __half2short_ru __half2short_rz __half_as_short "},
    {"unsigned short", "ha",
     "__half2ushort_rd __half2ushort_rn __half2ushort_ru __half2ushort_rz __half_as_ushort "},
    {"long long", "ha", "__half2ll_rd __half2ll_rn __half2ll_ru __half2ll_rz "},
    {"unsigned long long", "ha", "__half2ull_rd __half2ull_rn __half2ull_ru __half2ull_rz "},
    {"__half", "ia", "__int2half_rd __int2half_rn __int2half_ru __int2half_rz "},
    {"__half", "ua", "__uint2half_rd __uint2half_rn __uint2half_ru __uint2half_rz "},
    {"__half", "la", "__ll2half_rd __ll2half_rn __ll2half_ru __ll2half_rz "},
    {"__half", "ula", "__ull2half_rd __ull2half_rn __ull2half_ru __ull2half_rz "},
    {"signed char", "ha", "__half2char_rz "},
    {"unsigned char", "ha", "__half2uchar_rz "},
    {"__half2", "ha", "__half2half2 "},
    {"__half2", "ha,hb", "__halves2half2 "},
    {"__half", "ga", "__low2half __high2half "},
    {"float", "ga", "__low2float __high2float "},
};

// Tests that need more than a plain call with arguments by value.
constexpr std::pair<const char*, const char*> kStatements[] = {
    {"float", "o = nanf(\"\");"},
    {"double", "o = nan(\"\");"},
    {"unsigned", "o = ([&]{bool p; unsigned r=__vibmax_s32(ua,ub,&p); return r+p;}());"},
    {"unsigned", "o = ([&]{bool p,q; unsigned r=__vibmax_s16x2(ua,ub,&p,&q); return r+p+2*q;}());"},
    {"unsigned", "o = ([&]{bool p,q; unsigned r=__vibmin_u16x2(ua,ub,&p,&q); return r+p+2*q;}());"},
    {"__half", "o = __short2half_rd((short)ia);"},
    {"__half", "o = __ushort2half_rd((unsigned short)ua);"},
    {"__half", "o = __short2half_rn((short)ia);"},
    {"__half", "o = __ushort2half_rn((unsigned short)ua);"},
    {"__half", "o = __short2half_ru((short)ia);"},
    {"__half", "o = __ushort2half_ru((unsigned short)ua);"},
    {"__half", "o = __short2half_rz((short)ia);"},
    {"__half", "o = __ushort2half_rz((unsigned short)ua);"},
    {"__half", "o = __short_as_half((short)ia);"},
    {"__half", "o = __ushort_as_half((unsigned short)ua);"},
    {"float", "int e; float r=frexpf(fa,&e); o=r+e;"},
    {"double", "int e; double r=frexp(da,&e); o=r+e;"},
    {"float", "float i; float r=modff(fa,&i); o=r+2*i;"},
    {"double", "double i; double r=modf(da,&i); o=r+2*i;"},
    {"float", "int q; float r=remquof(fa,fb,&q); o=r+q;"},
    {"double", "int q; double r=remquo(da,db,&q); o=r+q;"},
    {"float", "float s,c; sincosf(fa,&s,&c); o=s+2*c;"},
    {"double", "double s,c; sincos(da,&s,&c); o=s+2*c;"},
    {"float", "float s,c; sincospif(fa,&s,&c); o=s+2*c;"},
    {"double", "double s,c; sincospi(da,&s,&c); o=s+2*c;"},
    {"float", "float s,c; __sincosf(fa,&s,&c); o=s+2*c;"},
};

constexpr float kA = 0.625F;
constexpr float kB = 1.75F;
constexpr float kC = -0.3125F;

// The host's results for kA, kB and kC. Names that end in "f" are the float32 functions.
double Expected(const std::string& name, bool& known) {
  const double a = kA;
  const double b = kB;
  const double c = kC;
  static const std::map<std::string, double> kValues = {
      {"acos", std::acos(a)},
      {"asin", std::asin(a)},
      {"asinh", std::asinh(a)},
      {"atan", std::atan(a)},
      {"atanh", std::atanh(a)},
      {"cbrt", std::cbrt(a)},
      {"ceil", 1},
      {"cos", std::cos(a)},
      {"cosh", std::cosh(a)},
      {"erf", std::erf(a)},
      {"erfc", std::erfc(a)},
      {"exp", std::exp(a)},
      {"exp2", std::exp2(a)},
      {"exp10", std::pow(10, a)},
      {"expm1", std::expm1(a)},
      {"fabs", a},
      {"floor", 0},
      {"j0", j0(a)},
      {"j1", j1(a)},
      {"lgamma", std::lgamma(a)},
      {"log", std::log(a)},
      {"log10", std::log10(a)},
      {"log1p", std::log1p(a)},
      {"log2", std::log2(a)},
      {"logb", std::logb(a)},
      {"nearbyint", 1},
      {"normcdf", std::erfc(-a * M_SQRT1_2) / 2},
      {"rcbrt", 1 / std::cbrt(a)},
      {"rint", 1},
      {"round", 1},
      {"rsqrt", 1 / std::sqrt(a)},
      {"sin", std::sin(a)},
      {"sinh", std::sinh(a)},
      {"sinpi", std::sin(M_PI * a)},
      {"cospi", std::cos(M_PI * a)},
      {"sqrt", std::sqrt(a)},
      {"tan", std::tan(a)},
      {"tanh", std::tanh(a)},
      {"tgamma", std::tgamma(a)},
      {"trunc", 0},
      {"y0", y0(a)},
      {"y1", y1(a)},
      {"atan2", std::atan2(a, b)},
      {"copysign", a},
      {"fdim", 0},
      {"fmax", b},
      {"fmin", a},
      {"fmod", std::fmod(a, b)},
      {"hypot", std::hypot(a, b)},
      {"pow", std::pow(a, b)},
      {"remainder", std::remainder(a, b)},
      {"rhypot", 1 / std::hypot(a, b)},
      {"fma", std::fma(a, b, c)},
      {"norm3d", std::sqrt(a * a + b * b + c * c)}};
  const auto found = kValues.find(name);
  known = found != kValues.end();
  return known ? found->second : 0;
}

class Compiler {
 public:
  Compiler() {
    auto toolkit = FindCudaToolkit({KERNELCAST_CUDA_HOME});
    REQUIRE(toolkit.ok());
    auto headers = HeaderArchive::Read(toolkit->include_directory);
    REQUIRE(headers.ok());
    headers_ = *std::move(headers);
    CompilerProcessOptions options;
    options.program = KERNELCAST_BIN_DIR "/kernelcast-cuda-compiler";
    options.toolkit = *toolkit;
    auto process = CompilerProcess::Start(options, headers_->fd(), CancelToken());
    REQUIRE(process.ok());
    process_ = *std::move(process);
  }
  std::string Ptx(const std::string& source, const std::string& architecture) {
    compiler_wire::CompileRequest request;
    request.source = source;
    request.options = {"-arch=" + architecture, "-w", "--no-source-include"};
    request.headers = headers_->Reach(IncludedFiles(source));
    compiler_wire::CompileReply reply;
    REQUIRE(process_->Compile(request, 120'000'000'000, CancelToken(), reply) ==
            CompilerProcess::End::kAnswered);
    INFO(reply.log);
    REQUIRE(reply.code == compiler_wire::ReplyCode::kCompiled);
    return reply.ptx;
  }

 private:
  std::unique_ptr<HeaderArchive> headers_;
  std::unique_ptr<CompilerProcess> process_;
};

struct Case {
  std::string type;
  std::string name;  // of a function, or empty
  std::string statement;
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const Functions& functions : kFunctions) {
    for (const auto name : absl::StrSplit(functions.names, ' ', absl::SkipEmpty())) {
      const std::string text(name);
      cases.push_back(
          {functions.result, text, absl::StrCat("o = ", text, "(", functions.arguments, ");")});
    }
  }
  for (const auto& [type, statement] : kStatements) cases.push_back({type, "", statement});
  // bfloat16 has the same functions as half.
  const size_t count = cases.size();
  for (size_t k = 0; k < count; ++k) {
    const std::string all = cases[k].type + cases[k].statement;
    const bool half = all.find("half") != std::string::npos ||
                      all.find("ha") != std::string::npos || all.find("(ga") != std::string::npos;
    if (!half || all.find("floats2") != std::string::npos) continue;
    const auto brain = [](const std::string& text) {
      return absl::StrReplaceAll(text, {{"halves", "halves"},
                                        {"half", "bfloat16"},
                                        {"ha", "ba"},
                                        {"hb", "bb"},
                                        {"hc", "bc"},
                                        {"ga", "wa"},
                                        {"gb", "wb"},
                                        {"gc", "wc"}});
    };
    std::string type = cases[k].type;
    if (type == "__half") type = "__nv_bfloat16";
    if (type == "__half2") type = "__nv_bfloat162";
    const size_t open = cases[k].statement.find('(');
    cases.push_back(
        {type, "",
         absl::StrReplaceAll(cases[k].statement.substr(0, open), {{"half", "bfloat16"}}) +
             brain(cases[k].statement.substr(open))});
  }
  return cases;
}

constexpr const char* kHead = R"(#include <cuda_fp16.h>
#include <cuda_bf16.h>
struct In { float f[4]; double d[4]; int i[4]; unsigned u[4]; long long l[4]; unsigned long long ul[4]; unsigned h[4]; unsigned b[4]; };
)";
constexpr const char* kLocals = R"(
const float fa=in->f[0],fb=in->f[1],fc=in->f[2],fd=in->f[3]; const double da=in->d[0],db=in->d[1],dc=in->d[2],dd=in->d[3];
const int ia=in->i[0],ib=in->i[1],ic=in->i[2]; const unsigned ua=in->u[0],ub=in->u[1],uc=in->u[2];
const long long la=in->l[0],lb=in->l[1]; const unsigned long long ula=in->ul[0],ulb=in->ul[1];
const float* f=in->f; const double* d=in->d;
const __half *hp=(const __half*)in->h; const __half ha=hp[0],hb=hp[2],hc=hp[4];
const __half2 *gp=(const __half2*)in->h; const __half2 ga=gp[0],gb=gp[1],gc=gp[2];
const __nv_bfloat16 *bp=(const __nv_bfloat16*)in->b; const __nv_bfloat16 ba=bp[0],bb=bp[2],bc=bp[4];
const __nv_bfloat162 *wp=(const __nv_bfloat162*)in->b; const __nv_bfloat162 wa=wp[0],wb=wp[1],wc=wp[2];
)";

void Fill(virtual_gpu::GlobalMemory& memory) {
  const uint64_t in = virtual_gpu::GlobalMemory::AddressOf(0);
  const float values[] = {kA, kB, kC, 2};
  for (uint64_t k = 0; k < 4; ++k) {
    memory.Write(in + 4 * k, 4, std::bit_cast<uint32_t>(values[k]));
    memory.Write(in + 16 + 8 * k, 8, std::bit_cast<uint64_t>(double{values[k]}));
    memory.Write(in + 48 + 4 * k, 4, static_cast<uint32_t>(-70'000 + 50'001 * static_cast<int>(k)));
    memory.Write(in + 64 + 4 * k, 4, 0x80000701U + 17 * static_cast<uint32_t>(k));
    memory.Write(in + 80 + 8 * k, 8,
                 static_cast<uint64_t>(-7'000'000'000 + 5 * static_cast<int64_t>(k)));
    memory.Write(in + 112 + 8 * k, 8, 0x8000000000000701U + k);
    const float value = values[k];
    memory.Write(in + 144 + 4 * k, 4, uint32_t{virtual_gpu::ToHalf(value)} * 0x10001U);
    memory.Write(in + 160 + 4 * k, 4, uint32_t{virtual_gpu::ToBfloat16(value)} * 0x10001U);
  }
}

void TryAll(Compiler& compiler, const std::string& architecture) {
  const std::vector<Case> cases = AllCases();
  int compared = 0;
  for (size_t first = 0; first < cases.size(); first += 200) {
    const size_t end = std::min(cases.size(), first + 200);
    std::string source = kHead;
    for (size_t k = first; k < end; ++k) {
      absl::StrAppend(&source, "extern \"C\" __global__ void k", k, "(const In* in, ",
                      cases[k].type, "* out) {", kLocals, cases[k].type, " o; ", cases[k].statement,
                      " out[threadIdx.x] = o; }\n");
    }
    const virtual_gpu::Program program =
        virtual_gpu::ParseProgram(compiler.Ptx(source, architecture));
    CHECK(program.kernels.size() == end - first);
    for (size_t k = first; k < end; ++k) {
      INFO(architecture << ": " << cases[k].type << " " << cases[k].statement);
      virtual_gpu::LaunchSpec launch;
      launch.kernel = absl::StrCat("k", k);
      launch.arguments = {{.is_buffer = true, .buffer = 0}, {.is_buffer = true, .buffer = 1}};
      virtual_gpu::GlobalMemory memory(std::vector<virtual_gpu::BufferSpec>(2, {.bytes = 256}),
                                       program);
      Fill(memory);
      const auto counts =
          virtual_gpu::Simulate(program, std::vector<virtual_gpu::LaunchSpec>{launch}, {}, memory);
      CHECK(counts[0].not_covered == "");
      CHECK(counts[0].counters.stray_sectors == 0);
      const uint64_t bits = memory.Read(virtual_gpu::GlobalMemory::AddressOf(1), 8);
      const bool single = cases[k].type == "float";
      if (!single && cases[k].type != "double") continue;
      std::string name = cases[k].name;
      if (name == "norm3df")
        name = "norm3d";
      else if (single && !name.empty() && name.back() == 'f' && name != "erf")
        name.pop_back();
      bool known = false;
      const double expected = Expected(name, known);
      if (!known) continue;
      ++compared;
      const double value =
          single ? std::bit_cast<float>(static_cast<uint32_t>(bits)) : std::bit_cast<double>(bits);
      // CUDA's own error bounds for the compared functions are at most 11 units in the last place.
      const double unit = single ? 0x1p-23 : 0x1p-52;
      CHECK(std::abs(value - expected) <= 16 * unit * std::max(std::abs(expected), 0.125));
    }
  }
  CHECK(compared >= 100);
}

TEST_CASE("Every function of the CUDA math API runs on each architecture", "[integration]") {
  if (!FindCudaToolkit({KERNELCAST_CUDA_HOME}).ok()) {
    WARN("no NVRTC next to the headers of this build: nothing is tested");
    return;
  }
  Compiler compiler;
  for (const char* architecture : {"sm_80", "sm_89", "sm_90a"}) TryAll(compiler, architecture);
}

}  // namespace
}  // namespace kernelcast::worker
