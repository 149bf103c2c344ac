#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_CUDA_CASE_PLAN_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_CUDA_CASE_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/base/secret_random.h"
#include "common/domain/problem.h"
#include "services/worker/core/options.h"
#include "services/worker/judge/case_plan.h"
#include "services/worker/python/task_programs.h"

namespace kernelcast::worker {

// The plan of a problem on a device, whose tensors are in the arenas.
struct CudaCasePlan : CasePlan {
  // Arenas, by the numbers that runners use.
  enum Arena : uint32_t {
    kInputs = 0,
    // Shared by both sides in turn, so that ratios do not depend on the placement of each side's
    // outputs.
    kOutputs = 1,
    // For a reference that runs in another process than the candidate, which must not see its
    // outputs. Holds no results of the reference while device code runs in the same process.
    kReferenceOutputs = 2,
    kScratch = 3,
    kExpected = 4,  // while the oracle runs, never while a candidate does
    kWeights = 5,   // of a Python task's reference, for device code
  };
  // Bytes before and after each output.
  static constexpr int64_t kGuardBytes = 4096;

  // Device memory that inputs, outputs and expected outputs need, and for a Python task the copies
  // of a call's tensors that the processes of both sides make. In floating point, because the sum
  // of legal sizes may overflow.
  double MemoryBytes(const Problem& problem) const;

  // Whether kAltered is a draw of its own, as for inputs that cannot be altered.
  bool draws_altered = false;
};

// `task` is null for other problems. The plan of a task saves memory if it would otherwise need
// more than half of `device_bytes`, and has no values of kAltered if it would then need more than
// `device_bytes`: those of kBase stand for them. FAILED_PRECONDITION: the problem has more calls or
// outputs than a runner takes.
[[nodiscard]] absl::StatusOr<CudaCasePlan> PlanCudaCases(const Problem& problem,
                                                         const PythonTaskPrograms* task,
                                                         const MeasureOptions& options,
                                                         uint64_t device_bytes,
                                                         SecretRandom& shapes_random);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_CUDA_CASE_PLAN_H_
