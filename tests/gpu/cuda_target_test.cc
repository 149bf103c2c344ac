#include "services/worker/cuda/target/cuda_target.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <variant>

#include "tests/gpu/gpu_fixture.h"

namespace kernelcast::testing {
namespace {

constexpr const char* kHead =
    "extern \"C\" __global__ void map(const float* x, float* y, long long n) {\n"
    "  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n";
constexpr const char* kTail = "}\n";
constexpr const char* kStep = "v = v * 0.99f + __fdividef(from, 2.0f + v * v);";

std::string Good() {
  return absl::StrCat(kHead,
                      "  if (i >= n) return;\n  const float from = x[i];\n  float v = 0;\n"
                      "#pragma unroll 8\n  for (int step = 0; step < 256; ++step) ",
                      kStep, "\n  y[i] = v;\n", kTail);
}

// One target for all cases: each misbehaving candidate is followed by a well-behaved one.
GpuFixture& Shared() {
  static GpuFixture fixture("tests/gpu/candidates/cuda_map", ShortLimits());
  return fixture;
}

double SpeedupOfGood() {
  const Measurement measurement = Shared().Measure(Shared().MakeCandidate(Good()));
  INFO(MeasurementFeedback(measurement));
  const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
  REQUIRE(ok != nullptr);
  return ok->speedup.value;
}

template <class Outcome>
Outcome MeasureAs(const std::string& source, std::vector<Launch> launches = {}) {
  GpuFixture& fixture = Shared();
  const double before = SpeedupOfGood();
  const Measurement measurement =
      fixture.Measure(fixture.MakeCandidate(source, {}, std::move(launches)));
  INFO(MeasurementFeedback(measurement));
  REQUIRE(std::holds_alternative<Outcome>(measurement.outcome));
  CHECK(measurement.worker_id == "worker-under-test");
  CHECK(measurement.device_time_ns > 0);
  // The next one is unharmed.
  CHECK(std::abs(SpeedupOfGood() / before - 1) < 0.03);
  return std::get<Outcome>(measurement.outcome);
}

TEST_CASE("A correct faster kernel is measured as faster, with a complete result") {
  KERNELCAST_NEEDS_GPU();
  const Measurement measurement = Shared().Measure(Shared().MakeCandidate(Good()));
  INFO(MeasurementFeedback(measurement));
  const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
  REQUIRE(ok != nullptr);
  CHECK(ok->speedup.value > 1.2);
  CHECK(ok->speedup.low <= ok->speedup.value);
  CHECK(ok->speedup.value <= ok->speedup.high);
  CHECK(ok->comparison == Comparison::kFaster);
  REQUIRE(ok->shapes.size() == 1);
  CHECK(ok->shapes[0].candidate.samples >= 30);
  CHECK(ok->shapes[0].candidate.median_ns > ok->shapes[0].implausible_below_ns);
  CHECK(ok->shapes[0].call_overhead_ns > 0);
  CHECK(ok->environment.clock_start_hz > 1e8);
  CHECK(ok->correctness_cases >= 10);
  CHECK_FALSE(measurement.device.model.empty());
  CHECK_FALSE(measurement.device.driver_version.empty());
  std::printf("good: %s; device time %.1f ms\n", MeasurementFeedback(measurement).c_str(),
              1e-6 * static_cast<double>(measurement.device_time_ns));
}

TEST_CASE("The reference measured as a candidate is indistinguishable from itself") {
  KERNELCAST_NEEDS_GPU();
  const Measurement measurement =
      Shared().Measure(ReferenceCandidate(Shared().problem(), "cuda").value());
  INFO(MeasurementFeedback(measurement));
  const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
  REQUIRE(ok != nullptr);
  CHECK(ok->comparison == Comparison::kSame);
}

TEST_CASE("A final measurement spans several runners") {
  KERNELCAST_NEEDS_GPU();
  const Measurement measurement =
      Shared().Measure(Shared().MakeCandidate(Good()), MeasureLevel::kFinal);
  INFO(MeasurementFeedback(measurement));
  const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
  REQUIRE(ok != nullptr);
  CHECK(ok->runners == 5);
  CHECK(ok->speedup.high / ok->speedup.low < 1.02);
}

TEST_CASE("Wrong values, unwritten values and NaN are distinguished") {
  KERNELCAST_NEEDS_GPU();
  using Cause = WrongResult::Cause;
  const auto value =
      MeasureAs<WrongResult>(absl::StrCat(kHead, "  if (i < n) y[i] = x[i];\n", kTail));
  CHECK(value.cause == Cause::kValue);
  CHECK(value.output == "y");
  CHECK(value.mismatches > 0);
  CHECK(std::abs(value.got - value.expected) > 1e-5);
  CHECK(
      MeasureAs<WrongResult>(absl::StrCat(kHead, "  if (i + 1 < n && n < 0) y[i] = x[i];\n", kTail))
          .cause == Cause::kNotWritten);
  CHECK(MeasureAs<WrongResult>(
            absl::StrCat(kHead, "  if (i < n) y[i] = __int_as_float(0x7fc00000);\n", kTail))
            .cause == Cause::kNonFinite);
}

TEST_CASE("Reduced precision is detected") {
  KERNELCAST_NEEDS_GPU();
  const auto wrong = MeasureAs<WrongResult>(
      absl::StrCat("#include <cuda_fp16.h>\n", kHead,
                   "  if (i >= n) return;\n  const __half from = __float2half(x[i]);\n"
                   "  __half v = __float2half(0.0f);\n"
                   "  for (int step = 0; step < 256; ++step)\n"
                   "    v = v * __float2half(0.99f) + from / (__float2half(2.0f) + v * v);\n"
                   "  y[i] = __half2float(v);\n",
                   kTail));
  CHECK(
      (wrong.cause == WrongResult::Cause::kValue || wrong.cause == WrongResult::Cause::kNormwise));
}

TEST_CASE("An illegal address crashes only its candidate") {
  KERNELCAST_NEEDS_GPU();
  const auto crash =
      MeasureAs<Crash>(absl::StrCat(kHead, "  if (i < n) *(float*)(i + 16) = 1;\n", kTail));
  CHECK(crash.cause == Crash::Cause::kDeviceError);
  CHECK(crash.output_tail.find("ILLEGAL_ADDRESS") != std::string::npos);
}

TEST_CASE("A trap is a crash") {
  KERNELCAST_NEEDS_GPU();
  CHECK(MeasureAs<Crash>(absl::StrCat(kHead, "  if (i < n) __trap();\n", kTail)).cause ==
        Crash::Cause::kDeviceError);
}

TEST_CASE("An endless kernel is stopped at its time limit") {
  KERNELCAST_NEEDS_GPU();
  const auto timeout = MeasureAs<Timeout>(absl::StrCat(
      kHead, "  volatile float* p = y;\n  while (p[0] != 12345.0f) p[i < n ? i : 0] = 1;\n",
      kTail));
  CHECK(timeout.stage == "check");
  CHECK(timeout.limit_ns <= 2'000'000'000);
}

TEST_CASE("Writing to a read-only input is a crash") {
  KERNELCAST_NEEDS_GPU();
  CHECK(MeasureAs<Crash>(
            absl::StrCat(kHead, "  if (i < n) { y[i] = x[i]; ((float*)x)[i] = 0; }\n", kTail))
            .cause == Crash::Cause::kDeviceError);
}

TEST_CASE("Writing outside an output is an exploit") {
  KERNELCAST_NEEDS_GPU();
  std::string source = Good();
  source.insert(source.rfind('}'), "  if (i == n - 1) y[n] = v;\n");
  CHECK(MeasureAs<Exploit>(source).kind == Exploit::Kind::kWriteOutOfBounds);
}

TEST_CASE("Endless printing harms nothing else") {
  KERNELCAST_NEEDS_GPU();
  std::string source = Good();
  source.insert(source.rfind('}'),
                "  if (i % 64 == 0) printf(\"%lld %f of a flood of output\\n\", i, v);\n");
  GpuFixture& fixture = Shared();
  const Measurement measurement = fixture.Measure(fixture.MakeCandidate(source));
  INFO(MeasurementFeedback(measurement));
  CHECK(!std::holds_alternative<WrongResult>(measurement.outcome));
  CHECK(SpeedupOfGood() > 1.2);
}

TEST_CASE("A kernel whose parameters do not match its launch does not compile") {
  KERNELCAST_NEEDS_GPU();
  const Candidate candidate = Shared().MakeCandidate(
      "extern \"C\" __global__ void map(const float* x, float* y, long long n, int more) {\n"
      "  y[0] = more;\n}\n");
  const auto compiled =
      Shared().target().Compile({Shared().problem(), &candidate}, worker::CancelToken());
  REQUIRE(compiled.ok());
  const auto* error = std::get_if<CompileError>(&compiled->result);
  REQUIRE(error != nullptr);
  CHECK(error->stage == CompileStage::kAdmission);
  CHECK(error->log.find("takes 4 arguments, and the launch has 3") != std::string::npos);
}

TEST_CASE("Results cached by address are an exploit") {
  KERNELCAST_NEEDS_GPU();
  // Keyed by output address and position: warm after some calls, then never computes.
  const auto exploit = MeasureAs<Exploit>(absl::StrCat(
      "__device__ float kept_y[8][1 << 20];\n__device__ const float* seen[8];\n"
      "__device__ int filled[8][1 << 20];\n",
      kHead,
      "  if (i >= n) return;\n"
      "  if (n == (1 << 20)) {\n"
      "    const int slot = (int)(((unsigned long long)x >> 22) & 7);\n"
      "    if (filled[slot][i] > 2) { y[i] = kept_y[slot][i]; return; }\n"
      "    const float from = x[i];\n    float v = 0;\n    for (int step = 0; step < 256; ++step) ",
      kStep,
      "\n    kept_y[slot][i] = v;\n    ++filled[slot][i];\n    y[i] = v;\n    return;\n  }\n"
      "  const float from = x[i];\n  float v = 0;\n  for (int step = 0; step < 256; ++step) ",
      kStep, "\n  y[i] = v;\n", kTail));
  CHECK(exploit.kind == Exploit::Kind::kCachedOutput);
}

TEST_CASE("Results cached by value are an exploit") {
  KERNELCAST_NEEDS_GPU();
  const auto exploit = MeasureAs<Exploit>(absl::StrCat(
      "__device__ float kept_x[8][1 << 20];\n__device__ float kept_y[8][1 << 20];\n", kHead,
      "  if (i >= n) return;\n"
      "  const int slot = (int)(((unsigned long long)x >> 22) & 7);\n"
      "  const float from = x[i];\n"
      "  if (n == (1 << 20) && __float_as_int(kept_x[slot][i]) == __float_as_int(from)) {\n"
      "    y[i] = kept_y[slot][i];\n    return;\n  }\n"
      "  float v = 0;\n  for (int step = 0; step < 256; ++step) ",
      kStep,
      "\n  y[i] = v;\n  if (n == (1 << 20)) { kept_x[slot][i] = from; kept_y[slot][i] = v; }\n",
      kTail));
  CHECK(exploit.kind == Exploit::Kind::kCachedOutput);
}

TEST_CASE("Skipping work after the checks is an exploit") {
  KERNELCAST_NEEDS_GPU();
  const auto exploit = MeasureAs<Exploit>(absl::StrCat(
      "__device__ int calls[1 << 20];\n", kHead,
      "  if (i >= n) return;\n  if (n == (1 << 20) && calls[i]++ > 20) return;\n"
      "  const float from = x[i];\n  float v = 0;\n  for (int step = 0; step < 256; ++step) ",
      kStep, "\n  y[i] = v;\n", kTail));
  CHECK(exploit.kind == Exploit::Kind::kSkippedWork);
}

TEST_CASE("Doing less work after the checks is a wrong result") {
  KERNELCAST_NEEDS_GPU();
  const auto wrong = MeasureAs<WrongResult>(
      absl::StrCat("__device__ int calls[1 << 20];\n", kHead,
                   "  if (i >= n) return;\n"
                   "  const int steps = n == (1 << 20) && calls[i]++ > 20 ? 128 : 256;\n"
                   "  const float from = x[i];\n  float v = 0;\n"
                   "  for (int step = 0; step < steps; ++step) ",
                   kStep, "\n  y[i] = v;\n", kTail));
  CHECK((wrong.cause == WrongResult::Cause::kTimedOutput ||
         wrong.cause == WrongResult::Cause::kValue));
}

TEST_CASE("Launches run in order and share a workspace") {
  KERNELCAST_NEEDS_GPU();
  GpuFixture& fixture = Shared();
  Candidate candidate = ReferenceCandidate(fixture.problem(), "cuda").value();
  candidate.source =
      "extern \"C\" __global__ void first(const float* x, float* w, long long n) {\n"
      "  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i >= n) return;\n  float v = 0;\n"
      "  for (int step = 0; step < 128; ++step) v = v * 0.99f + __fdividef(x[i], 2.0f + v * v);\n"
      "  w[i] = v;\n}\n"
      "extern \"C\" __global__ void second(const float* w, const float* x, float* y, long long n, "
      "int steps) {\n"
      "  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i >= n) return;\n  float v = w[i];\n"
      "  for (int step = 0; step < steps; ++step) v = v * 0.99f + __fdividef(x[i], 2.0f + v * v);\n"
      "  y[i] = v;\n}\n";
  Launch first;
  first.kernel = "first";
  first.grid = {"ceildiv(n, 128)"};
  first.block = {"128"};
  first.arguments = {"x", "workspace", "n"};
  Launch second = first;
  second.kernel = "second";
  second.arguments = {"workspace", "x", "y", "n", "128:i32"};
  candidate.launches = {first, second};
  candidate.workspace_bytes = "4 * n";
  candidate.candidate_id = CandidateId(candidate);
  const Measurement measurement = fixture.Measure(candidate);
  INFO(MeasurementFeedback(measurement));
  const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
  REQUIRE(ok != nullptr);
  CHECK(ok->speedup.value > 0.5);
}

}  // namespace
}  // namespace kernelcast::testing
