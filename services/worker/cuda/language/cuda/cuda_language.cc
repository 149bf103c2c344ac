#include "services/worker/cuda/language/cuda/cuda_language.h"

#include <optional>
#include <utility>
#include <variant>

#include "common/base/status.h"
#include "services/worker/core/launch_plan.h"
#include "services/worker/cuda/language/device_code.h"

namespace kernelcast::worker {

std::string CudaLanguage::ArtifactId(const Candidate& candidate,
                                     const std::string& architecture) const {
  return compiler_.ArtifactId(candidate.source, candidate.flags, architecture);
}

absl::StatusOr<CompileResult> CudaLanguage::Compile(const CompileJob& job,
                                                    const CancelToken& cancel) {
  const Candidate& candidate = job.candidate;
  const std::string& architecture = job.gpu.architecture;
  if (auto unplanned = UnplannedLaunches(job)) return Refusal(*std::move(unplanned));
  KC_ASSIGN_OR_RETURN(CompileResult result,
                      compiler_.Compile(candidate.source, candidate.flags,
                                        LaunchShapesOf(candidate.launches, candidate.tunables),
                                        architecture, cancel));
  auto* const success = std::get_if<CompileSuccess>(&result.result);
  if (success == nullptr) return result;
  KC_ASSIGN_OR_RETURN(
      std::optional<std::string> wrong,
      CheckAndSimulate(
          job, {.architecture = architecture, .source = candidate.source, .flags = candidate.flags},
          compiler_, cancel, *success));
  if (wrong) return Refusal(*std::move(wrong));
  success->ptx.clear();
  return result;
}

absl::StatusOr<CudaProgram> CudaLanguage::Load(const Candidate& candidate, const Artifact& artifact,
                                               const PythonTaskPrograms*) const {
  return CudaProgram{artifact.content, candidate.launches, candidate.workspace_bytes,
                     candidate.tunables};
}

}  // namespace kernelcast::worker
