// Host-launched candidates on the fake driver. Its time is not the host's, so nothing is timed and
// every candidate ends during the checks.

#include <signal.h>

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "services/worker/cuda/target/cuda_measurer.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/cuda/fake_kernels.h"
#include "tests/support/sanitized.h"
#include "tests/unit/services/worker/cuda/judge/judge_fixture.h"

namespace kernelcast::worker {
namespace {

using testing::FakeCuda;
using testing::kMapOracle;
using testing::kMapReference;
using testing::MapProblem;
using testing::MapProgram;

constexpr int64_t kTestMemoryBytes = int64_t{256} << 20;

std::string Object(const std::string& name) {
  auto content = ReadFile(absl::StrCat(KERNELCAST_OBJECT_DIR, "/libhost_object_", name, ".so"));
  REQUIRE(content.ok());
  return *std::move(content);
}

std::string TextOf(const MeasureOutcome& outcome) {
  Measurement measurement;
  measurement.outcome = outcome;
  return MeasurementFeedback(measurement);
}

class HostSubject {
 public:
  explicit HostSubject(int64_t call_limit_ns = testing::QuickOptions().max_call_limit_ns) {
    FakeCuda::Instance().Reset();
    CudaMeasurerOptions options;
    options.measure = testing::QuickOptions();
    options.measure.min_call_limit_ns = call_limit_ns;
    options.measure.max_call_limit_ns = call_limit_ns;
    options.runner = testing::FakeRunner();
    options.runner.object_memory_bytes = kTestMemoryBytes;
    options.profile.cupti_library = "good";
    measurer_ = std::make_unique<CudaMeasurer>(FakeCuda::Api(), monitor_, options, clock_);
  }
  ~HostSubject() {
    measurer_.reset();
    CHECK(FakeCuda::Instance().Held().empty());
    CHECK(FakeCuda::Instance().misuse().empty());
  }

  MeasureOutcome Measure(const std::string& object) {
    CudaProgram candidate;
    candidate.object = Object(object);
    return Judge(candidate);
  }
  absl::StatusOr<Profile> ProfileOf(const std::string& object) {
    CudaProgram candidate;
    candidate.object = Object(object);
    return measurer_->ProfileCandidate(
        MapProblem(),
        {testing::FakeJudgeCubins(), MapProgram(kMapReference), MapProgram(kMapOracle), candidate},
        CancelToken());
  }
  template <class Outcome>
  Outcome MeasureAs(const std::string& object) {
    INFO(object);
    // The host's clock, which a busy machine holds up, has to agree with the driver's.
    MeasureOutcome outcome = Measure(object);
    for (int i = 1; i < 6 && std::holds_alternative<EnvironmentUnstable>(outcome); ++i) {
      outcome = Measure(object);
    }
    INFO(TextOf(outcome));
    REQUIRE(std::holds_alternative<Outcome>(outcome));
    // The next device code candidate is judged normally.
    const MeasureOutcome next = Judge(MapProgram("scale=2 add=1 ns=50000 jitter=0.01"));
    REQUIRE(std::holds_alternative<MeasuredOk>(next));
    CHECK(std::get<MeasuredOk>(next).speedup.value == Approx(2).epsilon(0.01));
    return std::get<Outcome>(outcome);
  }

 private:
  MeasureOutcome Judge(const CudaProgram& candidate) {
    const auto outcome = measurer_->Measure(
        MapProblem(),
        {testing::FakeJudgeCubins(), MapProgram(kMapReference), MapProgram(kMapOracle), candidate},
        MeasureLevel::kScreen, CancelToken());
    INFO(outcome.status().ToString());
    REQUIRE(outcome.ok());
    return *outcome;
  }

