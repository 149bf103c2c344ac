#ifndef KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_COMPILERS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_COMPILERS_H_

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/artifacts/compile_cache.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/target.h"
#include "services/worker/cuda/api/cuda_toolkit.h"
#include "services/worker/cuda/compiler/cuda_compiler.h"
#include "services/worker/cuda/nvcc/nvcc_compiler.h"
#include "services/worker/cuda/target/cuda_target_options.h"
#include "services/worker/cuda/triton/triton_compiler.h"
#include "services/worker/native/compiler_step.h"
#include "services/worker/python/launch_recorder.h"
#include "services/worker/python/python_compiler.h"
#include "services/worker/python/zygote.h"
#include "services/worker/virtual_gpu/estimate/gpu_model.h"

namespace kernelcast::worker {

// The compilers of the cuda target: NVRTC, and those of nvcc, Triton and PyTorch that this machine
// has. They share a toolkit and a cache. Thread-safe.
class CudaCompilers {
 public:
  // Where a candidate is to run.
  struct DeviceModel {
    std::string name;
    std::string architecture;
    // Whether Python candidates are recorded, which takes longer than measuring them.
    bool record_launches = false;
  };

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
  [[nodiscard]] static absl::Status CheckKind(const Problem& problem, const Candidate& candidate);

  // For a candidate that CheckKind accepts. UNIMPLEMENTED: its compiler is missing.
  [[nodiscard]] absl::StatusOr<CompileResult> Compile(const Problem& problem,
                                                      const Candidate& candidate,
                                                      const DeviceModel& model,
                                                      const CancelToken& cancel);

  // Which artefact a candidate compiles to, and with what. UNIMPLEMENTED: its compiler is missing.
  struct Identity {
    std::string artifact_id;
    std::string toolchain;
  };
  [[nodiscard]] absl::StatusOr<Identity> Identify(const Candidate& candidate,
                                                  const std::string& architecture) const;
  std::optional<Artifact> Find(const std::string& artifact_id) { return nvrtc_->Find(artifact_id); }

  CudaCompiler& nvrtc() { return *nvrtc_; }
  const CudaToolkit& toolkit() const { return toolkit_; }
  // Null if no Python tasks can be run on a device, for the reason that follows.
  const std::shared_ptr<PythonZygote>& zygote() const { return zygote_; }
  const std::string& no_python_reason() const { return no_python_reason_; }

 private:
  CudaCompilers(const CudaTargetOptions& options, CudaToolkit toolkit)
      : options_(options), toolkit_(std::move(toolkit)) {}

  CompilerSandbox Sandbox() const;
  void ProbeNvcc();
  void ProbeTriton();
  void ProbePython();
  void MakeZygote(const PythonInterpreter& python);
  absl::StatusOr<CompileResult> CompileTriton(const Problem& problem, const ProblemTarget& target,
                                              const Candidate& candidate, const DeviceModel& model,
                                              const CancelToken& cancel);
  // What is simulated, and on which device.
  struct Simulated {
    const Problem& problem;
    const ProblemTarget& target;
    const Candidate& candidate;  // its launches
    SimulatedProgram program;
    const std::string& device;
  };
  // Adds the virtual GPU's simulation of the launches at the bench shapes to the facts.
  absl::Status AddSimulations(const Simulated& simulated, const CancelToken& cancel,
                              CompileSuccess& success);

  // Adds the simulation of what a Python candidate launches, or the reason why there is none.
  absl::Status AddRecorded(const Problem& problem, const Candidate& candidate,
                           const DeviceModel& model, const CancelToken& cancel,
                           CompileSuccess& success);
  absl::StatusOr<Recording> Record(const Problem& problem, const std::string& source,
                                   const virtual_gpu::GpuModel& gpu, const DeviceModel& model,
                                   const CancelToken& cancel);
  // Recording::needed_bytes of the task's reference.
  absl::StatusOr<double> NeededBytes(const Problem& problem, const virtual_gpu::GpuModel& gpu,
                                     const DeviceModel& model, const CancelToken& cancel);

  // Constant after Open and RequireDevicePython.
  const CudaTargetOptions& options_;
  const CudaToolkit toolkit_;
  std::unique_ptr<CompileCache> cache_;
  std::unique_ptr<CudaCompiler> nvrtc_;
  // Null if host-launched candidates cannot be compiled, for the reason that follows.
  std::unique_ptr<NvccCompiler> nvcc_;
  std::string no_nvcc_reason_;
  // Null if Triton candidates cannot be compiled, for the reason that follows.
  std::unique_ptr<TritonCompiler> triton_;
  std::string no_triton_reason_;
  // Null if there is no PyTorch, for the reason that follows.
  std::unique_ptr<PythonCompiler> python_;
  std::unique_ptr<LaunchRecorder> recorder_;
  std::string no_python_reason_;
  // Null if there is no PyTorch for CUDA.
  std::shared_ptr<PythonZygote> zygote_;

  std::mutex mutex_;
  // Protected by mutex_. By problem.
  std::map<std::string, double> needed_bytes_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_COMPILERS_H_
