#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TRITON_TRITON_LANGUAGE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TRITON_TRITON_LANGUAGE_H_

#include <memory>
#include <string>
#include <utility>

#include "services/worker/cuda/compiler/cuda_compiler.h"
#include "services/worker/cuda/language/language.h"
#include "services/worker/cuda/language/triton/triton_compiler.h"

namespace kernelcast::worker {

// Triton kernels with their launches. They run as device code, without Python.
class TritonLanguage final : public Language {
 public:
  static absl::StatusOr<std::unique_ptr<Language>> Open(const LanguageSetup& setup);
  // `simulator` must outlive this.
  TritonLanguage(std::unique_ptr<TritonCompiler> compiler, CudaCompiler& simulator)
      : compiler_(std::move(compiler)), simulator_(simulator) {}

  const std::string& toolchain() const override { return compiler_->description(); }
  std::string ArtifactId(const Candidate& candidate,
                         const std::string& architecture) const override {
    return compiler_->ArtifactId(candidate, architecture);
  }
  absl::StatusOr<CompileResult> Compile(const CompileJob& job, const CancelToken& cancel) override;
  absl::StatusOr<CudaProgram> Load(const Candidate& candidate, const Artifact& artifact,
                                   const PythonTaskPrograms* task) const override;

 private:
  const std::unique_ptr<TritonCompiler> compiler_;
  CudaCompiler& simulator_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TRITON_TRITON_LANGUAGE_H_
