#include "services/worker/cuda/target/cuda_measurer.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/cuda/fake_kernels.h"
#include "tests/unit/services/worker/cuda/judge/judge_fixture.h"

namespace kernelcast::worker {
namespace {

using testing::FakeCuda;
using testing::kMapOracle;
using testing::kMapReference;
using testing::MapProblem;
using testing::MapProgram;
using Effect = FakeCuda::Effect;

constexpr const char* kGood = "scale=2 add=1 ns=50000 jitter=0.01";

class Subject {
 public:
  explicit Subject(CudaMeasurerOptions options = {},
                   std::vector<std::string> runner_arguments = {}) {
    FakeCuda::Instance().Reset();
    options.measure = testing::QuickOptions();
    options.measure.candidates_a_pool = candidates_a_pool;
    options.runner = testing::FakeRunner(std::move(runner_arguments));
    measurer = std::make_unique<CudaMeasurer>(FakeCuda::Api(), monitor_, options, clock_);
  }
  ~Subject() {
    measurer.reset();
    CHECK(FakeCuda::Instance().Held().empty());
    CHECK(FakeCuda::Instance().misuse().empty());
  }
  absl::StatusOr<MeasureOutcome> Measure(const Problem& problem, const std::string& candidate,
                                         const std::string& oracle = kMapOracle) {
    return measurer->Measure(problem,
                             {testing::FakeJudgeCubin(), MapProgram(kMapReference),
                              MapProgram(oracle), MapProgram(candidate)},
                             MeasureLevel::kScreen, cancel);
  }
  absl::StatusOr<Profile> ProfileAs(const Problem& problem, const std::string& candidate) {
    return measurer->ProfileCandidate(problem,
                                      {testing::FakeJudgeCubin(), MapProgram(kMapReference),
                                       MapProgram(kMapOracle), MapProgram(candidate)},
                                      cancel);
  }
  // What keeps the profiler from its work, which must not be an error.
  std::string WhyNoProfile(const Problem& problem, const std::string& candidate = kGood) {
    const auto profile = ProfileAs(problem, candidate);
    INFO(profile.status().ToString());
    REQUIRE(profile.ok());
    return profile->unavailable_reason;
  }
  void CheckGood(const Problem& problem) {
    const auto outcome = Measure(problem, kGood);
    INFO(outcome.status().ToString());
    REQUIRE(outcome.ok());
    REQUIRE(std::holds_alternative<MeasuredOk>(*outcome));
    CHECK(std::get<MeasuredOk>(*outcome).speedup.value == Approx(2).epsilon(0.01));
  }

  static constexpr int candidates_a_pool = 3;
  CancelToken cancel;
  std::unique_ptr<CudaMeasurer> measurer;

 private:
  testing::TickingClock clock_;
  DeviceMonitor monitor_{nullptr, "GPU-1", clock_};
};

// Each prepared problem has five arenas.
int Prepared() { return FakeCuda::Instance().calls("MemCreate") / 5; }

TEST_CASE("A problem is prepared once, and anew when its inputs have served enough candidates") {
  Subject subject;
  const Problem problem = MapProblem();
  for (int i = 0; i < Subject::candidates_a_pool; ++i) subject.CheckGood(problem);
  CHECK(Prepared() == 1);
  subject.CheckGood(problem);
  CHECK(Prepared() == 2);
}

TEST_CASE("Problems that come in turn are kept, as many as there may be") {
  Subject subject;
  const Problem first = MapProblem("first");
  const Problem second = MapProblem("second");
  subject.CheckGood(first);
  subject.CheckGood(second);
  subject.CheckGood(first);
  subject.CheckGood(second);
  CHECK(Prepared() == 2);
  subject.CheckGood(MapProblem("third"));
  CHECK(Prepared() == 3);
  subject.CheckGood(second);
  CHECK(Prepared() == 3);
  subject.CheckGood(first);
  CHECK(Prepared() == 4);
}

TEST_CASE("Candidates may come from one thread and then from another") {
  Subject subject;
  subject.CheckGood(MapProblem());
  // Checks of another thread are not Catch's to make.
  bool ok = false;
  const Problem problem = MapProblem();
  std::thread([&] { ok = subject.Measure(problem, kGood).ok(); }).join();
  CHECK(ok);
  subject.CheckGood(MapProblem("second"));
}

TEST_CASE("A runner is replaced after so many candidates, and the problem stays") {
  CudaMeasurerOptions options;
  options.candidates_per_runner = 1;
  Subject subject(options);
  subject.CheckGood(MapProblem());
  subject.CheckGood(MapProblem());
  CHECK(Prepared() == 1);
}

// A program that stands for the runner the first time it is started as `first` says, and then as
// it should be.
class OnceBad {
 public:
  explicit OnceBad(const std::string& first) {
    folder_ =
        std::filesystem::temp_directory_path() / absl::StrCat("kernelcast-once-bad-", getpid());
    std::filesystem::create_directory(folder_);
    const std::string mark = (folder_ / "started").string();
    std::ofstream script(path());
    script << "#!/bin/sh\nif [ -e '" << mark << "' ]; then exec '" << testing::FakeRunner().path
           << "'; fi\n: > '" << mark << "'\nexec '" << testing::FakeRunner().path << "' " << first
           << "\n";
    script.close();
    std::filesystem::permissions(path(), std::filesystem::perms::owner_all);
  }
  ~OnceBad() { std::filesystem::remove_all(folder_); }
  std::string path() const { return (folder_ / "runner").string(); }

