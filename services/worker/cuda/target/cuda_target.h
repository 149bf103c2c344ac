#ifndef KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_TARGET_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_TARGET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/core/options.h"
#include "services/worker/core/target.h"
#include "services/worker/cuda/api/cuda_api.h"
#include "services/worker/cuda/compiler/cuda_compiler.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/device_monitor.h"
#include "services/worker/cuda/judge/judge.h"
#include "services/worker/cuda/nvcc/nvcc_compiler.h"
#include "services/worker/cuda/target/candidate_loader.h"
#include "services/worker/cuda/target/cuda_measurer.h"
#include "services/worker/cuda/triton/triton_compiler.h"
#include "services/worker/lease/timing_lease.h"
#include "services/worker/python/python_compiler.h"
#include "services/worker/python/task_programs.h"
#include "services/worker/python/zygote.h"

namespace kernelcast::worker {

struct CudaTargetOptions {
  // Folder of NVIDIA's toolkit; empty: search for it.
  std::string cuda_home;
  // Folder of this program and of the programs that it starts. A toolkit may be in ../cuda.
  std::string program_folder;
  // GPUs to measure on, among those that the driver shows; see SelectGpus.
  std::string gpus = "all";
  // Architecture to compile for; empty: that of the device, or kDefaultArchitecture if there is
  // none.
  std::string architecture;
  std::string cache_directory;
  int64_t max_cache_bytes = int64_t{1} << 30;
  int compile_processes = 1;
  // For candidates that launch from the host: the C++ compiler used with nvcc, and the folders that
  // contain kernelcast/candidate.h.
  std::string host_compiler = "g++";
  std::vector<std::string> include_directories;
  // Interpreter that has Triton, for device_triton candidates, and PyTorch, for Python tasks;
  // empty: there are none.
  std::string python;
  // User of compilers and of runners of host code when the worker is root; 0: stay root.
  uint32_t untrusted_uid = 0;
  // Limit of host memory for a candidate's host code.
  int64_t host_memory_bytes = int64_t{4} << 30;
  // The timing lease of each device is locked by DIRECTORY/kernelcast-UUID.lock. "": leases cover
  // only this process.
  std::string lease_directory;
  std::string worker_id;
  MeasureOptions measure = CudaMeasureOptions();
  // Per device; see CudaMeasurerOptions::prepared_bytes.
  uint64_t prepared_bytes = 0;
  // A runner is replaced after this many candidates.
  int candidates_per_runner = 200;
};

// Target for device CUDA candidates, for device Triton ones if there is an interpreter with Triton,
// for host-launched ones if there is an nvcc, and for Python tasks and their candidates if there is
// an interpreter with PyTorch for CUDA. Measures on
// all devices that the driver shows this process, or on the chosen ones. Each device has its own
// timing lease and runners; if one fails, the others continue. Compilers and artefacts are shared.
// Without a device it only compiles. Without a toolkit it does nothing, and Describe says why.
class CudaTarget final : public Target {
 public:
  static constexpr std::string_view kDefaultArchitecture = "sm_90a";

  // UNAVAILABLE: the cache folder is unusable. INTERNAL: the lease file is unusable. Describe
  // reports anything else that is missing.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaTarget>> Make(CudaTargetOptions options);

  ~CudaTarget() override;

  TargetInfo Describe() const override;
  absl::StatusOr<CompileResult> Compile(const Problem& problem, const Candidate& candidate,
                                        const CancelToken& cancel) override;
  absl::StatusOr<CompileResult> CompileReference(const Problem& problem,
                                                 const CancelToken& cancel) override;
  absl::StatusOr<CompileResult> CompileFor(const std::string& device_model, const Problem& problem,
                                           const Candidate& candidate,
                                           const CancelToken& cancel) override;
  absl::StatusOr<CompileResult> CompileReferenceFor(const std::string& device_model,
                                                    const Problem& problem,
                                                    const CancelToken& cancel) override;
  void Announce(const Problem& problem, const CancelToken& cancel) override;
  void Expect(const Problem& problem, const Candidate& candidate) override;
  absl::StatusOr<Artifact> Resolve(const Candidate& candidate, const Artifact& sent) override;
  absl::StatusOr<Measurement> Measure(const Problem& problem, const Candidate& candidate,
                                      const Artifact& artifact, MeasureLevel level,
                                      const CancelToken& cancel) override;
  absl::StatusOr<Profile> ProfileCandidate(const Problem& problem, const Candidate& candidate,
                                           const Artifact& artifact,
                                           const CancelToken& cancel) override;
  absl::StatusOr<Measurement> MeasureOn(size_t device, const Problem& problem,
                                        const Candidate& candidate, const Artifact& artifact,
                                        MeasureLevel level, const CancelToken& cancel) override;
  absl::StatusOr<Profile> ProfileOn(size_t device, const Problem& problem,
                                    const Candidate& candidate, const Artifact& artifact,
                                    const CancelToken& cancel) override;
  bool Revive(size_t device) override;

