#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TILELANG_TILELANG_LANGUAGE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TILELANG_TILELANG_LANGUAGE_H_

#include <memory>
#include <string>
#include <utility>

#include "services/worker/artifacts/compile_cache.h"
#include "services/worker/cuda/compiler/cuda_compiler.h"
#include "services/worker/cuda/language/compile_server/compile_server.h"
#include "services/worker/cuda/language/language.h"

namespace kernelcast::worker {

// TileLang kernels. TileLang lowers them to CUDA with launches, in the sandbox of CompileServer,
// and NVRTC compiles this source with TileLang's headers. They run as device code, without Python.
class TilelangLanguage final : public Language {
 public:
  static absl::StatusOr<std::unique_ptr<Language>> Open(const LanguageSetup& setup);
  // `cache` must outlive this. `nvrtc` finds TileLang's headers.
  TilelangLanguage(std::unique_ptr<CompileServer> server, std::unique_ptr<CudaCompiler> nvrtc,
                   CompileCache& cache);

  const std::string& toolchain() const override { return toolchain_; }
  std::string ArtifactId(const Candidate& candidate,
                         const std::string& architecture) const override;
  absl::StatusOr<CompileResult> Compile(const CompileJob& job, const CancelToken& cancel) override;
  absl::StatusOr<CudaProgram> Load(const Candidate& candidate, const Artifact& artifact,
                                   const PythonTaskPrograms* task) const override;

 private:
  absl::StatusOr<CompileResult> CompileFresh(const CompileJob& job, const CancelToken& cancel);

  const std::unique_ptr<CompileServer> server_;
  const std::unique_ptr<CudaCompiler> nvrtc_;
  CompileCache& cache_;
  std::string toolchain_;  // constant after construction
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TILELANG_TILELANG_LANGUAGE_H_
