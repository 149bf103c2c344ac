#include "services/worker/cuda/judge/judge.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "services/worker/cuda/target/cuda_measurer.h"
#include "tests/fakes/cuda/fake_kernels.h"
#include "tests/fakes/cuda/fake_nvml.h"
#include "tests/unit/services/worker/cuda/judge/judge_fixture.h"

namespace kernelcast::worker {
namespace {

using testing::FakeCuda;
using testing::FakeNvml;
using testing::kMapOracle;
using testing::kMapReference;
using testing::MapProblem;
using testing::MapProgram;

// Twice as fast as the reference.
constexpr const char* kGood = "scale=2 add=1 ns=50000 jitter=0.01";

// Judges candidates on the fake driver with real runner processes.
class Court {
 public:
  explicit Court(MeasureOptions options = testing::QuickOptions(),
                 std::vector<std::string> runner_arguments = {}) {
    FakeCuda::Instance().Reset();
    CudaMeasurerOptions with;
    with.measure = options;
    with.runner = testing::FakeRunner(std::move(runner_arguments));
    measurer_ = std::make_unique<CudaMeasurer>(FakeCuda::Api(), monitor_, with, clock_);
  }
  ~Court() {
    measurer_.reset();
    CHECK(FakeCuda::Instance().Held().empty());
    CHECK(FakeCuda::Instance().misuse().empty());
  }

  absl::StatusOr<MeasureOutcome> Judge(CudaProgram candidate,
                                       MeasureSpec spec = MeasureLevel::kScreen) {
    const CudaPrograms programs{testing::FakeJudgeCubins(), MapProgram(reference),
                                MapProgram(kMapOracle), std::move(candidate)};
    return measurer_->Measure(problem, programs, spec, cancel);
  }

  // Requires an outcome of this kind and a correct measurement of the next candidate.
  template <class Outcome>
  Outcome JudgeAs(CudaProgram candidate, MeasureSpec spec = MeasureLevel::kScreen) {
    const auto outcome = Judge(std::move(candidate), spec);
    INFO(outcome.status().ToString());
    REQUIRE(outcome.ok());
    INFO(Feedback(*outcome));
    REQUIRE(std::holds_alternative<Outcome>(*outcome));
    CheckNext();
    return std::get<Outcome>(*outcome);
  }
  template <class Outcome>
  Outcome JudgeAs(const std::string& options, MeasureSpec spec = MeasureLevel::kScreen) {
    return JudgeAs<Outcome>(MapProgram(options), spec);
  }

  void CheckNext() {
    const auto next = Judge(MapProgram(kGood));
    INFO(next.status().ToString());
    REQUIRE(next.ok());
    INFO(Feedback(*next));
    REQUIRE(std::holds_alternative<MeasuredOk>(*next));
    CHECK(std::get<MeasuredOk>(*next).speedup.value == Approx(2).epsilon(0.01));
  }

  static std::string Feedback(const MeasureOutcome& outcome) {
    Measurement measurement;
    measurement.outcome = outcome;
    return absl::StrCat(std::string(OutcomeName(outcome)), ": ", MeasurementFeedback(measurement));
  }

  Problem problem = MapProblem();
  std::string reference = kMapReference;
  CancelToken cancel;

