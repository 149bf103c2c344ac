#ifndef KERNELCAST_SERVICES_WORKER_CPU_JUDGE_H_
#define KERNELCAST_SERVICES_WORKER_CPU_JUDGE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/domain/measurement.h"
#include "services/worker/core/cancel.h"
#include "services/worker/cpu/prepared_problem.h"
#include "services/worker/native/shared_object.h"

namespace kernelcast::worker {

// Where the time of one judgement went.
struct JudgeTimes {
  int64_t start_ns = 0;
  int64_t check_ns = 0;
  int64_t timing_ns = 0;
  int64_t fresh_ns = 0;
};

// Verifies and times one candidate, by the calling thread, which holds the timing lease. All
// deciding is done here, in the worker: the candidate's process is told which case to run and says
// that it ran.
//
//  1. Correctness cases, each on poisoned outputs between guards.
//  2. For each bench shape: warm-up; blocks of timed calls in turn with the reference's process.
//     Before every timed call wrong values are planted in the outputs, and must be right after it.
//     One call of each block is verified in full.
//  3. New values at the same addresses, timed and verified in full: first all but a few as before,
//     then all new. A kernel that remembered is wrong now, or slower.
//
// UNAVAILABLE: the machine could not start a process. The token's status when it is stopped.
[[nodiscard]] absl::StatusOr<MeasureOutcome> Judge(PreparedProblem& prepared,
                                                   const LoadableObject& candidate,
                                                   MeasureLevel level, const CancelToken& cancel,
                                                   JudgeTimes& times);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_JUDGE_H_
