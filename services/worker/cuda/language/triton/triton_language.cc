#include "services/worker/cuda/language/triton/triton_language.h"

#include "common/base/status.h"
#include "services/worker/cuda/language/device_code.h"

namespace kernelcast::worker {

absl::StatusOr<std::unique_ptr<Language>> TritonLanguage::Open(const LanguageSetup& setup) {
  TritonCompilerOptions options;
  options.python = setup.python;
  options.toolkit = setup.toolkit;
  options.work_directory = setup.work_directory;
  options.sandbox = setup.sandbox;
  KC_ASSIGN_OR_RETURN(auto compiler, TritonCompiler::Make(std::move(options), setup.cache));
  return std::make_unique<TritonLanguage>(std::move(compiler), setup.nvrtc);
}

absl::StatusOr<CompileResult> TritonLanguage::Compile(const CompileJob& job,
                                                      const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(CompileResult result, compiler_->Compile(job, cancel));
  KC_RETURN_IF_ERROR(CheckDecidedLaunches(job, simulator_, cancel, result));
  return result;
}

absl::StatusOr<CudaProgram> TritonLanguage::Load(const Candidate& candidate,
                                                 const Artifact& artifact,
                                                 const PythonTaskPrograms*) const {
  return LoadDeviceArtifact(candidate, artifact);
}

}  // namespace kernelcast::worker
