#include "services/worker/cuda/judge/profile.h"

#include <catch2/catch.hpp>
#include <string>

#include "services/worker/cuda/runner/profile_report.h"
#include "tests/fakes/cuda/fake_cupti.h"
#include "tests/fakes/cuda/fake_kernels.h"
#include "tests/unit/services/worker/cuda/judge/judge_fixture.h"

#if defined(KERNELCAST_HAS_CUPTI_HEADERS)

namespace kernelcast::worker {
namespace {

using testing::FakeJudge;
using testing::MapProblem;
using testing::MapProgram;

// A candidate of the map, profiled by a runner that uses `library` as libcupti.
class Subject {
 public:
  explicit Subject(const std::string& library) {
    options.cupti_library = library;
    runner_ = judge_.StartRunner({"--profile=" + library});
    auto prepared = judge_.Prepare(MapProblem(), *runner_);
    INFO(prepared.status().ToString());
    REQUIRE(prepared.ok());
    prepared_ = *std::move(prepared);
  }
  Profile Run(const CudaProgram& candidate) {
    auto profile = ProfileCuda(*prepared_, candidate, *runner_, options, judge_.cancel);
    INFO(profile.status().ToString());
    REQUIRE(profile.ok());
    return *std::move(profile);
  }
  CudaRunner& runner() { return *runner_; }

  CudaProfileOptions options;

 private:
  FakeJudge judge_;
  std::unique_ptr<CudaRunner> runner_;
  std::unique_ptr<CudaPreparedProblem> prepared_;
};

// The map in two kernels; the first is launched twice.
CudaProgram TwoKernels() {
  CudaProgram program = MapProgram("");
  program.cubin = testing::FakeCubin(
      {"first affine scale=2 add=1 ns=10000", "map affine scale=2 add=1 ns=60000"});
  Launch first = program.launches[0];
  first.kernel = "first";
  program.launches = {first, first, program.launches[0]};
  return program;
}

TEST_CASE("A profile has kernels, warm times from two clocks, and counters") {
  Subject subject("good");
  const Profile profile = subject.Run(MapProgram("scale=2 add=1 ns=50000"));
  CHECK(profile.unavailable_reason.empty());
  REQUIRE(profile.shapes.size() == 1);
  const ShapeProfile& shape = profile.shapes[0];
  CHECK(shape.warm_event_ns == Approx(50'000).epsilon(0.001));
  CHECK(shape.warm_activity_ns == 50'000);
  REQUIRE(shape.kernels.size() == 1);
  CHECK(shape.kernels[0].name == "map");
  CHECK(shape.kernels[0].launches == 1);
  CHECK(shape.kernels[0].median_ns == 50'000);
  CHECK(shape.kernels[0].registers == testing::FakeCupti::kRegisters);
  CHECK(shape.kernels[0].static_shared_bytes == testing::FakeCupti::kStaticSharedBytes);
  CHECK(shape.missing_counters.empty());
  CHECK(shape.counters.size() == cuda_runner::kCounterMetrics.size());
  CHECK(shape.counters.at("kernel_ns") == 50'000);
  // The fake's metrics are 1, and some are percentages.
  CHECK(shape.counters.at("dram_read_bytes") == 1);
  CHECK(shape.counters.at("achieved_occupancy_ratio") == Approx(0.01));
  REQUIRE_FALSE(shape.stall_reasons.empty());
  CHECK(shape.stall_reasons[0].share == 1);
}

TEST_CASE("For several kernels counts are added and ratios weighted by time") {
  Subject subject("good");
  const Profile profile = subject.Run(TwoKernels());
  CHECK(profile.unavailable_reason.empty());
  REQUIRE(profile.shapes.size() == 1);
  const ShapeProfile& shape = profile.shapes[0];
  REQUIRE(shape.kernels.size() == 2);
  CHECK(shape.kernels[0].name == "first");
  CHECK(shape.kernels[0].launches == 2);
  CHECK(shape.kernels[0].median_ns == 10'000);
  CHECK(shape.kernels[1].name == "map");
  CHECK(shape.kernels[1].launches == 1);
  CHECK(shape.warm_activity_ns == 80'000);
  CHECK(shape.counters.at("kernel_ns") == 80'000);
  CHECK(shape.counters.at("dram_written_bytes") == 3);
  CHECK(shape.counters.at("l2_hit_ratio") == Approx(0.01));
}

TEST_CASE("Without permission for counters the profile has kernels and the reason") {
  Subject subject("RangeStart:fail:35");
  const Profile profile = subject.Run(MapProgram("scale=2 add=1 ns=50000"));
  CHECK_THAT(profile.unavailable_reason, Catch::Contains("ERR_NVGPUCTRPERM"));
  REQUIRE(profile.shapes.size() == 1);
  CHECK(profile.shapes[0].kernels.size() == 1);
  CHECK(profile.shapes[0].counters.empty());
  CHECK(subject.runner().alive());
}

TEST_CASE("A runner started without profiling refuses to profile") {
  FakeJudge judge;
  const auto runner = judge.StartRunner();
  const auto prepared = judge.Prepare(MapProblem(), *runner);
  REQUIRE(prepared.ok());
  const auto profile =
      ProfileCuda(**prepared, MapProgram("scale=2 add=1 ns=50000"), *runner, {}, judge.cancel);
  REQUIRE(profile.ok());
  CHECK(profile->unavailable_reason == "the profiler failed at tracing kernels: kTrace");
  CHECK(runner->alive());
}

TEST_CASE("Invalid profiling requests are refused") {
  Subject subject("good");
  CudaRunner& runner = subject.runner();
  const CancelToken cancel;
  cuda_runner::TraceReport trace;
  cuda_runner::CountReport count;
  const auto refused = [](const absl::StatusOr<CudaRunner::Answer>& answer) {
    return answer.ok() && answer->end == CudaRunner::End::kFailed &&
           answer->reply.failure == cuda_runner::Failure::kRequest;
  };
  constexpr int64_t kLimitNs = 10'000'000'000;
  CHECK(refused(runner.Trace({cuda_runner::kCandidate, 0}, 1, trace, kLimitNs, cancel)));
  CHECK(refused(runner.Trace({cuda_runner::kReference, 0}, 0, trace, kLimitNs, cancel)));
  CHECK(refused(runner.Trace({7, 0}, 1, trace, kLimitNs, cancel)));
  CHECK(refused(runner.Count({}, {}, count, kLimitNs, cancel)));
  const cuda_runner::SampleRecord nowhere{cuda_runner::kCandidate, 0, 0, 0};
  CHECK(refused(runner.Count({&nowhere, 1}, {}, count, kLimitNs, cancel)));
  const cuda_runner::SampleRecord reference{cuda_runner::kReference, 0, 0, 0};
  const cuda_runner::PoisonRecord beyond{CudaPreparedProblem::kReferenceOutputs, 0,
                                         uint64_t{1} << 50, 4};
  CHECK(refused(runner.Count({&reference, 1}, {&beyond, 1}, count, kLimitNs, cancel)));
  // The runner still works.
  const auto good = runner.Trace({cuda_runner::kReference, 0}, 3, trace, kLimitNs, cancel);
  REQUIRE(good.ok());
  CHECK(good->ok());
  CHECK(trace.kernels == 1);
  CHECK(trace.kernel[0].launches == 1);
}

}  // namespace
}  // namespace kernelcast::worker

#endif  // KERNELCAST_HAS_CUPTI_HEADERS
