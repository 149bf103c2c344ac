#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_DEVICE_CODE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_DEVICE_CODE_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/target.h"
#include "services/worker/cuda/compiler/cuda_compiler.h"
#include "services/worker/cuda/language/language.h"

namespace kernelcast::worker {

// Functions for languages that produce device code with launches.

// Returns a result that refuses a candidate before it runs.
CompileResult Refusal(std::string log);

// Returns why the launches have no plan at some shape of the problem, or nullopt.
std::optional<std::string> UnplannedLaunches(const CompileJob& job);

// Checks the arguments of the launches against the signatures in the PTX of `success`, and adds the
// simulation of `program` at the timed shapes to its facts. Returns why the candidate is refused,
// or nullopt. Errors as CudaCompiler::Simulate.
[[nodiscard]] absl::StatusOr<std::optional<std::string>> CheckAndSimulate(
    const CompileJob& job, const SimulatedProgram& program, CudaCompiler& simulator,
    const CancelToken& cancel, CompileSuccess& success);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_DEVICE_CODE_H_
