#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_CUDA_PROGRAM_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_CUDA_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "services/worker/cuda/judge/cuda_case_plan.h"
#include "services/worker/cuda/runner/program_table.h"
#include "services/worker/python/task_programs.h"

namespace kernelcast::worker {

// A compiled program: a candidate, a reference or an oracle. Either device code with its launches,
// or host code that launches by itself: a shared object, for candidates only, or a Python program.
struct CudaProgram {
  std::string cubin;
  std::vector<Launch> launches;
  std::string workspace_bytes;
  std::vector<Tunable> tunables;
  std::string object = {};  // empty: device code

  bool host_launched() const { return !object.empty(); }

  // Names of its kernels without duplicates, in the order of the launches.
  std::vector<std::string> KernelNames() const;
};

// Where the outputs of a call go.
struct OutputPlaces {
  CudaCasePlan::Arena arena;
  const std::vector<CasePlan::Place>& places;
};

// One call of a program of launches. INVALID_ARGUMENT: a launch has no plan.
struct PlannedProgram {
  cuda_runner::Program program;
  uint64_t workspace_bytes = 0;
};
[[nodiscard]] absl::StatusOr<PlannedProgram> PlanProgram(const Problem& problem,
                                                         const CudaProgram& program,
                                                         const CasePlan::Case& at,
                                                         const OutputPlaces& outputs);

// The same for device code in a Python task, whose launches name what TaskLaunches lists. An input
// that the reference changes is copied to the end of the workspace before the launches, which is
// part of the call as it is of the reference's.
[[nodiscard]] absl::StatusOr<PlannedProgram> PlanTaskProgram(const PythonTaskPrograms& task,
                                                             const CudaProgram& program,
                                                             const CasePlan::Case& at,
                                                             const OutputPlaces& outputs);

// One call of host code. `expected`: outputs have the type in which expected values are kept.
[[nodiscard]] absl::StatusOr<cuda_runner::Program> PlanCall(const CasePlan::Case& at,
                                                            const OutputPlaces& outputs,
                                                            bool expected);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_CUDA_PROGRAM_H_
