#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PROFILE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PROFILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/target.h"
#include "services/worker/cuda/judge/prepared_problem.h"
#include "services/worker/cuda/judge/runner_client.h"

namespace kernelcast::worker {

struct CudaProfileOptions {
  // Path of libcupti; empty: none.
  std::string cupti_library;
  // Limit for the profiler, from its start.
  int64_t limit_ns = 60'000'000'000;
  uint32_t warm_calls = 60;
};

// Returns the options of a runner that profiles.
CudaRunnerOptions ProfilingRunner(CudaRunnerOptions runner, const CudaProfileOptions& options);

// Profiles a candidate in `runner`, which was started for profiling, has the problem attached and
// cannot be used afterwards. For each bench shape:
//
//  1. warm calls on one set of inputs, timed by events and then traced: kernel names, counts,
//     durations, registers, shared memory;
//  2. hardware counters of one call, with the cache as calls on other sets leave it, repeated until
//     all counters are read.
//
// A Python candidate only has the first, as its own process reports it.
//
// If the profiler, the candidate or the limit ends this early, the result lacks the rest and says
// why. Returns the token's status when it is stopped. INVALID_ARGUMENT: a launch has no plan.
[[nodiscard]] absl::StatusOr<Profile> ProfileCuda(CudaPreparedProblem& prepared,
                                                  const CudaProgram& candidate, CudaRunner& runner,
                                                  const CudaProfileOptions& options,
                                                  const CancelToken& cancel,
                                                  const Clock& clock = Clock::Real());

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_PROFILE_H_
