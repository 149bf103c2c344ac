#include "services/worker/cuda/judge/judge_kernels.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::worker {
namespace {

constexpr int kBlock = 256;
constexpr int kBlocksPerMultiprocessor = 8;

// In the order in which the drawing kernels number types.
constexpr DataType kDataTypes[] = {DataType::kFloat64,   DataType::kFloat32, DataType::kFloat16,
                                   DataType::kBfloat16,  DataType::kInt64,   DataType::kInt32,
                                   DataType::kInt8,      DataType::kUint8,   DataType::kFloat8E4m3,
                                   DataType::kFloat8E5m2};
constexpr size_t kTypes = std::size(kDataTypes);

constexpr std::string_view kPrelude = R"cuda(
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

typedef unsigned long long u64;
)cuda";

// Code shared by describing and comparing.
constexpr std::string_view kCommon = R"cuda(
struct Statistics { double squares; u64 finite; u64 nan; };
struct Variation {
  double count; double expected; double expected_squares; double got; double got_squares;
  double error; double error_squares;
};
struct Comparison {
  u64 mismatches; u64 first; u64 unwritten; u64 non_finite; double error_squares; u64 intolerable;
  u64 nonzero; Variation variation;
};
struct Rule { double absolute; double rtol; double max_error; int larger_of_both; int infinities; int nan_agrees; };

__device__ double SumOverBlock(double value) {
  __shared__ double parts[32];
  __syncthreads();  // what is there has been read
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(~0u, value, step);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0;
  if (threadIdx.x < 32) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(~0u, value, step);
  }
  return value;
}

__device__ void Add(double value, double* sum) {
  value = SumOverBlock(value);
  if (threadIdx.x == 0 && value != 0) atomicAdd(sum, value);
}

template <class T> __device__ unsigned Bits(T value) {
  if constexpr (sizeof(T) == 1) return *reinterpret_cast<const unsigned char*>(&value);
  else if constexpr (sizeof(T) == 2) return *reinterpret_cast<const unsigned short*>(&value);
  else return *reinterpret_cast<const unsigned*>(&value);
}

// Whether the element holds what the repeated word put there.
template <class T> __device__ bool IsPoison(T value, long long i, unsigned poison) {
  if constexpr (sizeof(T) == 1) return Bits(value) == ((poison >> (8 * (i & 3))) & 0xff);
  else if constexpr (sizeof(T) == 2) return Bits(value) == ((poison >> (16 * (i & 1))) & 0xffff);
  else if constexpr (sizeof(T) == 4) return Bits(value) == poison;
  else return *reinterpret_cast<const u64*>(&value) == ((u64)poison << 32 | poison);
}

// An expected value: a double if `wide`, else a float.
__device__ double Kept(const void* values, bool wide, long long i) {
  return wide ? ((const double*)values)[i] : ((const float*)values)[i];
}

// The relative bound has a floor, as the rule that takes the larger bound does.
__device__ double Bound(const Rule& rule, double expected) {
  const double magnitude = fabs(expected);
  return rule.larger_of_both ? fmax(rule.absolute, rule.rtol * (magnitude + 1e-8))
                             : rule.absolute + rule.rtol * magnitude;
}

__device__ void Report(u64 i, bool poisoned, bool non_finite, Comparison* result) {
  atomicAdd(&result->mismatches, 1ull);
  atomicMin(&result->first, i);
  if (poisoned) atomicAdd(&result->unwritten, 1ull);
  if (non_finite) atomicAdd(&result->non_finite, 1ull);
}
)cuda";