  testing::TickingClock clock_;
  DeviceMonitor monitor_{nullptr, "GPU-1", clock_};
  std::unique_ptr<CudaMeasurer> measurer_;
};

// The checks passed, whatever timing makes of the fake driver's time.
void CheckRight(const MeasureOutcome& outcome) {
  INFO(TextOf(outcome));
  CHECK_FALSE(std::holds_alternative<WrongResult>(outcome));
  CHECK_FALSE(std::holds_alternative<Crash>(outcome));
  CHECK_FALSE(std::holds_alternative<Timeout>(outcome));
}

TEST_CASE("An object is called with each case's tensors and its results are checked") {
  HostSubject subject;
  CheckRight(subject.Measure("RIGHT"));
  CheckRight(subject.Measure("WRONG_TENSORS"));
  CHECK(subject.MeasureAs<WrongResult>("WRONG").cause == WrongResult::Cause::kValue);
}

TEST_CASE("Calls that are timed again find their outputs overwritten anew") {
  HostSubject subject;
  // No event explains the time for which its calls sleep, so that they are repeated.
  const MeasureOutcome outcome = subject.Measure("EXPECTS_NEW_FILL");
  CheckRight(outcome);
  // Which of the two depends on how fast this machine answers for the reference.
  CHECK((std::holds_alternative<Exploit>(outcome) ||
         std::holds_alternative<EnvironmentUnstable>(outcome)));
}

TEST_CASE("Constructors run after privileges are dropped") {
  HostSubject subject;
  CheckRight(subject.Measure("CONSTRUCTED"));
  const auto crash = subject.MeasureAs<Crash>("DIES_EARLY");
  CHECK(crash.cause == Crash::Cause::kExit);
  CHECK(crash.exit_code == 5);
}

TEST_CASE("An entry that hangs is stopped") {
  HostSubject subject(/*call_limit_ns=*/1'000'000'000);
  CHECK(subject.MeasureAs<Timeout>("HANGS").stage == "check");
}

TEST_CASE("An entry that fails, exits or dies has that outcome") {
  HostSubject subject;
  const auto failed = subject.MeasureAs<WrongResult>("FAILS");
  CHECK(failed.cause == WrongResult::Cause::kEntryStatus);
  CHECK(failed.entry_status == 9);
  const auto exited = subject.MeasureAs<Crash>("EXITS");
  CHECK(exited.cause == Crash::Cause::kExit);
  CHECK(exited.exit_code == 0);
  const auto died = subject.MeasureAs<Crash>("DIES");
  CHECK(died.cause == Crash::Cause::kSignal);
  CHECK(died.signal == SIGABRT);
}

TEST_CASE("Host code reaches no file, process, network or foreign memory") {
  HostSubject subject;
  CheckRight(subject.Measure("REACHES_OUT"));
  // ThreadSanitizer's handler of the signal is stopped by the sandbox.
  const int signal = subject.MeasureAs<Crash>("WRITES_INPUT").signal;
  CHECK((testing::kThreadSanitized ? signal > 0 : signal == SIGSEGV));
  CHECK(subject.MeasureAs<Exploit>("WRITES_BESIDE").kind == Exploit::Kind::kWriteOutOfBounds);
}

TEST_CASE("Host code is limited in data, private and shared memory") {
  HostSubject subject;
  CHECK(subject.MeasureAs<Crash>("HOLDS_DATA").cause == Crash::Cause::kMemoryLimit);
  CHECK(subject.MeasureAs<Crash>("SHARES_MEMORY").cause == Crash::Cause::kMemoryLimit);
  // A sanitizer aborts where its own memory grows beyond the limit.
  if (!testing::kSanitized) CheckRight(subject.Measure("GROWS_BESIDE_DATA"));
}

TEST_CASE("Host code that impersonates its runner is detected") {
  HostSubject subject;
  CHECK(subject.MeasureAs<Exploit>("ANSWERS").kind == Exploit::Kind::kForgedResult);
}

TEST_CASE("Host code is not profiled and the profile says so") {
  HostSubject subject;
  const auto profile = subject.ProfileOf("RIGHT");
  REQUIRE(profile.ok());
  CHECK(profile->shapes.empty());
  CHECK(profile->unavailable_reason == "candidates that launch from the host are not profiled");
}

}  // namespace
}  // namespace kernelcast::worker
