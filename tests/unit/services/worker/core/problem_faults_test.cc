#include "services/worker/core/problem_faults.h"

#include <catch2/catch.hpp>
#include <string>

#include "common/base/clock.h"

namespace kernelcast::worker::problem_faults_test {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

TEST_CASE("A problem at fault is answered with its error for ten times what finding it took") {
  struct Kept {
    int64_t took_s;
    int64_t kept_s;
  };
  for (const auto& [took_s, kept_s] : {Kept{1, 60}, {12, 120}, {100'000, 1'800}}) {
    FakeClock clock;
    ProblemFaults faults(clock);
    CHECK(faults.Check("problem").ok());
    faults.Note("problem", absl::FailedPreconditionError("it raised"), took_s * kSecondNs);
    clock.Advance((kept_s - 1) * kSecondNs);
    CHECK(faults.Check("problem") == absl::FailedPreconditionError("it raised"));
    CHECK(faults.Check("other").ok());
    clock.Advance(2 * kSecondNs);
    CHECK(faults.Check("problem").ok());
  }
}

TEST_CASE("Errors that are not the problem's are not kept, and few problems are") {
  ProblemFaults faults;
  faults.Note("problem", absl::UnavailableError("the runner died"), kSecondNs);
  faults.Note("problem", absl::ResourceExhaustedError("no memory"), kSecondNs);
  faults.Note("problem", absl::CancelledError(), kSecondNs);
  CHECK(faults.Check("problem").ok());
  size_t kept = 0;
  for (size_t i = 0; i < 3 * ProblemFaults::kMostKept; ++i) {
    faults.Note(std::to_string(i), absl::FailedPreconditionError("bad"), kSecondNs);
  }
  for (size_t i = 0; i < 3 * ProblemFaults::kMostKept; ++i) {
    kept += faults.Check(std::to_string(i)).ok() ? 0 : 1;
  }
  CHECK(kept <= ProblemFaults::kMostKept);
  CHECK(kept > 0);
}

TEST_CASE("A reference that fails next to a candidate is tried next to itself") {
  const absl::Status failure = ReferenceFailed("exit code 7");
  CHECK(absl::IsUnavailable(failure));
  CHECK(IsReferenceFailure(failure));
  CHECK_FALSE(IsReferenceFailure(absl::UnavailableError("the runner died")));
  CHECK_FALSE(IsReferenceFailure(absl::OkStatus()));

  for (const absl::StatusOr<MeasureOutcome>& fails :
       {absl::StatusOr<MeasureOutcome>(failure), absl::StatusOr<MeasureOutcome>(Crash()),
        absl::StatusOr<MeasureOutcome>(Timeout()), absl::StatusOr<MeasureOutcome>(WrongResult()),
        absl::StatusOr<MeasureOutcome>(absl::FailedPreconditionError("it raised"))}) {
    const RepeatedFailure repeated = ExplainRepeated(failure, fails);
    CHECK(repeated.problem_is_at_fault);
    CHECK(repeated.answer ==
          absl::FailedPreconditionError(
              "the problem's reference failed while a candidate was judged: exit code 7"));
  }
  for (const absl::StatusOr<MeasureOutcome>& works :
       {absl::StatusOr<MeasureOutcome>(MeasuredOk()),
        absl::StatusOr<MeasureOutcome>(EnvironmentUnstable()),
        absl::StatusOr<MeasureOutcome>(absl::UnavailableError("the device is lost"))}) {
    const RepeatedFailure repeated = ExplainRepeated(failure, works);
    CHECK_FALSE(repeated.problem_is_at_fault);
    CHECK(absl::IsFailedPrecondition(repeated.answer));
    CHECK_THAT(std::string(repeated.answer.message()), Catch::Contains("next to itself"));
  }
}

TEST_CASE("Preparing a problem has a limit") {
  MeasureOptions options;
  options.max_preparation_ns = 5 * kSecondNs;
  CHECK(PreparationPace(options, 5 * kSecondNs).ok());
  const absl::Status late = PreparationPace(options, 6 * kSecondNs);
  CHECK(absl::IsFailedPrecondition(late));
  CHECK_THAT(std::string(late.message()), Catch::Contains("5 s"));
}

}  // namespace
}  // namespace kernelcast::worker::problem_faults_test