constexpr std::string_view kCompareReal = R"cuda(
__device__ double ToDouble(double v) { return v; }
__device__ double ToDouble(float v) { return v; }
__device__ double ToDouble(__half v) { return __half2float(v); }
__device__ double ToDouble(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ double ToDouble(__nv_fp8_e4m3 v) { return float(v); }
__device__ double ToDouble(__nv_fp8_e5m2 v) { return float(v); }

template <class T>
__device__ void CompareReal(const T* got, const void* expected, bool wide, long long count,
                            Rule rule, unsigned poison, Comparison* result) {
  double error_squares = 0;
  Variation sums = {};
  u64 intolerable = 0, nonzero = 0;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
    const T held = got[i];
    const double g = ToDouble(held), e = Kept(expected, wide, i);
    const bool g_finite = isfinite(g), e_finite = isfinite(e);
    bool agrees;
    if (g_finite && e_finite) {
      const double error = fabs(g - e);
      error_squares += error * error;
      const bool beyond = rule.max_error > 0 && error > rule.max_error;
      agrees = error <= Bound(rule, e) && !beyond;
      intolerable += beyond;
      if (agrees) {
        sums.count += 1;
        sums.expected += e;
        sums.expected_squares += e * e;
        sums.got += g;
        sums.got_squares += g * g;
        sums.error += g - e;
        sums.error_squares += error * error;
      }
    } else {
      agrees = (g == e && (rule.infinities == 0 || (rule.infinities == 1 && e < 0))) ||
               (rule.nan_agrees && isnan(g) && isnan(e));
      intolerable += !agrees && (!g_finite || (rule.max_error > 0 && fabs(g - e) > rule.max_error));
    }
    nonzero += g != 0;
    if (!agrees) Report(i, IsPoison(held, i, poison), !g_finite, result);
  }
  error_squares = SumOverBlock(error_squares);
  if (threadIdx.x == 0 && error_squares > 0) atomicAdd(&result->error_squares, error_squares);
  Add(sums.count, &result->variation.count);
  Add(sums.expected, &result->variation.expected);
  Add(sums.expected_squares, &result->variation.expected_squares);
  Add(sums.got, &result->variation.got);
  Add(sums.got_squares, &result->variation.got_squares);
  Add(sums.error, &result->variation.error);
  Add(sums.error_squares, &result->variation.error_squares);
  if (intolerable) atomicAdd(&result->intolerable, intolerable);
  // Only whether there is any counts.
  if (nonzero && result->nonzero == 0) atomicAdd(&result->nonzero, nonzero);
}

#define COMPARE(NAME, T)                                                                           \
  extern "C" __global__ void compare_##NAME(const T* g, const void* e, long long n, Rule r,       \
                                            unsigned p, Comparison* c, int wide) {                \
    CompareReal<T>(g, e, wide, n, r, p, c);                                                        \
  }
COMPARE(float64, double)
COMPARE(float32, float)
COMPARE(float16, __half)
COMPARE(bfloat16, __nv_bfloat16)
COMPARE(float8_e4m3, __nv_fp8_e4m3)
COMPARE(float8_e5m2, __nv_fp8_e5m2)
)cuda";

constexpr std::string_view kDescribe = R"cuda(
template <class T> struct Largest;
template <> struct Largest<double> { static constexpr double value = 1.7976931348623157e308; };
template <> struct Largest<float> { static constexpr double value = 3.4028235677973366e38; };
template <> struct Largest<__half> { static constexpr double value = 65520; };
template <> struct Largest<__nv_bfloat16> { static constexpr double value = 3.3961775292304601e38; };
template <> struct Largest<__nv_fp8_e5m2> { static constexpr double value = 61440; };

template <class T> __device__ double Saturate(double v) {
  if (fabs(v) < Largest<T>::value) return v;
  return v > 0 ? __longlong_as_double(0x7ff0000000000000ll) : __longlong_as_double(0xfff0000000000000ll);
}
// Without infinities: conversions stop at the largest value.
template <> __device__ double Saturate<__nv_fp8_e4m3>(double v) { return fmin(fmax(v, -448.0), 448.0); }

template <class T>
__device__ void DescribeAs(void* values, bool wide, long long count, Statistics* statistics) {
  double squares = 0;
  u64 finite = 0, nan = 0;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
    const double v = Kept(values, wide, i);
    if (isnan(v)) { ++nan; continue; }
    const double held = Saturate<T>(v);
    if (held != v && wide) ((double*)values)[i] = held;
    if (held != v && !wide) ((float*)values)[i] = (float)held;
    if (isinf(held)) continue;
    squares += held * held;
    ++finite;
  }
  squares = SumOverBlock(squares);
  if (threadIdx.x == 0) atomicAdd(&statistics->squares, squares);
  if (finite) atomicAdd(&statistics->finite, finite);
  if (nan) atomicAdd(&statistics->nan, nan);
}

#define DESCRIBE(NAME, T)                                                                          \
  extern "C" __global__ void describe_##NAME(void* v, long long n, Statistics* s, int wide) {     \
    DescribeAs<T>(v, wide, n, s);                                                                  \
  }
