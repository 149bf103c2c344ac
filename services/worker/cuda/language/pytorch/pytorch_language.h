#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_PYTORCH_PYTORCH_LANGUAGE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_PYTORCH_PYTORCH_LANGUAGE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/facts.h"
#include "services/worker/artifacts/compile_cache.h"
#include "services/worker/cuda/language/language.h"
#include "services/worker/cuda/language/pytorch/launch_recorder.h"
#include "services/worker/cuda/language/pytorch/made_once.h"
#include "services/worker/native/compiler_step.h"
#include "services/worker/python/interpreter.h"
#include "services/worker/python/python_compiler.h"
#include "services/worker/virtual_gpu/estimate/gpu_model.h"

namespace kernelcast::worker {

// Candidates of PyTorch tasks. The artefact is the source. For forecasts, the launches of their
// Triton kernels are recorded and simulated, without a GPU.
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

  // As LaunchRecorder::Start.
  [[nodiscard]] absl::Status StartRecorder(const CancelToken& cancel) {
    return recorder_.Start(cancel);
  }

 private:
  // The simulation of what a candidate launches, or the reason why there is none.
  struct Simulated {
    std::vector<ShapeSimulation> simulations;
    std::string log;
  };
  // Adds what the candidate launches. Blocks.
  absl::Status AddRecorded(const CompileJob& job, const CancelToken& cancel, CompileResult& result);
  absl::StatusOr<Simulated> Simulate(const CompileJob& job, const virtual_gpu::GpuModel& gpu,
                                     const CancelToken& cancel);
  absl::StatusOr<Recording> Record(const CompileJob& job, const std::string& source,
                                   const CancelToken& cancel);
  // The recording of the task's reference.
  absl::StatusOr<MadeOnce<Recording>::Shared> RecordReference(const CompileJob& job,
                                                              const CancelToken& cancel);

  CompileCache& cache_;
  PythonCompiler compiler_;
  LaunchRecorder recorder_;
  const std::function<absl::StatusOr<Language*>(CandidateKind)> find_;

  // Candidates are compiled again to be measured, or as finalists.
  MadeOnce<Simulated> simulated_{1024};
  MadeOnce<Recording> references_{256};
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_PYTORCH_PYTORCH_LANGUAGE_H_
