#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_CUDA_CUDA_LANGUAGE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_CUDA_CUDA_LANGUAGE_H_

#include <memory>
#include <string>

#include "services/worker/cuda/compiler/cuda_compiler.h"
#include "services/worker/cuda/language/language.h"

namespace kernelcast::worker {

// CUDA device code with its launches, compiled by NVRTC.
class CudaLanguage final : public Language {
 public:
  static absl::StatusOr<std::unique_ptr<Language>> Open(const LanguageSetup& setup) {
    return std::make_unique<CudaLanguage>(setup.nvrtc);
  }
  // `compiler` must outlive this.
  explicit CudaLanguage(CudaCompiler& compiler) : compiler_(compiler) {}

  const std::string& toolchain() const override { return compiler_.toolchain().description; }
  std::string ArtifactId(const Candidate& candidate,
                         const std::string& architecture) const override;
  absl::StatusOr<CompileResult> Compile(const CompileJob& job, const CancelToken& cancel) override;
  absl::StatusOr<CudaProgram> Load(const Candidate& candidate, const Artifact& artifact,
                                   const PythonTaskPrograms* task) const override;

 private:
  CudaCompiler& compiler_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_CUDA_CUDA_LANGUAGE_H_