  // Where the time of the first device's last measurement went. Do not call it during a
  // measurement.
  const CudaJudgeTimes& last_times() const { return devices_.at(0)->last_times; }

 private:
  explicit CudaTarget(CudaTargetOptions options) : options_(std::move(options)) {}

  // A GPU and its state in this process.
  struct Device {
    int ordinal = 0;
    DeviceFacts facts;
    std::string architecture;
    std::unique_ptr<TimingLease> lease;
    std::unique_ptr<DeviceMonitor> monitor;
    std::vector<DevicePeak> peaks;
    // Used under the timing lease.
    std::unique_ptr<CudaMeasurer> measurer;
    CudaJudgeTimes last_times;
    // Why it no longer measures, or "". Protected by mutex_ of the target.
    std::string failure;
  };

  // Finds the devices; succeeds with at least one.
  absl::Status ProbeDevices();
  absl::Status ProbeToolchain();
  // Drops devices that do not fit the toolkit or the requested architecture.
  absl::Status FitArchitectures();
  absl::Status OpenDevices();
  void ProbeNvcc(const CudaToolkit& toolkit);
  void ProbeTriton(const CudaToolkit& toolkit);
  void ProbePython(const CudaToolkit& toolkit);
  void ProbeRunnerSandbox();
  // Creates the device's context and finds the peaks for rooflines.
  void ProbePeaks(Device& device);
  // Determines whether hardware counters are available, as far as possible without using them.
  void ProbeCounters();
  // Adds the virtual GPU's simulation of the launches at the bench shapes to the facts.
  absl::Status AddSimulations(const Problem& problem, const ProblemTarget& target,
                              const Candidate& candidate, const std::string& device_model,
                              const std::string& architecture, const CancelToken& cancel,
                              CompileSuccess& success);
  // Returns the first device of the model, or null.
  const Device* FindModel(const std::string& device_model) const;
  absl::StatusOr<CompileResult> CompileOn(const std::string& device_model,
                                          const std::string& architecture, const Problem& problem,
                                          const Candidate& candidate, const CancelToken& cancel);
  absl::StatusOr<CompileResult> CompileTriton(const std::string& device_model,
                                              const std::string& architecture,
                                              const Problem& problem, const ProblemTarget& target,
                                              const Candidate& candidate,
                                              const CancelToken& cancel);
  absl::StatusOr<CudaProgram> CompileTrusted(const KernelProgram& program, const std::string& what,
                                             const std::string& architecture,
                                             const CancelToken& cancel);
  absl::StatusOr<std::vector<std::string>> CompileJudge(const std::string& architecture,
                                                        const CancelToken& cancel);
  std::set<std::string> Architectures() const;
  void StopAhead();
  // Returns the compiled programs that judging a problem's candidates needs besides them. Cached.
  absl::StatusOr<std::shared_ptr<const CudaPrograms>> TrustedPrograms(
      const Problem& problem, const std::string& architecture, const CancelToken& cancel);
  // The task of a problem, described on the device at first.
  absl::StatusOr<std::shared_ptr<const PythonTaskPrograms>> TaskOf(Device& device,
                                                                   const Problem& problem,
                                                                   const CancelToken& cancel);
  void NoteFailure(Device& device, const absl::Status& status);
  // Returns everything needed to run the candidate.
  absl::StatusOr<CudaPrograms> CompileAll(Device& device, const Problem& problem,
                                          const Candidate& candidate, const Artifact& artifact,
                                          const CancelToken& cancel);

  const CudaTargetOptions options_;
  // Constant after construction.
  TargetInfo info_;
  const CudaApi* api_ = nullptr;
  std::string cupti_library_;
  std::string cublas_folder_;  // empty: none
  std::unique_ptr<CompileCache> cache_;
  std::unique_ptr<CudaCompiler> compiler_;
  // Null if host-launched candidates cannot be compiled, for the reason that follows.
  std::unique_ptr<NvccCompiler> nvcc_;
  std::string no_nvcc_reason_;
  // Null if Triton candidates cannot be compiled, for the reason that follows.
  std::unique_ptr<TritonCompiler> triton_;
  std::string no_triton_reason_;
  // Null if there are no Python tasks, for the reason that follows.
  std::unique_ptr<PythonCompiler> python_;
  std::string no_python_reason_;
  std::shared_ptr<PythonZygote> zygote_;
  // Of the first device. With several, it is not known which one will measure a candidate.
  std::unique_ptr<CandidateLoader> loader_;
  std::vector<std::unique_ptr<Device>> devices_;

  // Held while a device's copy is timed, so that copies on several devices do not overlap.
  std::mutex copying_;
  mutable std::mutex mutex_;
  // Protected by mutex_. By problem and architecture.
  std::map<std::string, std::shared_ptr<const CudaPrograms>> trusted_;
  std::map<std::string, std::shared_ptr<const PythonTaskPrograms>> tasks_;  // by problem

  // Compiles in advance of the first candidate.
  CancelToken stopping_;
  std::thread ahead_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_TARGET_H_
