#ifndef KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_COMPILERS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_COMPILERS_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/artifacts/compile_cache.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/target.h"
#include "services/worker/cuda/api/cuda_toolkit.h"
#include "services/worker/cuda/compiler/cuda_compiler.h"
#include "services/worker/cuda/language/language.h"
#include "services/worker/cuda/target/cuda_target_options.h"
#include "services/worker/native/compiler_step.h"
#include "services/worker/python/interpreter.h"
#include "services/worker/python/task_programs.h"
#include "services/worker/python/zygote.h"

namespace kernelcast::worker {

// The languages of the cuda target. A language is missing if this machine lacks its compiler. They
// share a toolkit and a cache. Thread-safe.
class CudaCompilers {
 public:
  // UNAVAILABLE: there is no toolkit, or the cache folder is unusable. `options` must outlive the
  // compilers.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaCompilers>> Open(
      const CudaTargetOptions& options);

  // Adds the toolchain, the kinds of candidates that can be compiled, and what is missing.
  void Fill(TargetInfo& info) const;

  // Drops Python tasks if PyTorch is made without CUDA, which serves only where there is no device.
  // Call it before the first Compile.
  void RequireDevicePython(TargetInfo& info);

  // INVALID_ARGUMENT: candidates of this kind are not for this problem, or not for the target.
  [[nodiscard]] absl::Status CheckKind(const Problem& problem, const Candidate& candidate) const;

  // Blocks until launches of Python candidates can be recorded without delay, if they can be.
  void StartRecorder(const CancelToken& cancel) const;

  // What a task's tensors are, without a device and its secret cases. UNIMPLEMENTED: there is no
  // interpreter with PyTorch. Other errors are those of PytorchLanguage::Describe.
  [[nodiscard]] absl::StatusOr<PythonTaskPrograms> DescribeTask(const Problem& problem,
                                                                const CompileGpu& gpu,
                                                                const CancelToken& cancel) const;

  // For a candidate that CheckKind accepts. `problem` is that of TaskLaunches for device code of a
  // task. UNIMPLEMENTED: its compiler is missing.
  [[nodiscard]] absl::StatusOr<CompileResult> Compile(const Problem& problem,
                                                      const Candidate& candidate,
                                                      const CompileGpu& gpu,
                                                      const CancelToken& cancel);

  // Returns the language of a kind of candidates. INVALID_ARGUMENT: the target does not take it.
  // UNIMPLEMENTED: its compiler is missing.
  [[nodiscard]] absl::StatusOr<Language*> Find(CandidateKind kind) const;

  // Returns the artefact if it is in the cache.
  std::optional<Artifact> FindArtifact(const std::string& artifact_id) {
    return nvrtc_->Find(artifact_id);
  }

  CudaCompiler& nvrtc() { return *nvrtc_; }
  const CudaToolkit& toolkit() const { return toolkit_; }
  // Null if no Python tasks can be run on a device, for the reason that follows.
  const std::shared_ptr<PythonZygote>& zygote() const { return zygote_; }
  const std::string& no_python_reason() const { return no_python_reason_; }

 private:
  struct Row : LanguageRow {
    std::unique_ptr<Language> language = nullptr;  // null: missing, for the reason
    std::string missing_reason = {};
  };

  CudaCompilers(const CudaTargetOptions& options, CudaToolkit toolkit)
      : options_(options), toolkit_(std::move(toolkit)) {}

  const Row* FindRow(CandidateKind kind) const;
  CudaCompilerOptions NvrtcOptions() const;
  LanguageSetup Setup();
  void MakeZygote(const absl::StatusOr<PythonInterpreter>& python);

  // Constant after Open and RequireDevicePython.
  const CudaTargetOptions& options_;
  const CudaToolkit toolkit_;
  std::unique_ptr<CompileCache> cache_;
  std::unique_ptr<CudaCompiler> nvrtc_;
  std::vector<Row> languages_;
  // Why no Python tasks run on a device.
  std::string no_python_reason_;
  // Null if there is no PyTorch for CUDA.
  std::shared_ptr<PythonZygote> zygote_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_COMPILERS_H_
