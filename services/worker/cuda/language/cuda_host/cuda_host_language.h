#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_CUDA_HOST_CUDA_HOST_LANGUAGE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_CUDA_HOST_CUDA_HOST_LANGUAGE_H_

#include <memory>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "services/worker/cuda/language/language.h"
#include "services/worker/cuda/nvcc/nvcc_compiler.h"

namespace kernelcast::worker {

// CUDA host code that launches its kernels itself, compiled by nvcc to a shared object.
class CudaHostLanguage final : public Language {
 public:
  static absl::StatusOr<std::unique_ptr<Language>> Open(const LanguageSetup& setup) {
    NvccOptions options;
    options.toolkit = setup.toolkit;
    options.host_compiler = setup.host_compiler;
    options.work_directory = setup.work_directory;
    options.include_directories = setup.include_directories;
    options.sandbox = setup.sandbox;
    KC_ASSIGN_OR_RETURN(auto compiler, NvccCompiler::Make(std::move(options), setup.cache));
    return std::make_unique<CudaHostLanguage>(std::move(compiler));
  }
  explicit CudaHostLanguage(std::unique_ptr<NvccCompiler> compiler)
      : compiler_(std::move(compiler)) {}

  const std::string& toolchain() const override { return compiler_->description(); }
  std::string ArtifactId(const Candidate& candidate,
                         const std::string& architecture) const override {
    return compiler_->ArtifactId(candidate.source, candidate.flags, architecture);
  }
  absl::StatusOr<CompileResult> Compile(const CompileJob& job, const CancelToken& cancel) override {
    return compiler_->Compile(job.candidate.source, job.candidate.flags, job.gpu.architecture,
                              cancel);
  }
  absl::StatusOr<CudaProgram> Load(const Candidate&, const Artifact& artifact,
                                   const PythonTaskPrograms*) const override {
    CudaProgram program;
    program.object = artifact.content;
    return program;
  }

 private:
  const std::unique_ptr<NvccCompiler> compiler_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_CUDA_HOST_CUDA_HOST_LANGUAGE_H_
