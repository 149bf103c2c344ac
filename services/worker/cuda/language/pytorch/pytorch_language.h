#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_PYTORCH_PYTORCH_LANGUAGE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_PYTORCH_PYTORCH_LANGUAGE_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/artifacts/compile_cache.h"
#include "services/worker/cuda/language/language.h"
#include "services/worker/cuda/language/pytorch/launch_recorder.h"
#include "services/worker/native/compiler_step.h"
#include "services/worker/python/interpreter.h"
#include "services/worker/python/python_compiler.h"

namespace kernelcast::worker {

// Candidates of PyTorch tasks. The artefact is the source. Where nothing is measured, the launches
// of their Triton kernels are recorded and simulated.
class PytorchLanguage final : public Language {
 public:
  static absl::StatusOr<std::unique_ptr<Language>> Open(const LanguageSetup& setup);
  // As members of LanguageSetup. Creates folders in `work_directory`.
  PytorchLanguage(const PythonInterpreter& python, const CompilerSandbox& sandbox,
                  const std::string& work_directory, CompileCache& cache,
                  std::function<absl::StatusOr<Language*>(CandidateKind)> find)
      : cache_(cache),
        compiler_(python, sandbox, work_directory, /*builds_sources=*/true),
        recorder_(python, sandbox, work_directory),
        find_(std::move(find)) {}

  const std::string& toolchain() const override { return compiler_.toolchain(); }
  std::string ArtifactId(const Candidate& candidate, const std::string&) const override {
    return compiler_.ArtifactId(candidate.source);
  }
  absl::StatusOr<CompileResult> Compile(const CompileJob& job, const CancelToken& cancel) override;
  absl::StatusOr<CudaProgram> Load(const Candidate& candidate, const Artifact& artifact,
                                   const PythonTaskPrograms* task) const override;

  // As LaunchRecorder::Describe.
  [[nodiscard]] absl::StatusOr<PythonTaskPrograms> Describe(const Problem& problem,
                                                            const CompileGpu& gpu,
                                                            const CancelToken& cancel);

 private:
  // Adds the simulation of what the candidate launches, or the reason why there is none.
  absl::Status AddRecorded(const CompileJob& job, const CancelToken& cancel,
                           CompileSuccess& success);
  absl::StatusOr<Recording> Record(const CompileJob& job, const std::string& source,
                                   const CancelToken& cancel);
  // Recording::needed_bytes of the task's reference.
  absl::StatusOr<double> NeededBytes(const CompileJob& job, const CancelToken& cancel);

  CompileCache& cache_;
  PythonCompiler compiler_;
  LaunchRecorder recorder_;
  const std::function<absl::StatusOr<Language*>(CandidateKind)> find_;

  std::mutex mutex_;
  // Protected by mutex_. By problem.
  std::map<std::string, double> needed_bytes_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_PYTORCH_PYTORCH_LANGUAGE_H_
