// The judge's kernels on the device, compared with the same work on the host.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "services/worker/artifacts/artifact_cache.h"
#include "services/worker/artifacts/compile_cache.h"
#include "services/worker/core/draw_plan.h"
#include "services/worker/core/verification.h"
#include "services/worker/cuda/api/cuda_api.h"
#include "services/worker/cuda/api/cuda_toolkit.h"
#include "services/worker/cuda/compiler/cuda_compiler.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/expected_output.h"
#include "services/worker/cuda/judge/judge_kernels.h"
#include "services/worker/cuda/judge/memory_fingerprint.h"
#include "tests/gpu/gpu_fixture.h"

namespace kernelcast::worker {
namespace {

constexpr int64_t kCount = 100'003;
constexpr uint64_t kSeed = 0xfedcba9876543210u;

class Drawing {
 public:
  Drawing() : folder_("gpu-draw") {
    device_ = CudaDevice::Open(*LoadCudaApi().value()).value();
    cache_ = std::make_unique<CompileCache>(
        ArtifactCache::Open(folder_.path().string(), int64_t{1} << 30).value());
    CudaCompilerOptions options;
    options.process.program = testing::ProgramFolder() + "/kernelcast-cuda-compiler";
    options.process.toolkit = FindCudaToolkit(CudaHomes("", testing::ProgramFolder())).value();
    options.process.uid = 65534;
    options.max_processes = 1;
    const auto compiler = CudaCompiler::Make(std::move(options), *cache_).value();
    const DeviceFacts facts = DescribeDevice(*LoadCudaApi().value()).value();
    const std::string architecture =
        compiler->toolchain()
            .ArchitectureOf(facts.compute_capability_major, facts.compute_capability_minor)
            .value();
    std::vector<std::string> cubins;
    for (const JudgeModule& module : JudgeModules()) {
      const auto compiled =
          compiler->Compile(module.source, {}, {}, architecture, CancelToken()).value();
      if (const auto* error = std::get_if<CompileError>(&compiled.result)) FAIL(error->log);
      cubins.push_back(std::get<CompileSuccess>(compiled.result).artifact.content);
    }
    kernels_ = JudgeKernels::Load(*device_, cubins).value();
  }

  std::vector<std::byte> OnDevice(DataType dtype, const DrawPlan& plan) {
    std::vector<std::byte> values(static_cast<size_t>(kCount * SizeBytes(dtype)));
    const DeviceBuffer buffer = DeviceBuffer::Allocate(*device_, values.size()).value();
    REQUIRE(kernels_->Draw(dtype, plan, kSeed, buffer.address(), kCount).ok());
    Read(buffer, values);
    return values;
  }
  std::vector<std::byte> AlteredOnDevice(DataType dtype, const std::vector<std::byte>& base,
                                         const std::vector<std::byte>& other) {
    const DeviceBuffer to = DeviceBuffer::Copy(*device_, base).value();
    const DeviceBuffer from = DeviceBuffer::Copy(*device_, other).value();
    REQUIRE(kernels_->Alter(dtype, kSeed, from.address(), to.address(), kCount).ok());
    std::vector<std::byte> values(base.size());
    Read(to, values);
    return values;
  }
  // Leaves out the first `skipped` words.
  uint64_t Fingerprint(std::span<const uint64_t> words, size_t skipped, uint64_t seed) {
    const std::span<const std::byte> bytes = std::as_bytes(words);
    const DeviceBuffer buffer =
        DeviceBuffer::Copy(*device_, std::vector<std::byte>(bytes.begin(), bytes.end())).value();
    const MemoryFingerprint::Region region{buffer.address() + skipped * sizeof(uint64_t),
                                           words.size() - skipped};
    return MemoryFingerprint(*device_, *kernels_, seed).Of({&region, 1}).value();
  }
  // The verdict on `got` where `oracle` has the expected values as doubles.
  TensorVerdict Compare(const TensorLayout& layout, const Tolerance& tolerance,
                        const std::vector<std::byte>& oracle, const std::vector<std::byte>& got,
                        TensorComparison& found) {
    const ExpectedTensor host(layout, tolerance, oracle);
    CudaExpected expected;
    expected.dtype = layout.dtype;
    expected.tolerance = tolerance;
    expected.count = layout.elements();
    expected.rms = host.rms();
    expected.norm = host.norm();
    expected.absolute = tolerance.atol * (tolerance.scaled ? std::max(1.0, host.rms()) : 1);
    const DeviceBuffer values = DeviceBuffer::Copy(*device_, oracle).value();
    const DeviceBuffer outputs = DeviceBuffer::Copy(*device_, got).value();
    const DeviceBuffer result = DeviceBuffer::Allocate(*device_, sizeof(found)).value();
    REQUIRE(kernels_
                ->Compare({.dtype = layout.dtype,
                           .got = outputs.address(),
                           .expected = values.address(),
                           .count = expected.count,
                           .rule = expected.Rule(),
                           .poison = 0x7ff17ff1,
                           .result = result.address()})
                .ok());
    std::vector<std::byte> bytes(sizeof(found));
    Read(result, bytes);
    std::memcpy(&found, bytes.data(), sizeof(found));
    return JudgeComparison(expected, found, true);
  }