 private:
  FakeNvml& nvml_ = FakeNvml::Instance() = FakeNvml();
  testing::TickingClock clock_;
  DeviceMonitor monitor_{&FakeNvml::Api(), "GPU-1", clock_};
  std::unique_ptr<CudaMeasurer> measurer_;
};

std::string Good(const std::string& options) { return absl::StrCat(kGood, " ", options); }

TEST_CASE("A correct faster kernel's interval contains its speedup") {
  Court court;
  const auto ok = court.JudgeAs<MeasuredOk>(kGood);
  CHECK(ok.speedup.value == Approx(2).epsilon(0.005));
  CHECK(ok.speedup.low <= 2);
  CHECK(ok.speedup.high >= 2);
  CHECK(ok.comparison == Comparison::kFaster);
  CHECK(ok.runners == 1);
  CHECK(ok.correctness_cases >= 10);
  REQUIRE(ok.shapes.size() == 1);
  CHECK(ok.shapes[0].candidate.median_ns == Approx(50'000).epsilon(0.01));
  CHECK(ok.shapes[0].candidate.cold_median_ns == Approx(50'000).epsilon(0.02));
  CHECK(ok.shapes[0].reference.median_ns == Approx(100'000).epsilon(0.01));
  CHECK(ok.shapes[0].candidate.samples >= 30);
  CHECK(ok.shapes[0].stop_reason == "precision");
  CHECK(ok.shapes[0].discarded_blocks == 0);
  CHECK(ok.shapes[0].call_overhead_ns == 0);
  CHECK(ok.environment.clock_start_hz == Approx(1.98e9));
  CHECK(ok.environment.power_watts == Approx(250));
}

TEST_CASE("The reference measured as a candidate is indistinguishable from itself") {
  Court court;
  CHECK(court.JudgeAs<MeasuredOk>(kMapReference).comparison == Comparison::kSame);
}

TEST_CASE("Output placement does not distinguish the reference from itself") {
  Court court;
  // Up to twice the time, depending on the outputs' addresses.
  court.reference = absl::StrCat(kMapReference, " place_ns=1500");
  for (const MeasureLevel level : {MeasureLevel::kScreen, MeasureLevel::kFinal}) {
    const auto outcome = court.Judge(MapProgram(court.reference), level);
    REQUIRE(outcome.ok());
    const auto& ok = std::get<MeasuredOk>(*outcome);
    CHECK(ok.speedup.value == Approx(1).epsilon(0.005));
    CHECK(ok.speedup.low < 1);
    CHECK(ok.speedup.high > 1);
  }
}

TEST_CASE("The interval of a final result includes placement effects") {
  Court court;
  const auto outcome = court.Judge(MapProgram(Good("place_ns=1000")), MeasureLevel::kFinal);
  REQUIRE(outcome.ok());
  const auto& ok = std::get<MeasuredOk>(*outcome);
  REQUIRE(ok.runner_speedups.size() == 5);
  const auto [least, most] =
      std::minmax_element(ok.runner_speedups.begin(), ok.runner_speedups.end());
  CHECK(*most > 1.005 * *least);
  CHECK(ok.speedup.between_deviation > ok.speedup.within_deviation);
  CHECK(ok.speedup.high - ok.speedup.low > 0.5 * (*most - *least));
}

TEST_CASE("Memory is filled before every checked call and before no timed call") {
  Court court;
  const auto ok = court.JudgeAs<MeasuredOk>(kGood);
  const std::string all = absl::StrCat("wants_fill=", ok.correctness_cases);
  CHECK(court.JudgeAs<MeasuredOk>(Good(all)).correctness_cases == ok.correctness_cases);
  CHECK(court.JudgeAs<WrongResult>(Good("wants_fill=1000000")).cause ==
        WrongResult::Cause::kTimedOutput);
}

TEST_CASE("Memory is filled with NaN and with large finite values") {
  Court court;
  // A maximum hides NaN.
  CHECK(court.JudgeAs<WrongResult>(Good("reads_shared=1")).cause == WrongResult::Cause::kValue);
  // 0 times a finite value changes nothing.
  CHECK(court.JudgeAs<WrongResult>(Good("adds_shared=1")).cause == WrongResult::Cause::kNonFinite);
}

TEST_CASE("A crash and a timeout name the stage and the case") {
  MeasureOptions options = testing::QuickOptions();
  options.min_call_limit_ns = 1'000'000'000;
  options.max_call_limit_ns = 1'000'000'000;
  Court court(options);
  const AxisValues shape = court.problem.check_shapes.back();
  const int64_t n = shape.at("n");
  const auto crash = court.JudgeAs<Crash>(Good(absl::StrCat("fault_at_n=", n)));
  CHECK(crash.stage == "check");
  CHECK(crash.shape == shape);
  CHECK(crash.distribution == "declared");
  const auto timeout = court.JudgeAs<Timeout>(Good(absl::StrCat("hang_at_n=", n)));
  CHECK(timeout.stage == "check");
  CHECK(timeout.shape == shape);
  CHECK(timeout.distribution == "declared");
  const auto beyond = court.JudgeAs<Exploit>(Good("beyond=1"));
  CHECK(beyond.shape == AxisValues{{"n", 1}});
}

TEST_CASE("A slower kernel is measured as slower") {
  Court court;
  const auto ok = court.JudgeAs<MeasuredOk>("scale=2 add=1 ns=400000");
  CHECK(ok.comparison == Comparison::kSlower);
  CHECK(ok.speedup.value == Approx(0.25).epsilon(0.01));
}

TEST_CASE("A check verifies all cases and times nothing") {
  Court court;
  const auto passed = court.JudgeAs<Passed>(kGood, MeasureLevel::kCheck);
  CHECK(passed.correctness_cases == court.JudgeAs<MeasuredOk>(kGood).correctness_cases);
  court.JudgeAs<WrongResult>("scale=3 add=1 ns=50000", MeasureLevel::kCheck);
}

TEST_CASE("A final result spans five fresh runners") {
  Court court;
  const auto ok = court.JudgeAs<MeasuredOk>(kGood, MeasureLevel::kFinal);
  CHECK(ok.runners == 5);
  CHECK(ok.speedup.value == Approx(2).epsilon(0.005));
  CHECK(ok.shapes[0].candidate.samples >= 150);
}

TEST_CASE("A screening ends early below the caller's bound") {
  Court court;
  const std::string noisy = "scale=2 add=1 ns=50000 jitter=0.05";
  const auto behind = court.JudgeAs<MeasuredOk>(noisy, {MeasureLevel::kScreen, 2.5});
  CHECK(behind.shapes[0].stop_reason == kStoppedBehind);
  CHECK(behind.speedup.high < 2.5);
  CHECK(behind.speedup.value == Approx(2).epsilon(0.05));
  const auto full = court.JudgeAs<MeasuredOk>(noisy);
  CHECK(behind.shapes[0].blocks < full.shapes[0].blocks);
  CHECK(behind.speedup.high / behind.speedup.low > full.speedup.high / full.speedup.low);
  CHECK(court.JudgeAs<MeasuredOk>(noisy, {MeasureLevel::kScreen, 1.9}).shapes[0].stop_reason !=
        kStoppedBehind);
  CHECK(court.JudgeAs<MeasuredOk>(noisy, {MeasureLevel::kFinal, 2.5}).shapes[0].stop_reason !=
        kStoppedBehind);
  // A wrong candidate is wrong, however far behind.
  court.JudgeAs<WrongResult>(Good("wrong=1"), {MeasureLevel::kScreen, 100});
}

TEST_CASE("A final result tells whether processes gave the same bytes") {
  Court court;
  CHECK(court.JudgeAs<MeasuredOk>(kGood, MeasureLevel::kFinal).determinism ==
        Determinism::kBitwise);
  // Within the tolerance of 1e-5.
  CHECK(court.JudgeAs<MeasuredOk>(Good("drift=0.00000015"), MeasureLevel::kFinal).determinism ==
        Determinism::kVaries);
  // A screening has one process.
  CHECK(court.JudgeAs<MeasuredOk>(kGood).determinism == Determinism::kUnknown);
}

TEST_CASE("Wrong, unwritten and infinite values and reduced precision are distinguished") {
  using Cause = WrongResult::Cause;
  Court court;
  const auto value = court.JudgeAs<WrongResult>(Good("wrong=1"));
  CHECK(value.cause == Cause::kValue);
  CHECK(value.output == "y");
  CHECK(value.shape == AxisValues{{"n", 1}});
  CHECK(value.mismatches == 1);
  // Both are rounded to four digits, and the sum may be close to 0.
  CHECK(value.got == Approx(value.expected * 1.5 + 1).epsilon(0.01).margin(0.001));
  CHECK(court.JudgeAs<WrongResult>(Good("skip=1")).cause == Cause::kNotWritten);
  CHECK(court.JudgeAs<WrongResult>(Good("nan=1")).cause == Cause::kNonFinite);
  const auto norm = court.JudgeAs<WrongResult>(Good("noise=0.0001"));
  CHECK(norm.cause == Cause::kNormwise);
  CHECK(norm.mismatches == 0);
  CHECK(norm.normwise_error > 1e-5);
}

TEST_CASE("Writing outside an output is an exploit") {
  Court court;
  CHECK(court.JudgeAs<Exploit>(Good("beyond=1")).kind == Exploit::Kind::kWriteOutOfBounds);
  CHECK(court.JudgeAs<Exploit>(Good("before=1")).kind == Exploit::Kind::kWriteOutOfBounds);
}

TEST_CASE("The reference's leftovers do not help a candidate") {
  Court court;
  // The leftovers were overwritten with NaN.
  const auto wrong = court.JudgeAs<WrongResult>(Good("steal=1"));
  CHECK(wrong.cause == WrongResult::Cause::kNonFinite);
}

TEST_CASE("A kernel that is right when checked and wrong when timed is detected") {
  Court court;
  CHECK(court.JudgeAs<WrongResult>(Good("from=8 wrong=1")).cause ==
        WrongResult::Cause::kTimedOutput);
  CHECK(court.JudgeAs<Exploit>(Good("from=8 skip=1")).kind == Exploit::Kind::kSkippedWork);
}

TEST_CASE("Results cached by address are an exploit") {
  Court court;
  const auto exploit = court.JudgeAs<Exploit>(Good("from=3 stale=1"));
  CHECK(exploit.kind == Exploit::Kind::kCachedOutput);
  CHECK(exploit.evidence.find("inputs before") != std::string::npos);
}

TEST_CASE("Results cached by value are an exploit") {
  Court court;
  const auto exploit = court.JudgeAs<Exploit>("scale=2 add=1 ns=20000 ns_new=100000 jitter=0.01");
  CHECK(exploit.kind == Exploit::Kind::kCachedOutput);
  CHECK(exploit.evidence.find("a few values replaced") != std::string::npos);
}

TEST_CASE("Host time that no event explains is an exploit") {
  Court court;
  const auto exploit = court.JudgeAs<Exploit>(Good("host_ns=2000000"));
  CHECK(exploit.kind == Exploit::Kind::kBackgroundWork);
  CHECK(exploit.evidence.find("on the host") != std::string::npos);
}

TEST_CASE("A candidate whose calls are held up as the reference's are is not suspected") {
  Court court;
  const std::string calm = std::exchange(court.reference, court.reference + " host_ns=2000000");
  const auto outcome = court.Judge(MapProgram(Good("host_ns=2000000")));
  REQUIRE(outcome.ok());
  INFO(Court::Feedback(*outcome));
  REQUIRE(std::holds_alternative<EnvironmentUnstable>(*outcome));
  const auto& reason = std::get<EnvironmentUnstable>(*outcome).reason;
  CHECK_THAT(reason,
             Catch::Contains("calls of the reference were held up too, in 12 of 12 attempts"));
  court.reference = calm;
  court.CheckNext();
}

TEST_CASE("Events that report negative time are an exploit") {
  Court court;
  CHECK(court.JudgeAs<Exploit>("scale=2 add=1 ns=-1000").kind == Exploit::Kind::kBackgroundWork);
}

TEST_CASE("A candidate is charged for what its calls leave running") {
  Court court;
  const auto ok = court.JudgeAs<MeasuredOk>(Good("leaves_ns=150000"));
  CHECK(ok.speedup.value == Approx(0.5).epsilon(0.02));
}

TEST_CASE("A runner that is occasionally delayed is not an exploit") {
  Court court;
  const auto ok = court.JudgeAs<MeasuredOk>(Good("stall_every=9 stall_ns=30000000"));
  CHECK(ok.speedup.value == Approx(2).epsilon(0.01));
}

TEST_CASE("A call on new values that the device holds up once is not charged") {
  const std::string once = absl::StrCat("/dev/shm/kernelcast-once-", getpid());
  Court court;
  const auto ok = court.JudgeAs<MeasuredOk>(
      Good(absl::StrCat("once=", static_cast<int>(getpid()), " once_ns=300000")));
  CHECK(std::filesystem::remove(once));
  CHECK(ok.runners == 3);
  CHECK(ok.speedup.value == Approx(2).epsilon(0.01));
}

TEST_CASE("A kernel that is always slower on new values is charged") {
  Court court;
  const auto ok = court.JudgeAs<MeasuredOk>("scale=2 add=1 ns=50000 ns_new=60000 jitter=0.01");
  CHECK(ok.runners == 3);
  CHECK(ok.speedup.value == Approx(100.0 / 60).epsilon(0.02));
}

TEST_CASE("A time below the memory limit is an exploit") {
  Court court;
  CHECK(court.JudgeAs<Exploit>("scale=2 add=1 ns=1").kind == Exploit::Kind::kImplausiblyFast);
}

TEST_CASE("A kernel that kills its context crashes only its candidate") {
  Court court;
  const auto crash = court.JudgeAs<Crash>(Good("fault=700"));
  CHECK(crash.cause == Crash::Cause::kDeviceError);
  CHECK(crash.output_tail.find("ILLEGAL_ADDRESS") != std::string::npos);
  const auto timed = court.JudgeAs<Crash>(Good("from=6 fault=719"));
  CHECK(timed.output_tail.find("LAUNCH_FAILED") != std::string::npos);
  CHECK(court.JudgeAs<Crash>(Good("write_input=1")).cause == Crash::Cause::kDeviceError);
  CHECK(court.JudgeAs<Crash>(Good("launch_error=701")).cause == Crash::Cause::kDeviceError);
  CHECK(court.JudgeAs<Crash>(Good("exit=1")).cause == Crash::Cause::kDeviceError);
}

TEST_CASE("A module that cannot load or takes other arguments is a crash at loading") {
  Court court;
  CudaProgram candidate = MapProgram(kGood);
  candidate.cubin = "\177ELF, says it";
  CHECK(court.JudgeAs<Crash>(candidate).cause == Crash::Cause::kLoad);
  const auto crash = court.JudgeAs<Crash>(Good("extra_parameter=4"));
  CHECK(crash.cause == Crash::Cause::kLoad);
  CHECK(crash.output_tail == "the kernel takes 4 arguments, not 3\n");
  candidate = MapProgram(kGood);
  candidate.launches[0].kernel = "other";
  CHECK(court.JudgeAs<Crash>(candidate).output_tail.find("NOT_FOUND") != std::string::npos);
}

TEST_CASE("An endless kernel is stopped at its limit") {
  MeasureOptions options = testing::QuickOptions();
  options.min_call_limit_ns = 1'000'000'000;
  options.max_call_limit_ns = 1'000'000'000;
  Court court(options);
  const auto check = court.JudgeAs<Timeout>(Good("hang=1"));
  CHECK(check.stage == "check");
  CHECK(check.limit_ns == 1'000'000'000);
  CHECK(court.JudgeAs<Timeout>(Good("from=6 hang=1")).stage == "timing");
}

TEST_CASE("A check may take as long as the reference needs") {
  MeasureOptions options = testing::QuickOptions();
  options.min_call_limit_ns = 1'000'000;
  options.max_call_limit_ns = 1'000'000;
  Court court(options);
  court.reference = "scale=2 add=1 ns=2000000";
  const auto outcome = court.Judge(MapProgram(Good("hang=1")));
  REQUIRE(outcome.ok());
  REQUIRE(std::holds_alternative<Timeout>(*outcome));
  CHECK(std::get<Timeout>(*outcome).limit_ns == 11 * 4 * 2'000'000);
}

TEST_CASE("A module that never finishes loading is stopped at its own limit") {
  MeasureOptions options = testing::QuickOptions();
  options.load_limit_ns = 100'000'000;
  Court court(options);
  const auto outcome = court.Judge(MapProgram(Good("hang_load=1")));
  REQUIRE(outcome.ok());
  REQUIRE(std::holds_alternative<Timeout>(*outcome));
  CHECK(std::get<Timeout>(*outcome).stage == "load");
  CHECK(std::get<Timeout>(*outcome).limit_ns == 100'000'000);
}

TEST_CASE("Launches run in order and share a workspace") {
  Court court;
  CudaProgram candidate = MapProgram(kGood);
  Launch first = candidate.launches[0];
  Launch second = first;
  first.kernel = "first";
  first.arguments = {"x", "workspace", "n"};
  second.kernel = "second";
  second.arguments = {"workspace", "y", "n"};
  candidate.cubin =
      testing::FakeCubin({"first affine scale=2 ns=25000", "second affine add=1 ns=25000"});
  candidate.launches = {first, second};
  candidate.workspace_bytes = "4*n";
  CHECK(court.JudgeAs<MeasuredOk>(candidate).speedup.value == Approx(2).epsilon(0.01));
  // A result in the workspace is gone before the next call.
  candidate.cubin = testing::FakeCubin(
      {"first affine scale=2 ns=25000 from=8 skip=1", "second affine add=1 ns=25000"});
  CHECK(court.JudgeAs<Exploit>(candidate).kind == Exploit::Kind::kSkippedWork);
}

TEST_CASE("A workspace that exceeds device memory is the candidate's fault") {
  Court court;
  CudaProgram candidate = MapProgram(kGood);
  candidate.workspace_bytes = "4294967296";
  const auto crash = court.JudgeAs<Crash>(candidate);
  CHECK(crash.cause == Crash::Cause::kMemoryLimit);
}

TEST_CASE("Launches without a plan are refused and the next candidate is unharmed") {
  Court court;
  CudaProgram candidate = MapProgram(kGood);
  const Launch launch = candidate.launches[0];
  candidate.launches.clear();
  CHECK(absl::IsInvalidArgument(court.Judge(candidate).status()));
  candidate.launches.assign(65, launch);
  CHECK(absl::IsInvalidArgument(court.Judge(candidate).status()));
  candidate.launches.assign(64, launch);
  const auto ok = court.JudgeAs<MeasuredOk>(candidate);
  CHECK(ok.speedup.value == Approx(2.0 / 64).epsilon(0.02));
}

TEST_CASE("Candidate writes to the reference's outputs are overwritten") {
  Court court;
  CHECK(court.JudgeAs<MeasuredOk>(Good("spoil=1")).comparison == Comparison::kFaster);
}

TEST_CASE("A reference whose results changed is retried and then UNAVAILABLE") {
  Court court;
  court.reference = absl::StrCat(kMapReference, " from=16 wrong=1");
  const auto outcome = court.Judge(MapProgram(kGood));
  CHECK(absl::IsUnavailable(outcome.status()));
  CHECK(outcome.status().message() ==
        "the reference's results are not what they were before the candidate came");
  // Another judge context would be an error: only the problem and the runner were recreated.
  CHECK(FakeCuda::Instance().calls("DevicePrimaryCtxRetain") == 1);
  court.reference = kMapReference;
  court.CheckNext();
}

TEST_CASE("Blocks at a lower clock are excluded") {
  Court court;
  int looks = 0;
  FakeNvml::Instance().clock_mhz = [&] { return ++looks % 9 == 0 ? 1000u : 1980u; };
  const auto outcome = court.Judge(MapProgram(kGood));
  REQUIRE(outcome.ok());
  const auto* ok = std::get_if<MeasuredOk>(&*outcome);
  REQUIRE(ok != nullptr);
  CHECK(ok->shapes[0].discarded_blocks > 0);
  CHECK(ok->speedup.value == Approx(2).epsilon(0.01));
  CHECK(ok->environment.clock_min_hz == Approx(1e9));
}

TEST_CASE("A persistently low clock with noisy times gives no figure") {
  MeasureOptions options = testing::QuickOptions();
  options.screen.cap_ns = 100'000;
  Court court(options);
  int looks = 0;
  FakeNvml::Instance().clock_mhz = [&] { return ++looks > 3 ? 1000u : 1980u; };
  const auto outcome = court.Judge(MapProgram("scale=2 add=1 ns=400000 jitter=1.9"));
  REQUIRE(outcome.ok());
  INFO(Court::Feedback(*outcome));
  const auto* unstable = std::get_if<EnvironmentUnstable>(&*outcome);
  REQUIRE(unstable != nullptr);
  CHECK(unstable->discarded_blocks == unstable->blocks);
}

TEST_CASE("A single unreadable clock sample has no effect") {
  Court court;
  int looks = 0;
  FakeNvml::Instance().clock_mhz = [&] { return ++looks % 5 == 0 ? 0u : 1980u; };
  const auto outcome = court.Judge(MapProgram(kGood));
  REQUIRE(outcome.ok());
  REQUIRE(std::holds_alternative<MeasuredOk>(*outcome));
  CHECK(std::get<MeasuredOk>(*outcome).shapes[0].discarded_blocks == 0);
}

TEST_CASE("A stopped token ends judging at any step") {
  // The clock is read before the candidate is loaded and after each block.
  for (const int at : {1, 2, 3, 6, 12}) {
    Court court;
    int looks = 0;
    FakeNvml::Instance().clock_mhz = [&] {
      if (++looks == at) court.cancel.Cancel();
      return 1980u;
    };
    CHECK(absl::IsCancelled(court.Judge(MapProgram(kGood)).status()));
  }
}

}  // namespace
}  // namespace kernelcast::worker
