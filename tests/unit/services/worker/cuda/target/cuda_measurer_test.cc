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
#include "tests/support/sanitized.h"
#include "tests/unit/services/worker/cuda/judge/judge_fixture.h"

namespace kernelcast::worker::cuda_measurer_test {
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
    // Arenas begin at random offsets of up to 1 MiB; fixed offsets make every problem use the same
    // memory.
    options.key = [] { return SecretKey{7}; };
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
                             {testing::FakeJudgeCubins(), MapProgram(kMapReference),
                              MapProgram(oracle), MapProgram(candidate)},
                             MeasureLevel::kScreen, cancel);
  }
  absl::StatusOr<Profile> ProfileAs(const Problem& problem, const std::string& candidate) {
    return measurer->ProfileCandidate(problem,
                                      {testing::FakeJudgeCubins(), MapProgram(kMapReference),
                                       MapProgram(kMapOracle), MapProgram(candidate)},
                                      cancel);
  }
  // The reason why profiling failed, which must not be an error.
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

uint64_t HeldBytes() {
  size_t free_bytes = 0;
  size_t total = 0;
  REQUIRE(FakeCuda::Api().MemGetInfo(&free_bytes, &total) == CUDA_SUCCESS);
  return total - free_bytes;
}

// Each prepared problem has five arenas.
int Prepared() { return FakeCuda::Instance().calls("MemCreate") / 5; }

TEST_CASE("A problem is prepared once, and again after its inputs have served enough candidates") {
  Subject subject;
  const Problem problem = MapProblem();
  for (int i = 0; i < Subject::candidates_a_pool; ++i) subject.CheckGood(problem);
  CHECK(Prepared() == 1);
  subject.CheckGood(problem);
  CHECK(Prepared() == 2);
}

TEST_CASE("Alternating problems are kept as long as the reserved memory suffices") {
  CudaMeasurerOptions options;
  FakeCuda::Instance().Reset();
  {
    Subject alone;
    alone.CheckGood(MapProblem());
    // Room for two and a half; other memory is much less than the half.
    options.prepared_bytes = HeldBytes() * 5 / 2;
  }
  Subject subject(options);
  const auto prepares = [&](const char* name) {
    const int before = FakeCuda::Instance().calls("MemCreate");
    subject.CheckGood(MapProblem(name));
    return FakeCuda::Instance().calls("MemCreate") > before;
  };
  CHECK(prepares("first"));
  CHECK(prepares("second"));
  CHECK_FALSE(prepares("first"));
  CHECK_FALSE(prepares("second"));
  CHECK(prepares("third"));
  CHECK_FALSE(prepares("second"));
  CHECK_FALSE(prepares("third"));
  CHECK(prepares("first"));
}

TEST_CASE("Many small problems are kept where there is memory") {
  Subject subject;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 6; ++i) subject.CheckGood(MapProblem(absl::StrCat("problem", i)));
  }
  CHECK(Prepared() == 6);
}

TEST_CASE("A candidate's workspace evicts idle problems") {
  Subject subject;
  subject.CheckGood(MapProblem("first"));
  subject.CheckGood(MapProblem("second"));
  FakeCuda::Instance().set_memory_bytes(HeldBytes() + (64 << 10));
  CudaProgram large = MapProgram(kGood);
  large.workspace_bytes = "262144";
  const auto measure = [&](const std::string& problem) {
    const auto outcome = subject.measurer->Measure(
        MapProblem(problem),
        {testing::FakeJudgeCubins(), MapProgram(kMapReference), MapProgram(kMapOracle), large},
        MeasureLevel::kScreen, subject.cancel);
    INFO(outcome.status().ToString());
    REQUIRE(outcome.ok());
    return OutcomeName(*outcome);
  };
  CHECK(measure("second") == "ok");
  // Now nothing can be evicted for it.
  FakeCuda::Instance().set_memory_bytes(HeldBytes() + (4 << 20));
  large.workspace_bytes = "16777216";
  CHECK(measure("second") == "crash");
}

TEST_CASE("Candidates may come from different threads in turn") {
  Subject subject;
  subject.CheckGood(MapProblem());
  // Catch's assertions are not allowed on another thread.
  bool ok = false;
  const Problem problem = MapProblem();
  std::thread([&] { ok = subject.Measure(problem, kGood).ok(); }).join();
  CHECK(ok);
  subject.CheckGood(MapProblem("second"));
}

TEST_CASE("A runner is replaced after a fixed number of candidates and the problem stays") {
  CudaMeasurerOptions options;
  options.candidates_per_runner = 1;
  Subject subject(options);
  subject.CheckGood(MapProblem());
  subject.CheckGood(MapProblem());
  CHECK(Prepared() == 1);
}

// A program that replaces the runner: the first start behaves as `first` says, later ones are
// normal.
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

