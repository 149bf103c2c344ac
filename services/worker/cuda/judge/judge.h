#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_JUDGE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_JUDGE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/domain/measurement.h"
#include "services/worker/core/cancel.h"
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

// Who runs the two sides: one process where the candidate is device code; two where it is a shared
// object, whose process is its own and believed in nothing.
struct CudaRunners {
  CudaRunner* reference = nullptr;
  CudaRunner* candidate = nullptr;

  bool alive() const {
    return reference != nullptr && reference->alive() && candidate != nullptr && candidate->alive();
  }
};

// Makes runners with the problem attached, to take the place of those in hand, which it destroys
// first. For figures that span several processes, and after a crash.
using RenewRunners = std::function<absl::StatusOr<CudaRunners>()>;

// Verifies and times one candidate of device code, by the calling thread, to which `device` is
// bound and which holds the timing lease. All comparing is done in the judge's own context; the
// runner executes launches and reads events.
//
//  1. Correctness cases, twice, on outputs filled first with NaN and then with plausible values,
//     between guards.
//  2. For each bench shape: warm-up; blocks of timed calls in turn with the reference. Before every
//     timed call its outputs and workspace are overwritten and the L2 cache is flushed. What the
//     last calls of a block wrote is verified in full, and the events must add up to the time that
//     passed on the host.
//  3. New values at the same addresses, timed and verified: first all but a few as before, then all
//     new. A kernel that remembered is wrong now, or slower.
//
// Device code can write wherever its context can. What it might reach is therefore not believed:
// inputs are mapped to read only, the reference's results are verified as well, its module is
// loaded anew for each candidate, and the judge's memory is out of reach.
//
// A shared object can do whatever its process can, to which inputs are writable after all and the
// times of events are a matter of opinion. So the reference runs in another process, inputs are
// fingerprinted, outputs are overwritten from here, and the times that are told must add up to what
// passed by the judge's clock, the time between calls being known from the reference.
//
// `runners` are in use or lost afterwards (CudaRunner::alive). UNAVAILABLE: the runner or the
// reference came to harm for no fault of the candidate. The token's status when it is stopped.
[[nodiscard]] absl::StatusOr<MeasureOutcome> JudgeCuda(
    CudaPreparedProblem& prepared, const CudaProgram& candidate, MeasureLevel level,
    CudaDevice& device, JudgeKernels& kernels, CudaRunners runners, const RenewRunners& renew,
    DeviceMonitor& monitor, const CancelToken& cancel, CudaJudgeTimes& times,
    const Clock& clock = Clock::Real());

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_JUDGE_H_