DESCRIBE(float64, double)
DESCRIBE(float32, float)
DESCRIBE(float16, __half)
DESCRIBE(bfloat16, __nv_bfloat16)
DESCRIBE(float8_e4m3, __nv_fp8_e4m3)
DESCRIBE(float8_e5m2, __nv_fp8_e5m2)

template <class T>
__device__ void CompareWhole(const T* got, const T* expected, long long count, Rule rule,
                             unsigned poison, Comparison* result) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
    const long long g = got[i], e = expected[i];
    const u64 error = g > e ? (u64)g - (u64)e : (u64)e - (u64)g;
    if (error != 0 && !((double)error <= Bound(rule, (double)e))) {
      Report(i, IsPoison(got[i], i, poison), false, result);
    }
  }
}

#define WHOLE(NAME, T)                                                                             \
  extern "C" __global__ void compare_##NAME(const T* g, const T* e, long long n, Rule r,          \
                                            unsigned p, Comparison* c, int) {                     \
    CompareWhole<T>(g, e, n, r, p, c);                                                             \
  }
WHOLE(int64, long long)
WHOLE(int32, int)
WHOLE(int8, signed char)
WHOLE(uint8, unsigned char)

extern "C" __global__ void count_changed(const unsigned* words, long long n, unsigned pattern, u64* count) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  u64 changed = 0;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    changed += words[i] != pattern;
  }
  if (changed) atomicAdd(count, changed);
}

// A sum over words, each mixed with its place, so that no order of blocks changes it.
__device__ u64 mixed(u64 word, long long place, u64 seed) {
  u64 x = word ^ (seed + 0x9e3779b97f4a7c15ull * (u64)(place + 1));
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

extern "C" __global__ void fingerprint(const u64* words, long long n, u64 seed, u64* sum) {
  constexpr int kLoads = 4;
  const long long stride = (long long)gridDim.x * blockDim.x;
  const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  u64 part = 0;
  // Memory limits the speed. So each thread has several loads of 16 bytes in flight.
  const ulonglong2* pairs = (const ulonglong2*)words;
  const long long whole = (u64)words % sizeof(ulonglong2) == 0 ? n / 2 : 0;
  long long i = first;
  for (; i + (kLoads - 1) * stride < whole; i += kLoads * stride) {
    ulonglong2 loaded[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) loaded[k] = pairs[i + k * stride];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      const long long place = 2 * (i + k * stride);
      part += mixed(loaded[k].x, place, seed) + mixed(loaded[k].y, place + 1, seed);
    }
  }
  for (; i < whole; i += stride) {
    part += mixed(pairs[i].x, 2 * i, seed) + mixed(pairs[i].y, 2 * i + 1, seed);
  }
  for (i = 2 * whole + first; i < n; i += stride) part += mixed(words[i], i, seed);
  for (int lanes = 16; lanes > 0; lanes /= 2) part += __shfl_down_sync(~0u, part, lanes);
  if (threadIdx.x % 32 == 0 && part) atomicAdd(sum, part);
}
)cuda";

size_t TypeIndex(DataType dtype) {
  return static_cast<size_t>(std::find(std::begin(kDataTypes), std::end(kDataTypes), dtype) -
                             std::begin(kDataTypes));
}

std::string CompareName(DataType dtype) {
  return absl::StrCat("compare_", std::string(Name(dtype)));
}
std::string DescribeName(DataType dtype) {
  return absl::StrCat("describe_", std::string(Name(dtype)));
}

}  // namespace

std::vector<JudgeModule> JudgeModules() {
  const std::string prelude(kPrelude);
  const std::string common = prelude + std::string(kCommon);
  JudgeModule compare{common + std::string(kCompareReal), {}};
  // Integers are compared exactly and need no description.
  JudgeModule describe{common + std::string(kDescribe), {"count_changed", "fingerprint"}};
  for (const DataType dtype : kDataTypes) {
    (IsFloat(dtype) ? compare : describe).kernels.push_back(CompareName(dtype));
    if (IsFloat(dtype)) describe.kernels.push_back(DescribeName(dtype));
  }
  return {std::move(compare),
          std::move(describe),
          {prelude + DrawKernelsSource(), {"draw_real", "draw_whole", "alter"}},
          {std::string(HostileKernelsSource()), HostileKernelNames()}};
}

DataType NumberedType(int32_t type) { return kDataTypes[type]; }

