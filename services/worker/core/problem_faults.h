#ifndef KERNELCAST_SERVICES_WORKER_CORE_PROBLEM_FAULTS_H_
#define KERNELCAST_SERVICES_WORKER_CORE_PROBLEM_FAULTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/domain/measurement.h"
#include "common/domain/problem.h"
#include "services/worker/core/options.h"

namespace kernelcast::worker {

// Problems that are at fault themselves: their reference or their generator of inputs fails. Each
// further candidate of such a problem is answered at once with the same error. Errors are forgotten
// after ten times the time that finding them took, at least a minute and at most half an hour, so
// that a problem at fault takes little of a device's time. Thread-safe.
class ProblemFaults {
 public:
  static constexpr size_t kMostKept = 1000;

  explicit ProblemFaults(const Clock& clock = Clock::Real()) : clock_(clock) {}

  // The error to answer candidates of the problem with, or OK.
  [[nodiscard]] absl::Status Check(const std::string& problem_id);
  // Keeps errors of FAILED_PRECONDITION and ignores others. `took_ns`: the time to find it.
  void Note(const std::string& problem_id, const absl::Status& error, int64_t took_ns);

 private:
  struct Fault {
    absl::Status error;
    int64_t until_ns = 0;
  };

  const Clock& clock_;
  std::mutex mutex_;
  std::map<std::string, Fault> faults_;  // protected by mutex_
};

// FAILED_PRECONDITION: preparing a problem has taken too long.
[[nodiscard]] absl::Status PreparationPace(const MeasureOptions& options, int64_t took_ns);

// FAILED_PRECONDITION: the problem's reference has other outputs than its oracle. `where` names the
// case, and `how` says what differs.
[[nodiscard]] absl::Status ReferenceDisagrees(const Problem& problem, std::string_view output,
                                              std::string_view where, std::string_view how);
// FAILED_PRECONDITION: a task's own code refuses the outputs of its reference.
[[nodiscard]] absl::Status ReferenceRefused(std::string_view where, std::string_view reason);

// UNAVAILABLE: the reference failed while a candidate was judged. The machine may be the reason, so
// the candidate is judged once more.
[[nodiscard]] absl::Status ReferenceFailed(const std::string& how);
[[nodiscard]] bool IsReferenceFailure(const absl::Status& status);

// Interprets a repeated ReferenceFailed. `beside_itself` is the result of judging the reference as
// a candidate.
struct RepeatedFailure {
  absl::Status answer;              // FAILED_PRECONDITION
  bool problem_is_at_fault = true;  // false: it fails only next to this candidate
};
[[nodiscard]] RepeatedFailure ExplainRepeated(const absl::Status& failure,
                                              const absl::StatusOr<MeasureOutcome>& beside_itself);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_PROBLEM_FAULTS_H_
