#include "services/worker/cuda/language/triton/triton_language.h"

#include <optional>
#include <variant>

#include "common/base/status.h"
#include "services/worker/cuda/language/device_code.h"

namespace kernelcast::worker {

absl::StatusOr<CompileResult> TritonLanguage::Compile(const CompileJob& job,
                                                      const CancelToken& cancel) {
  const auto& [problem, target, candidate, gpu] = job;
  KC_ASSIGN_OR_RETURN(CompileResult result,
                      compiler_->Compile(problem, target, candidate, gpu.architecture, cancel));
  auto* const success = std::get_if<CompileSuccess>(&result.result);
  if (success == nullptr) return result;
  // Triton decides about launches: the size of a block, shared memory, further arguments.
  KC_ASSIGN_OR_RETURN(TritonArtifact artifact, DecodeTritonArtifact(success->artifact.content));
  Candidate launched = candidate;
  launched.launches = std::move(artifact.launches);
  const CompileJob launches{problem, target, launched, gpu};
  if (auto unplanned = UnplannedLaunches(launches)) return Refusal(*std::move(unplanned));
  KC_ASSIGN_OR_RETURN(
      std::optional<std::string> wrong,
      CheckAndSimulate(launches, {.architecture = gpu.architecture, .ptx = success->ptx},
                       simulator_, cancel, *success));
  if (wrong) return Refusal(*std::move(wrong));
  success->ptx.clear();
  return result;
}

absl::StatusOr<CudaProgram> TritonLanguage::Load(const Candidate& candidate,
                                                 const Artifact& artifact,
                                                 const PythonTaskPrograms*) const {
  KC_ASSIGN_OR_RETURN(TritonArtifact made, DecodeTritonArtifact(artifact.content));
  return CudaProgram{std::move(made.cubin), std::move(made.launches), candidate.workspace_bytes,
                     candidate.tunables};
}

}  // namespace kernelcast::worker
