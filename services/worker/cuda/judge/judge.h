#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_JUDGE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_JUDGE_H_

#include "absl/status/statusor.h"
#include "common/domain/measurement.h"
#include "services/worker/cuda/judge/judgement.h"

namespace kernelcast::worker {

// Verifies and times one candidate on the calling thread, to which the device is bound and which
// must hold the timing lease. All comparisons happen in the judge's own context; the runner
// executes launches and reads events. Both sides write to the same memory in turn, unless they are
// in two processes.
//
//  1. Correctness cases, twice, on outputs filled first with NaN and then with plausible values,
//     between guards.
//  2. For each bench shape: warm-up, then blocks of timed calls alternating with the reference.
//     Before every timed call its outputs and workspace are overwritten and the L2 cache is
//     flushed. The outputs of a block's last calls are verified in full, and the events must add up
//     to the time that passed on the host.
//  3. New values at the same addresses, timed and verified: first a few values replaced, then all
//     new. A kernel that cached results is now wrong or slower. Where it seems slower, steps 2 and
//     3 are repeated in two more pairs of processes, and the median counts.
//
// Device code can write anywhere in its context, so nothing that it might reach is trusted: inputs
// are mapped read-only, the reference's results are verified too, the reference's module is
// reloaded for each candidate, and the judge's memory is in another context.
//
// Device code of a Python task runs in a runner of its own, and the reference in its Python
// process. Both are timed as CUDA graphs where the reference can be captured.
//
// A shared object can do anything that its process can, including writing to inputs and forging
// event times. So the reference runs in another process, inputs are fingerprinted, outputs are
// overwritten by the judge, and reported times must add up to the time on the judge's clock, given
// the time between calls of the reference.
//
// Afterwards the runners are either usable or not (CudaRunner::alive). UNAVAILABLE: the runner or
// the reference failed through no fault of the candidate. Returns the token's status when it is
// stopped.
[[nodiscard]] absl::StatusOr<MeasureOutcome> JudgeCuda(const CudaJudgeRequest& request);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_JUDGE_H_