TEST_CASE("A runner that dies is replaced silently whatever it was doing") {
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
  const CudaPrograms programs{testing::FakeJudgeCubins(), MapProgram(kMapReference),
                              MapProgram(kMapOracle), MapProgram(kGood)};
  const CancelToken cancel;
  const auto outcome = measurer.Measure(MapProblem(), programs, MeasureLevel::kScreen, cancel);
  INFO(outcome.status().ToString());
  REQUIRE(outcome.ok());
  CHECK(std::holds_alternative<MeasuredOk>(*outcome));
}

TEST_CASE("After a candidate ends its runner, another is ready and one more is starting") {
  // Every start of a runner writes a line.
  const std::string log = absl::StrCat("/tmp/kernelcast-starts-", getpid());
  const std::string script = absl::StrCat(log, ".sh");
  std::ofstream(script) << "#!/bin/sh\necho start >> " << log << "\nexec '"
                        << testing::FakeRunner().path << "'\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const auto starts = [&] {
    std::ifstream in(log);
    size_t count = 0;
    for (std::string line; std::getline(in, line);) ++count;
    return count;
  };
  FakeCuda::Instance().Reset();
  {
    testing::TickingClock clock;
    DeviceMonitor monitor(nullptr, "", clock);
    CudaMeasurerOptions options;
    options.measure = testing::QuickOptions();
    options.runner.path = script;
    CudaMeasurer measurer(FakeCuda::Api(), monitor, options, clock);
    const CancelToken cancel;
    measurer.BeginRunners();
    REQUIRE(measurer.StartRunner(cancel).ok());
    const auto measure = [&](const std::string& candidate) {
      return measurer.Measure(MapProblem(),
                              {testing::FakeJudgeCubins(), MapProgram(kMapReference),
                               MapProgram(kMapOracle), MapProgram(candidate)},
                              MeasureLevel::kScreen, cancel);
    };
    for (int i = 0; i < 2; ++i) {
      const auto crash = measure("scale=2 add=1 fault=700");
      REQUIRE(crash.ok());
      CHECK(std::holds_alternative<Crash>(*crash));
      CHECK(std::holds_alternative<MeasuredOk>(*measure(kGood)));
    }
    // Two at the start, and one for each lost runner.
    CHECK(starts() <= 4);
    CHECK(starts() >= 3);
  }
  std::filesystem::remove(log);
  std::filesystem::remove(script);
}

TEST_CASE("A device that creates no more contexts is distinguished from a failing candidate") {
  Subject subject;
  subject.CheckGood(MapProblem());
  CHECK(subject.measurer->CheckDevice(subject.cancel).ok());
  FakeCuda::Instance().Inject("DevicePrimaryCtxRetain", 1, Effect::kFail,
                              CUDA_ERROR_DEVICE_UNAVAILABLE);
  CHECK(absl::IsUnavailable(subject.Measure(MapProblem(), kGood).status()));
  CHECK(absl::IsUnavailable(subject.measurer->CheckDevice(subject.cancel)));
  FakeCuda::Instance().Inject("DevicePrimaryCtxRetain", 1 << 20, Effect::kFail);
  CHECK(subject.measurer->CheckDevice(subject.cancel).ok());
  subject.CheckGood(MapProblem());
}

TEST_CASE("A runner that always dies is UNAVAILABLE and not the candidate's fault") {
  Subject subject({}, {"--inject=MemSetAccess:2:exit"});
  CHECK(absl::IsUnavailable(subject.Measure(MapProblem(), kGood).status()));
  CHECK(absl::IsUnavailable(subject.Measure(MapProblem(), kGood).status()));
}

TEST_CASE("A runner that cannot use the device is reported at startup") {
  Subject subject({}, {"--inject=Init:1:fail:100"});
  CHECK(absl::IsUnavailable(subject.measurer->StartRunner(subject.cancel)));
}

TEST_CASE("An oracle that kills its context costs only a runner") {
  Subject subject;
  CHECK(absl::IsFailedPrecondition(
      subject.Measure(MapProblem(), kGood, absl::StrCat(kMapOracle, " fault=700")).status()));
  subject.CheckGood(MapProblem());
  CHECK(FakeCuda::Instance().calls("DevicePrimaryCtxRetain") == 1);
}

TEST_CASE("A context lost while judging is recreated and is not the candidate's fault") {
  Subject subject;
  subject.CheckGood(MapProblem());
  const int before = FakeCuda::Instance().calls("LaunchKernel");
  // Fails before a comparison: no launches of the preparation remain by then.
  FakeCuda::Instance().Inject("LaunchKernel", 20, Effect::kFailOnce, CUDA_ERROR_ECC_UNCORRECTABLE);
  subject.CheckGood(MapProblem());
  CHECK(FakeCuda::Instance().calls("DevicePrimaryCtxRetain") == 2);
  CHECK(FakeCuda::Instance().calls("LaunchKernel") > before + 20);
}

