// A problem with typed axes, expression arguments, a tolerance by shape, and skewed, quantised and
// file inputs, from its folder to a verdict; and uninitialised memory on the cpu.

#include <catch2/catch.hpp>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/clock.h"
#include "common/domain/problem.h"
#include "services/worker/cpu/peaks.h"
#include "services/worker/lease/timing_lease.h"
#include "tests/integration/worker/cpu_fixture.h"
#if defined(KERNELCAST_HAS_CUDA)
#include "services/worker/cuda/target/cuda_target.h"
#endif

namespace kernelcast::testing::formats_test {
namespace {

constexpr const char* kFolder = "tests/candidates/skewed_lookup";

CpuFixture& Shared() {
  static CpuFixture fixture(kFolder);
  return fixture;
}

std::string Reference() { return SourceFile(absl::StrCat(kFolder, "/reference.cc")); }

// The reference with `code` before its loops and `value` added to its output.
std::string Planted(const std::string& code, const std::string& value) {
  return absl::StrReplaceAll(Reference(),
                             {{"  for (int64_t i = 0;", code + "  for (int64_t i = 0;"},
                              {"weight[i];", "weight[i] + " + value + ";"}});
}

TEST_CASE("A problem in every new format is measured on the cpu") {
  const Measurement measurement =
      Shared().Measure(Shared().MakeCandidate(Reference(), {"-funroll-loops"}));
  INFO(MeasurementFeedback(measurement));
  // The machine may be too noisy for a figure; the checks passed in either case.
  if (const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome)) {
    CHECK(ok->correctness_cases >= 10);
    REQUIRE(ok->shapes[0].roofline.has_value());
    CHECK(ok->shapes[0].roofline->time_ns > 0);
    CHECK(ok->shapes[0].roofline->score >= 0);
    CHECK(ok->shapes[0].roofline->score <= 1);
    CHECK(ok->shapes[0].implausible_below_ns < ok->shapes[0].roofline->time_ns);
  } else {
    CHECK(std::holds_alternative<EnvironmentUnstable>(measurement.outcome));
  }
}

TEST_CASE("A core's peaks are measured when the target starts") {
  const std::vector<DevicePeak> peaks = Shared().target().Describe().peaks;
  REQUIRE(peaks.size() == 5);
  for (const DevicePeak& peak : peaks) {
    CAPTURE(peak.name, peak.detail, peak.per_second);
    CHECK(peak.per_second > 1e8);
    CHECK(peak.per_second < 1e13);
    CHECK(peak.source == PeakSource::kMeasured);
    CHECK_FALSE(peak.detail.empty());
  }
  CHECK(peaks[0].name == "memory");
  CHECK(peaks[2].working_set_bytes == 0);
  CHECK(peaks[3].name == "float32");
}

TEST_CASE("Measuring a core's peaks waits for the timing lease") {
  const TemporaryFolder folder("peaks");
  const auto ours = worker::TimingLease::Open(folder.File("lease")).value();
  const auto others = worker::TimingLease::Open(folder.File("lease")).value();
  using worker::CancelToken;
  const auto measure = [&](const CancelToken& cancel) {
    return worker::MeasureCpuPeaks({}, {}, worker::Placement::Choose(), *ours, cancel).status();
  };
  {
    const auto held = others->Acquire(CancelToken()).value();
    CHECK(absl::IsDeadlineExceeded(measure(CancelToken(Clock::Real().MonotonicNs() + 1))));
  }
  // Nothing to run.
  CHECK(absl::IsUnavailable(measure(CancelToken())));
}

TEST_CASE("A candidate that reads uninitialised memory is wrong on the cpu") {
  for (const auto& [what, source] :
       {std::pair{"stack",
                  Planted("  volatile float stack[256]; float unset = stack[13];\n", "unset")},
        std::pair{"heap",
                  Planted("  volatile float* block = (volatile float*)__builtin_malloc(400);"
                          " float unset = block[50]; __builtin_free((void*)block);\n",
                          "unset")},
        // 0 times a finite number changes nothing; only NaN shows it.
        std::pair{
            "stack, finite",
            Planted("  volatile float stack[256]; float unset = stack[13];\n", "0.0f * unset")}}) {
    const Measurement measurement = Shared().Measure(Shared().MakeCandidate(source));
    const std::string text = MeasurementFeedback(measurement);
    CAPTURE(what, text);
    CHECK(std::holds_alternative<WrongResult>(measurement.outcome));
  }
}

TEST_CASE("A crash names the stage and the case on the cpu") {
  const Measurement measurement =
      Shared().Measure(Shared().MakeCandidate(Planted("  if (n == 123) __builtin_trap();\n", "0")));
  INFO(MeasurementFeedback(measurement));
  REQUIRE(std::holds_alternative<Crash>(measurement.outcome));
  const auto& crash = std::get<Crash>(measurement.outcome);
  CHECK(crash.stage == "check");
  CHECK(crash.shape == AxisValues{{"dim", 33}, {"n", 123}, {"rows", 61}});
  CHECK(crash.distribution == "declared");
}

TEST_CASE("A timeout names the stage and the case on the cpu") {
  const Measurement measurement = Shared().Measure(
      Shared().MakeCandidate(Planted("  volatile int on = n == 50; while (on) {}\n", "0")));
  INFO(MeasurementFeedback(measurement));
  REQUIRE(std::holds_alternative<Timeout>(measurement.outcome));
  CHECK(std::get<Timeout>(measurement.outcome).shape ==
        AxisValues{{"dim", 7}, {"n", 50}, {"rows", 9}});
}

#if defined(KERNELCAST_HAS_CUDA)
TEST_CASE("Launches are checked against kernel parameters at compile time") {
  const TemporaryFolder folder("formats");
  worker::CudaTargetOptions options;
  options.program_folder = ProgramFolder();
  options.cache_directory = folder.path().string();
  options.cuda_home = KERNELCAST_CUDA_HOME;
  options.untrusted_uid = 65534;
  const auto target = worker::CudaTarget::Make(std::move(options));
  INFO(target.status());
  REQUIRE(target.ok());
  INFO((*target)->Describe().unavailable_reason);
  REQUIRE((*target)->Describe().can_compile);
  const Problem problem = LoadProblem(kFolder);
  const worker::CancelToken cancel;
  const auto reference = (*target)->Compile({problem}, cancel);
  INFO(reference.status());
  REQUIRE(reference.ok());
  if (const auto* error = std::get_if<CompileError>(&reference->result)) FAIL(error->log);

  const auto refused = [&](const std::vector<std::string>& arguments) {
    Candidate candidate = ReferenceCandidate(problem, "cuda").value();
    candidate.launches[0].arguments = arguments;
    candidate.candidate_id = CandidateId(candidate);
    const auto compiled = (*target)->Compile({problem, &candidate}, cancel);
    REQUIRE(compiled.ok());
    const auto* error = std::get_if<CompileError>(&compiled->result);
    if (error == nullptr) return std::string();
    CHECK(error->stage == CompileStage::kAdmission);
    return error->log;
  };
  // The same types in another notation.
  CHECK(refused({"table", "index", "scale", "weight", "out", "n:int32", "dim:uint32"}).empty());
  CHECK(refused({"table", "index", "scale", "weight", "out", "n"}) ==
        "launches[0].arguments: kernel 'scaled_lookup' takes 7 arguments, and the launch has 6");
  CHECK(refused({"table", "index", "scale", "weight", "out", "n:int64", "dim"}) ==
        "launches[0].arguments: kernel 'scaled_lookup': argument 6 is 'n:int64' (int64, 8 bytes), "
        "and the kernel takes a whole number of 4 bytes; write 'n:int32' for that type");
  CHECK(refused({"table", "index", "scale", "weight", "out", "n", "dim:float"}) ==
        "launches[0].arguments: kernel 'scaled_lookup': argument 7 is 'dim:float' (float32, 4 "
        "bytes), and the kernel takes a whole number of 4 bytes; write 'dim:int32' for that type");
}
#endif

}  // namespace
}  // namespace kernelcast::testing::formats_test
