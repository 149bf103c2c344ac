#include "services/worker/core/problem_faults.h"

#include <algorithm>
#include <variant>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/base/strings.h"

namespace kernelcast::worker {
namespace {

constexpr int64_t kLeastKeptNs = 60'000'000'000;
constexpr int64_t kMostKeptNs = 1'800'000'000'000;
constexpr int64_t kKeptPerFinding = 10;
constexpr const char* kReferenceFailedUrl = "kernelcast.reference_failed";

}  // namespace

absl::Status ProblemFaults::Check(const std::string& problem_id) {
  const std::lock_guard lock(mutex_);
  const auto found = faults_.find(problem_id);
  if (found == faults_.end()) return absl::OkStatus();
  if (clock_.MonotonicNs() < found->second.until_ns) return found->second.error;
  faults_.erase(found);
  return absl::OkStatus();
}

void ProblemFaults::Note(const std::string& problem_id, const absl::Status& error,
                         int64_t took_ns) {
  if (!absl::IsFailedPrecondition(error)) return;
  const int64_t kept_ns =
      std::clamp(std::min(took_ns, kMostKeptNs) * kKeptPerFinding, kLeastKeptNs, kMostKeptNs);
  const std::lock_guard lock(mutex_);
  if (faults_.size() >= kMostKept) faults_.clear();
  faults_[problem_id] = {error, clock_.MonotonicNs() + kept_ns};
}

absl::Status PreparationPace(const MeasureOptions& options, int64_t took_ns) {
  if (took_ns <= options.max_preparation_ns) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "preparing the problem took longer than ", options.max_preparation_ns / 1'000'000'000,
      " s: drawing its inputs and calling its reference is too slow"));
}

absl::Status ReferenceDisagrees(const Problem& problem, std::string_view output,
                                std::string_view where, std::string_view how) {
  return absl::FailedPreconditionError(absl::StrCat(
      problem.task ? "the task's reference gave other results when it was called again, beyond its "
                     "own tolerance, in output "
                   : "the problem's reference disagrees with its oracle in output ",
      AbslView(output), " (", AbslView(where), "): ", AbslView(how)));
}

absl::Status ReferenceRefused(std::string_view where, std::string_view reason) {
  return absl::FailedPreconditionError(
      absl::StrCat("the task's check_implementation refuses its own reference (", AbslView(where),
                   "): ", AbslView(reason)));
}

absl::Status ReferenceFailed(const std::string& how) {
  absl::Status failed = absl::UnavailableError(
      absl::StrCat("the problem's reference failed while a candidate was judged: ", how));
  failed.SetPayload(kReferenceFailedUrl, absl::Cord());
  return failed;
}

bool IsReferenceFailure(const absl::Status& status) {
  return status.GetPayload(kReferenceFailedUrl).has_value();
}

RepeatedFailure ExplainRepeated(const absl::Status& failure,
                                const absl::StatusOr<MeasureOutcome>& beside_itself) {
  const bool fails_alone = beside_itself.ok()
                               ? !std::holds_alternative<MeasuredOk>(*beside_itself) &&
                                     !std::holds_alternative<EnvironmentUnstable>(*beside_itself)
                               : IsReferenceFailure(beside_itself.status()) ||
                                     absl::IsFailedPrecondition(beside_itself.status());
  return {
      absl::FailedPreconditionError(absl::StrCat(
          failure.message(), fails_alone ? "" : "; next to itself the reference does not fail")),
      fails_alone};
}

}  // namespace kernelcast::worker