 private:
  std::filesystem::path folder_;
};

TEST_CASE("A runner that dies is made anew without a word, whatever it was doing") {
  const std::string when = GENERATE(as<std::string>(), "EventCreate:1", "MemSetAccess:2",
                                    "LaunchKernelEx:4", "CtxResetPersistingL2Cache:2");
  INFO(when);
  const OnceBad bad("--inject=" + when + ":exit");
  FakeCuda::Instance().Reset();
  testing::TickingClock clock;
  DeviceMonitor monitor(nullptr, "", clock);
  CudaMeasurerOptions options;
  options.measure = testing::QuickOptions();
  options.runner.path = bad.path();
  CudaMeasurer measurer(FakeCuda::Api(), monitor, options, clock);
  const CudaPrograms programs{testing::FakeJudgeCubin(), MapProgram(kMapReference),
                              MapProgram(kMapOracle), MapProgram(kGood)};
  const CancelToken cancel;
  const auto outcome = measurer.Measure(MapProblem(), programs, MeasureLevel::kScreen, cancel);
  INFO(outcome.status().ToString());
  REQUIRE(outcome.ok());
  CHECK(std::holds_alternative<MeasuredOk>(*outcome));
}

TEST_CASE("A runner that always dies is UNAVAILABLE, and nobody's fault") {
  Subject subject({}, {"--inject=MemSetAccess:2:exit"});
  CHECK(absl::IsUnavailable(subject.Measure(MapProblem(), kGood).status()));
  CHECK(absl::IsUnavailable(subject.Measure(MapProblem(), kGood).status()));
}

TEST_CASE("A runner that cannot use the device is told at the start") {
  Subject subject({}, {"--inject=Init:1:fail:100"});
  CHECK(absl::IsUnavailable(subject.measurer->StartRunner(subject.cancel)));
}

TEST_CASE("An oracle that kills its context costs a runner and no more") {
  Subject subject;
  CHECK(absl::IsFailedPrecondition(
      subject.Measure(MapProblem(), kGood, absl::StrCat(kMapOracle, " fault=700")).status()));
  subject.CheckGood(MapProblem());
  CHECK(FakeCuda::Instance().calls("DevicePrimaryCtxRetain") == 1);
}

TEST_CASE("A context that is lost while a candidate is judged is made anew, and nobody's fault") {
  Subject subject;
  subject.CheckGood(MapProblem());
  const int before = FakeCuda::Instance().calls("LaunchKernel");
  // Before a comparison: of the preparations, none is left.
  FakeCuda::Instance().Inject("LaunchKernel", 20, Effect::kFailOnce, CUDA_ERROR_ECC_UNCORRECTABLE);
  subject.CheckGood(MapProblem());
  CHECK(FakeCuda::Instance().calls("DevicePrimaryCtxRetain") == 2);
  CHECK(FakeCuda::Instance().calls("LaunchKernel") > before + 20);
}

TEST_CASE("A context that is lost between candidates is made anew") {
  Subject subject;
  subject.CheckGood(MapProblem());
  FakeCuda::Instance().Inject("StreamSynchronize", 1, Effect::kFailOnce, CUDA_ERROR_LAUNCH_FAILED);
  subject.CheckGood(MapProblem());
  CHECK(FakeCuda::Instance().calls("DevicePrimaryCtxRetain") == 2);
}

TEST_CASE("A problem takes the room of those that are only kept") {
  Subject subject;
  subject.CheckGood(MapProblem("first"));
  // Room for one and a half.
  size_t free_bytes = 0;
  size_t total = 0;
  REQUIRE(FakeCuda::Api().MemGetInfo(&free_bytes, &total) == CUDA_SUCCESS);
  FakeCuda::Instance().set_memory_bytes((total - free_bytes) * 3 / 2);
  subject.CheckGood(MapProblem("second"));
  FakeCuda::Instance().set_memory_bytes((total - free_bytes) / 2);
  CHECK(absl::IsResourceExhausted(subject.Measure(MapProblem("third"), kGood).status()));
  FakeCuda::Instance().set_memory_bytes(total);
  subject.CheckGood(MapProblem("third"));
}

TEST_CASE("A measurement that nobody waits for any more ends, and harms no later one") {
  Subject subject;
  subject.CheckGood(MapProblem());
  CancelToken stopped;
  stopped.Cancel();
  const CudaPrograms programs{testing::FakeJudgeCubin(), MapProgram(kMapReference),
                              MapProgram(kMapOracle), MapProgram("hang=1")};
  CHECK(absl::IsCancelled(
      subject.measurer->Measure(MapProblem(), programs, MeasureLevel::kScreen, stopped).status()));
  const CancelToken late(1);
  CHECK(absl::IsDeadlineExceeded(
      subject.measurer->Measure(MapProblem("other"), programs, MeasureLevel::kFinal, late)
          .status()));
  subject.CheckGood(MapProblem());
  subject.CheckGood(MapProblem("other"));
}

#if defined(KERNELCAST_HAS_CUPTI_HEADERS)

CudaMeasurerOptions WithProfiler(const std::string& library) {
  CudaMeasurerOptions options;
  options.profile.cupti_library = library;
  return options;
}

TEST_CASE("A candidate is profiled in a process of its own, and the runner stays warm") {
  Subject subject(WithProfiler("good"));
  const Problem problem = MapProblem();
  subject.CheckGood(problem);
  const auto profile = subject.ProfileAs(problem, kGood);
  INFO(profile.status().ToString());
  REQUIRE(profile.ok());
  CHECK(profile->unavailable_reason.empty());
  REQUIRE(profile->shapes.size() == 1);
  CHECK(profile->shapes[0].kernels.size() == 1);
  CHECK(profile->shapes[0].counters.count("dram_read_bytes") == 1);
  CHECK(profile->device_time_ns > 0);
  subject.CheckGood(problem);
  CHECK(Prepared() == 1);
}

TEST_CASE("A candidate can be profiled first, and one of another problem in between") {
  Subject subject(WithProfiler("good"));
  CHECK(subject.WhyNoProfile(MapProblem("first")).empty());
  subject.CheckGood(MapProblem("second"));
  CHECK(subject.WhyNoProfile(MapProblem("first")).empty());
  CHECK(Prepared() == 2);
}

TEST_CASE("Whatever the profiler does, the profile says so and the next candidate is judged") {
  const auto [library, why] = GENERATE(Catch::Generators::table<std::string, std::string>(
      {{"", "libcupti, a part of NVIDIA's toolkit, is not found"},
       {"absent", "no such library"},
       {"RangeStart:fail:35", "ERR_NVGPUCTRPERM"},
       {"ActivityEnable:fail:39", "another profiler is at work"},
       {"RangeStart:exit", "the profiler failed at counting: it ended"},
       {"ActivityEnable:exit", "the profiler failed at tracing kernels: it ended"}}));
  CAPTURE(library, why);
  Subject subject(WithProfiler(library));
  const Problem problem = MapProblem();
  subject.CheckGood(problem);
  CHECK_THAT(subject.WhyNoProfile(problem), Catch::Contains(why));
  subject.CheckGood(problem);
  CHECK(Prepared() == 1);
}

TEST_CASE("A profiler that hangs costs its limit, and the counters only") {
  CudaMeasurerOptions options = WithProfiler("RangeStart:hang");
  // Of the ticking clock, and so of the real one in which the answer is waited for.
  options.profile.limit_ns = 200'000'000;
  Subject subject(options);
  const Problem problem = MapProblem();
  subject.CheckGood(problem);
  const auto profile = subject.ProfileAs(problem, kGood);
  REQUIRE(profile.ok());
  CHECK(profile->unavailable_reason ==
        "the profiler failed at counting: it did not answer in time");
  REQUIRE(profile->shapes.size() == 1);
  CHECK(profile->shapes[0].warm_activity_ns == Approx(50'000).epsilon(0.02));
  CHECK(profile->shapes[0].counters.empty());
  subject.CheckGood(problem);
}

TEST_CASE("A candidate that fails beside the profiler costs the profile only") {
  Subject subject(WithProfiler("good"));
  const Problem problem = MapProblem();
  subject.CheckGood(problem);
  CHECK_THAT(subject.WhyNoProfile(problem, "scale=2 add=1 ns=50000 fault=700 from=3"),
             Catch::Contains("CUDA error 700"));
  subject.CheckGood(problem);
}

TEST_CASE("A stopped token ends profiling with its status") {
  Subject subject(WithProfiler("good"));
  const Problem problem = MapProblem();
  subject.CheckGood(problem);
  subject.cancel.Cancel();
  CHECK(absl::IsCancelled(subject.ProfileAs(problem, kGood).status()));
}

#endif  // KERNELCAST_HAS_CUPTI_HEADERS

}  // namespace
}  // namespace kernelcast::worker
