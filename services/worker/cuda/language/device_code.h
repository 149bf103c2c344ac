#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_DEVICE_CODE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_DEVICE_CODE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/measurement.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/target.h"
#include "services/worker/cuda/compiler/cuda_compiler.h"
#include "services/worker/cuda/judge/cuda_program.h"
#include "services/worker/cuda/language/language.h"

namespace kernelcast::worker {

// Functions for languages that produce device code with launches.

// Returns a result that refuses a candidate before it runs.
CompileResult Refusal(std::string log, CompileStage stage = CompileStage::kAdmission);

// 90 for "sm_90a". 0: not an architecture.
uint64_t ArchitectureNumber(const std::string& architecture);

// The content of an artefact whose launches the compiler decided.
struct DeviceArtifact {
  std::string cubin;
  std::vector<Launch> launches;  // as of a device CUDA candidate
  // The CUDA source that the cubin was made from. Empty: it was made from PTX.
  std::string source = {};
};

std::string EncodeDeviceArtifact(const DeviceArtifact& artifact);
// INVALID_ARGUMENT: the content is not of this form.
[[nodiscard]] absl::StatusOr<DeviceArtifact> DecodeDeviceArtifact(std::string_view content);

// Returns why the launches have no plan at some shape of the problem, or nullopt.
std::optional<std::string> UnplannedLaunches(const CompileJob& job);

// Checks the arguments of the launches against the signatures in the PTX of `success`, and adds the
// simulation of `program` at the timed shapes to its facts. Returns why the candidate is refused,
// or nullopt. Errors as CudaCompiler::Simulate.
[[nodiscard]] absl::StatusOr<std::optional<std::string>> CheckAndSimulate(
    const CompileJob& job, const SimulatedProgram& program, CudaCompiler& simulator,
    const CancelToken& cancel, CompileSuccess& success);

// For languages whose compiler decides the launches. Adds to the facts of a success those of the
// launches of its artefact at the first bench shape. Refuses launches that have no plan there.
[[nodiscard]] absl::Status AddDecidedLaunchFacts(const CompileJob& job, CompileResult& result);

// The same languages: as UnplannedLaunches and CheckAndSimulate, with the launches of the artefact.
// Refuses what these refuse.
[[nodiscard]] absl::Status CheckDecidedLaunches(const CompileJob& job, CudaCompiler& simulator,
                                                const CancelToken& cancel, CompileResult& result);

// The program in a DeviceArtifact. Errors as DecodeDeviceArtifact.
[[nodiscard]] absl::StatusOr<CudaProgram> LoadDeviceArtifact(const Candidate& candidate,
                                                             const Artifact& artifact);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_DEVICE_CODE_H_
