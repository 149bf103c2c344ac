#ifndef KERNELCAST_SERVICES_WORKER_CPU_JUDGE_H_
#define KERNELCAST_SERVICES_WORKER_CPU_JUDGE_H_

#include "absl/status/statusor.h"
#include "common/domain/measurement.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/speedup_interval.h"
#include "services/worker/cpu/prepared_problem.h"
#include "services/worker/judge/judge_sequence.h"
#include "services/worker/native/shared_object.h"

namespace kernelcast::worker {

// Verifies and times one candidate on the calling thread, which must hold the timing lease. The
// worker makes every decision: the candidate's process only receives the number of a case and
// reports that it ran.
//
//  1. Correctness cases, each on poisoned outputs between guards.
//  2. For each bench shape: warm-up, then blocks of timed calls alternating with the reference's
//     process. Calls come in bursts on different inputs, in a secret order, without a pause between
//     them. Before every burst wrong values are planted in its outputs; they must be right after
//     it. One call of each block is verified in full.
//  3. New values at the same addresses, timed and verified in full: either a few values replaced,
//     or all of them. A kernel that cached results is now wrong or slower. Its time is charged
//     accordingly; a much slower one is an exploit.
//
// UNAVAILABLE: the machine could not start a process. Returns the token's status when it is
// stopped.
[[nodiscard]] absl::StatusOr<MeasureOutcome> Judge(PreparedProblem& prepared,
                                                   const Program& candidate, MeasureSpec spec,
                                                   RunnerSpread& spread, const CancelToken& cancel,
                                                   JudgeTimes& times);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_JUDGE_H_