 private:
  void Read(const DeviceBuffer& buffer, std::vector<std::byte>& values) {
    REQUIRE(device_->api().MemcpyDtoHAsync(values.data(), buffer.address(), values.size(),
                                           device_->stream()) == CUDA_SUCCESS);
    REQUIRE(device_->Synchronize().ok());
  }

  testing::TemporaryFolder folder_;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CompileCache> cache_;
  std::unique_ptr<JudgeKernels> kernels_;
};

DrawPlan Plan(DrawKind kind, DrawChange change) {
  DrawPlan plan;
  plan.kind = kind;
  plan.change = change;
  plan.a = kind == kDrawPowerLaw ? 1 : -1.5;
  plan.b = kind == kDrawPowerLaw ? 100 : 2.25;
  plan.exponent = 1.5;
  plan.low = -3;
  plan.range = 1000;
  plan.row = 37;
  return plan;
}

TEST_CASE("The device draws the same values as the host for every type, distribution and change") {
  KERNELCAST_NEEDS_GPU();
  Drawing drawing;
  for (const DataType dtype :
       {DataType::kFloat64, DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16,
        DataType::kFloat8E4m3, DataType::kFloat8E5m2, DataType::kInt64, DataType::kInt32,
        DataType::kInt8, DataType::kUint8}) {
    for (const DrawKind kind :
         {kDrawNormal, kDrawUniform, kDrawIntegers, kDrawConstant, kDrawLogNormal, kDrawPowerLaw}) {
      for (const DrawChange change :
           {kDrawPlain, kDrawLarge, kDrawZeros, kDrawExtreme, kDrawEqualRows}) {
        const DrawPlan plan = Plan(kind, change);
        const std::vector<std::byte> device = drawing.OnDevice(dtype, plan);
        std::vector<std::byte> host(device.size());
        DrawByCounter(dtype, plan, kSeed, host);
        // Rounding of a logarithm may change the last bit of a value or the nearest integer.
        int64_t differ = 0;
        int64_t far = 0;
        for (int64_t i = 0; i < kCount; ++i) {
          const double a = ElementAt(dtype, device, i);
          const double b = ElementAt(dtype, host, i);
          if (a == b) continue;
          ++differ;
          const double near = IsFloat(dtype) ? 0.3 * std::abs(b) + 0.004 : 1;
          far += std::abs(a - b) <= near ? 0 : 1;
        }
        INFO(Name(dtype) << ", kind " << kind << ", change " << change << ": " << differ
                         << " differ");
        CHECK(far == 0);
        CHECK(differ <= (dtype == DataType::kFloat64 ? kCount : kCount / 100));
      }
    }
  }
}

TEST_CASE("The device replaces the same values as the host") {
  KERNELCAST_NEEDS_GPU();
  Drawing drawing;
  for (const DataType dtype :
       {DataType::kFloat64, DataType::kFloat32, DataType::kFloat16, DataType::kUint8}) {
    const std::vector<std::byte> base = drawing.OnDevice(dtype, Plan(kDrawUniform, kDrawPlain));
    const std::vector<std::byte> other = drawing.OnDevice(dtype, Plan(kDrawNormal, kDrawPlain));
    std::vector<std::byte> host = base;
    AlterByCounter(static_cast<size_t>(SizeBytes(dtype)), kSeed, other, host);
    CHECK(drawing.AlteredOnDevice(dtype, base, other) == host);
    CHECK(host != base);
  }
}

template <class T>
std::vector<std::byte> BytesOf(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

TEST_CASE("The device judges outputs by every rule like the host") {
  KERNELCAST_NEEDS_GPU();
  Drawing drawing;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const TensorLayout layout{.dtype = DataType::kFloat32, .shape = {kCount}};
  using Infinities = Tolerance::Infinities;
  const Tolerance plain{.atol = 1e-2, .rtol = 1e-2, .normwise = 0, .scaled = false};
  std::vector<Tolerance> tolerances(7, plain);
  tolerances[1].larger_of_both = true;
  tolerances[2].matched_ratio = 0.99;
  tolerances[3].matched_ratio = 0.99;
  tolerances[3].max_error = 2;
  tolerances[4].infinities = Infinities::kNegative;
  tolerances[5].infinities = Infinities::kNone;
  tolerances[5].not_all_zero = true;
  tolerances[6].nan_agrees = true;
  using Change = std::function<void(std::vector<float> & got, std::vector<double> & right)>;
  const std::vector<Change> changes = {
      [](auto&, auto&) {},
      [](auto& got, auto&) {
        for (float& value : got) value += 0.012f;
      },
      [](auto& got, auto&) {
        for (size_t i = 0; i < got.size(); i += 300) got[i] += 1;
      },
      [](auto& got, auto&) {
        for (size_t i = 0; i < got.size(); i += 300) got[i] += 3;
      },
      [](auto& got, auto&) {
        for (size_t i = 0; i < got.size(); i += 50) got[i] += 1;
      },
      [](auto& got, auto&) { got[77] = NAN; },
      [](auto& got, auto& right) { got[77] = NAN, right[77] = NAN; },
      [](auto& got, auto& right) { got[77] = 1, right[77] = NAN; },
      [](auto& got, auto&) { got[77] = kInfinity; },
      [](auto& got, auto& right) { got[77] = kInfinity, right[77] = kInfinity; },
      [](auto& got, auto& right) { got[77] = -kInfinity, right[77] = -kInfinity; },
      [](auto& got, auto& right) { got[77] = 1, right[77] = -kInfinity; },
      [](auto& got, auto&) { std::fill(got.begin(), got.end(), 0.0f); },
  };
  for (size_t t = 0; t < tolerances.size(); ++t) {
    for (size_t c = 0; c < changes.size(); ++c) {
      std::vector<double> right;
      for (int64_t i = 0; i < kCount; ++i) right.push_back(std::sin(static_cast<double>(i)) * 3);
      std::vector<float> got(right.begin(), right.end());
      changes[c](got, right);
      const std::vector<std::byte> oracle = BytesOf(right);
      const std::vector<std::byte> output = BytesOf(got);
      TensorComparison found;
      const TensorVerdict verdict = drawing.Compare(layout, tolerances[t], oracle, output, found);
      const TensorVerdict host =
          CompareTensor(ExpectedTensor(layout, tolerances[t], oracle), output, std::nullopt);
      INFO("tolerance " << t << ", change " << c);
      CHECK(verdict.ok == host.ok);
      // In an output of zeros, the host counts all elements that should not be zero.
      if (!tolerances[t].not_all_zero) CHECK(found.mismatches == host.mismatches);
      const VariationSums& sums = found.variation;
      CHECK(sums.count == host.variation.count);
      CHECK(sums.expected == Approx(host.variation.expected).margin(1e-9));
      CHECK(sums.expected_squares == Approx(host.variation.expected_squares));
      CHECK(sums.got == Approx(host.variation.got).margin(1e-9));
      CHECK(sums.got_squares == Approx(host.variation.got_squares));
      CHECK(sums.error == Approx(host.variation.error).margin(1e-9));
      CHECK(sums.error_squares == Approx(host.variation.error_squares).margin(1e-9));
    }
  }
}

// The sum of what the finaliser of splitmix64 makes of each word and its place.
uint64_t FingerprintOnHost(std::span<const uint64_t> words, uint64_t seed) {
  uint64_t sum = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    uint64_t x = words[i] ^ (seed + 0x9e3779b97f4a7c15u * (i + 1));
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    sum += x ^ (x >> 31);
  }
  return sum;
}

TEST_CASE("A fingerprint covers every word, at any alignment") {
  KERNELCAST_NEEDS_GPU();
  Drawing drawing;
  // The last is more than the threads of a device load at a time.
  for (const size_t count : {size_t{1}, size_t{2}, size_t{1001}, size_t{6'000'003}}) {
    std::vector<uint64_t> words(count);
    uint64_t word = kSeed;
    for (uint64_t& at : words) at = word = word * 6364136223846793005u + 1442695040888963407u;
    for (const size_t skipped : {size_t{0}, size_t{1}}) {
      INFO(count << " words, " << skipped << " skipped");
      CHECK(drawing.Fingerprint(words, skipped, kSeed) ==
            FingerprintOnHost(std::span(words).subspan(skipped), kSeed));
    }
  }
}

}  // namespace
}  // namespace kernelcast::worker
