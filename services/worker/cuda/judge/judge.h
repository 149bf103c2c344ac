#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_JUDGE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_JUDGE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/domain/measurement.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/speedup_interval.h"
#include "services/worker/cuda/judge/device_monitor.h"
#include "services/worker/cuda/judge/prepared_problem.h"
#include "services/worker/cuda/judge/runner_client.h"

namespace kernelcast::worker {

// Where the time of one judgement went.
struct CudaJudgeTimes {
  int64_t load_ns = 0;
  int64_t check_ns = 0;
  int64_t timing_ns = 0;
  int64_t fresh_ns = 0;
};

// Runners of the two sides. Device-code candidates share one process with the reference. A shared
// object has its own, untrusted process.
struct CudaRunners {
  CudaRunner* reference = nullptr;
  CudaRunner* candidate = nullptr;

  bool alive() const {
    return reference != nullptr && reference->alive() && candidate != nullptr && candidate->alive();
  }
};

// Destroys the current runners and returns new ones, with the problem attached in other memory.
// Used for figures that span several processes, and after a crash.
using RenewRunners = std::function<absl::StatusOr<CudaRunners>()>;

// Verifies and times one candidate on the calling thread, to which `device` is bound and which must
// hold the timing lease. All comparisons happen in the judge's own context; the runner executes
// launches and reads events. Both sides write to the same memory in turn, except for host-launched
// candidates.
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
// A shared object can do anything that its process can, including writing to inputs and forging
// event times. So the reference runs in another process, inputs are fingerprinted, outputs are
// overwritten by the judge, and reported times must add up to the time on the judge's clock, given
// the time between calls of the reference.
//
// Afterwards `runners` are either usable or not (CudaRunner::alive). UNAVAILABLE: the runner or the
// reference failed through no fault of the candidate. Returns the token's status when it is
// stopped.
[[nodiscard]] absl::StatusOr<MeasureOutcome> JudgeCuda(
    CudaPreparedProblem& prepared, const CudaProgram& candidate, MeasureLevel level,
    CudaDevice& device, JudgeKernels& kernels, CudaRunners runners, const RenewRunners& renew,
    DeviceMonitor& monitor, RunnerSpread& spread, const CancelToken& cancel, CudaJudgeTimes& times,
    const Clock& clock = Clock::Real());

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_JUDGE_H_