absl::StatusOr<std::unique_ptr<JudgeKernels>> JudgeKernels::Load(
    CudaDevice& device, std::span<const std::string> cubins) {
  const std::vector<JudgeModule> modules = JudgeModules();
  if (cubins.size() != modules.size()) {
    return absl::InvalidArgumentError("wrong number of judge modules");
  }
  std::unique_ptr<JudgeKernels> kernels(new JudgeKernels(device, cubins.back()));
  for (size_t i = 0; i < modules.size(); ++i) {
    CUmodule module = nullptr;
    KC_RETURN_IF_ERROR(device.Check(device.api().ModuleLoadData(&module, cubins[i].data()),
                                    "loading the judge's kernels"));
    kernels->modules_.push_back(module);
    for (const std::string& name : modules[i].kernels) {
      KC_RETURN_IF_ERROR(device.Check(
          device.api().ModuleGetFunction(&kernels->functions_[name], module, name.c_str()), name));
    }
  }
  return kernels;
}

JudgeKernels::~JudgeKernels() {
  for (const CUmodule module : modules_) device_.api().ModuleUnload(module);
}

absl::Status JudgeKernels::Launch(const std::string& name, int64_t elements, void** parameters) {
  const int64_t wanted = (elements + kBlock - 1) / kBlock;
  const auto blocks = static_cast<unsigned int>(std::clamp<int64_t>(
      wanted, 1, int64_t{device_.multiprocessors()} * kBlocksPerMultiprocessor));
  return device_.Check(device_.api().LaunchKernel(functions_.at(name), blocks, 1, 1, kBlock, 1, 1,
                                                  0, device_.stream(), parameters, nullptr),
                       "launching a kernel of the judge");
}

absl::Status JudgeKernels::Fill(CUdeviceptr at, const void* content, size_t bytes) {
  return device_.Write(at, content, bytes, "copying to the device");
}

absl::Status JudgeKernels::Describe(DataType dtype, DataType kept, CUdeviceptr values,
                                    int64_t count, CUdeviceptr statistics) {
  const ExpectedStatistics zero;
  KC_RETURN_IF_ERROR(Fill(statistics, &zero, sizeof(zero)));
  int32_t wide = kept == DataType::kFloat64 ? 1 : 0;
  void* parameters[] = {&values, &count, &statistics, &wide};
  return Launch(DescribeName(dtype), count, parameters);
}

absl::Status JudgeKernels::Compare(const Comparison& comparison) {
  const TensorComparison zero;
  KC_RETURN_IF_ERROR(Fill(comparison.result, &zero, sizeof(zero)));
  Comparison c = comparison;
  int32_t wide = c.kept == DataType::kFloat64 ? 1 : 0;
  void* parameters[] = {&c.got, &c.expected, &c.count, &c.rule, &c.poison, &c.result, &wide};
  return Launch(CompareName(c.dtype), c.count, parameters);
}

absl::Status JudgeKernels::CountChanged(CUdeviceptr words, int64_t word_count, uint32_t pattern,
                                        CUdeviceptr count) {
  void* parameters[] = {&words, &word_count, &pattern, &count};
  return Launch("count_changed", word_count, parameters);
}

absl::Status JudgeKernels::Fingerprint(CUdeviceptr words, int64_t word_count, uint64_t seed,
                                       CUdeviceptr sum) {
  void* parameters[] = {&words, &word_count, &seed, &sum};
  return Launch("fingerprint", word_count, parameters);
}

absl::Status JudgeKernels::Draw(DataType dtype, const DrawPlan& plan, uint64_t seed, CUdeviceptr to,
                                int64_t count) {
  DrawPlan passed = plan;
  auto type = static_cast<int32_t>(TypeIndex(dtype));
  void* parameters[] = {&to, &count, &seed, &passed, &type};
  return Launch(IsFloat(dtype) ? "draw_real" : "draw_whole", count, parameters);
}

absl::Status JudgeKernels::Alter(DataType dtype, uint64_t seed, CUdeviceptr from, CUdeviceptr to,
                                 int64_t count) {
  auto size = static_cast<int32_t>(SizeBytes(dtype));
  void* parameters[] = {&to, &from, &count, &size, &seed};
  return Launch("alter", count / kAlteredEvery + 1, parameters);
}

}  // namespace kernelcast::worker