TEST_CASE("A context lost between candidates is recreated") {
  Subject subject;
  subject.CheckGood(MapProblem());
  FakeCuda::Instance().Inject("StreamSynchronize", 1, Effect::kFailOnce, CUDA_ERROR_LAUNCH_FAILED);
  subject.CheckGood(MapProblem());
  CHECK(FakeCuda::Instance().calls("DevicePrimaryCtxRetain") == 2);
}

TEST_CASE("A new problem evicts idle ones") {
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

TEST_CASE("A stream of many problems that do not fit together ends without a lack of memory") {
  Subject subject;
  subject.CheckGood(MapProblem("0"));
  const uint64_t one = HeldBytes();
  // Room for two, and for what candidates allocate.
  FakeCuda::Instance().set_memory_bytes(one * 5 / 2);
  for (int i = 1; i < 40; ++i) {
    CudaProgram candidate = MapProgram(kGood);
    // Some need a workspace of up to the size of a problem.
    if (i % 3 == 0) candidate.workspace_bytes = std::to_string(one / 4096 * 1024 * (1 + i % 4));
    const auto outcome = subject.measurer->Measure(
        MapProblem(std::to_string(i % 7 == 6 ? i - 1 : i)),
        {testing::FakeJudgeCubins(), MapProgram(kMapReference), MapProgram(kMapOracle), candidate},
        MeasureLevel::kScreen, subject.cancel);
    INFO(i << ": " << outcome.status());
    REQUIRE(outcome.ok());
    CHECK(OutcomeName(*outcome) == "ok");
  }
}

TEST_CASE("An allocation of the judge that fails once is no outcome") {
  for (const char* const function : {"MemCreate", "MemAlloc", "MemMap"}) {
    // Each call in turn, until there are no more.
    for (int nth = 1;; ++nth) {
      Subject subject;
      subject.CheckGood(MapProblem("idle"));
      const int before = FakeCuda::Instance().calls(function);
      FakeCuda::Instance().Inject(function, before + nth, Effect::kFailOnce,
                                  CUDA_ERROR_OUT_OF_MEMORY);
      INFO(function << " " << nth);
      subject.CheckGood(MapProblem("judged"));
      if (FakeCuda::Instance().calls(function) < before + nth) break;
    }
  }
}

TEST_CASE("Loaded processes end where a candidate lacks memory, and none are loaded meanwhile") {
  int dropped = 0;
  auto pauses = std::make_shared<int>(0);  // shared with what the measurer holds
  CudaMeasurerOptions options;
  options.drop_other_work = [&](int64_t) -> std::shared_ptr<void> {
    ++dropped;
    ++*pauses;
    return {pauses.get(), [](int* count) { --*count; }};
  };
  Subject subject(options);
  subject.CheckGood(MapProblem());
  CHECK(dropped == 0);
  FakeCuda::Instance().set_memory_bytes(HeldBytes() + (4 << 20));
  CudaProgram large = MapProgram(kGood);
  large.workspace_bytes = "16777216";
  const auto outcome = subject.measurer->Measure(
      MapProblem(),
      {testing::FakeJudgeCubins(), MapProgram(kMapReference), MapProgram(kMapOracle), large},
      MeasureLevel::kScreen, subject.cancel);
  REQUIRE(outcome.ok());
  CHECK(std::get<Crash>(*outcome).cause == Crash::Cause::kMemoryLimit);
  CHECK(dropped == 1);
  CHECK(*pauses == 0);
}

TEST_CASE("An abandoned measurement ends and does not affect later ones") {
  Subject subject;
  subject.CheckGood(MapProblem());
  CancelToken stopped;
  stopped.Cancel();
  const CudaPrograms programs{testing::FakeJudgeCubins(), MapProgram(kMapReference),
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

TEST_CASE("A candidate is profiled in a separate process and the runner stays warm") {
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

TEST_CASE("A candidate may be profiled first and another problem may follow in between") {
  Subject subject(WithProfiler("good"));
  CHECK(subject.WhyNoProfile(MapProblem("first")).empty());
  subject.CheckGood(MapProblem("second"));
  CHECK(subject.WhyNoProfile(MapProblem("first")).empty());
  CHECK(Prepared() == 2);
}

TEST_CASE("Any profiler fault is reported in the profile and the next candidate is judged") {
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

TEST_CASE("A hanging profiler costs its time limit and only the counters") {
  CudaMeasurerOptions options = WithProfiler("RangeStart:hang");
  // On the ticking clock, and therefore on the real one used to wait for the answer.
  options.profile.limit_ns = testing::kSanitized ? 5'000'000'000 : 2'000'000'000;
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

TEST_CASE("A candidate that fails under the profiler loses only the profile") {
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
}  // namespace kernelcast::worker::cuda_measurer_test
