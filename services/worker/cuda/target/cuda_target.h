#ifndef KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_TARGET_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_TARGET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/core/options.h"
#include "services/worker/core/target.h"
#include "services/worker/cuda/api/cuda_api.h"
#include "services/worker/cuda/compiler/cuda_compiler.h"
#include "services/worker/cuda/judge/device_monitor.h"
#include "services/worker/cuda/judge/judge.h"
#include "services/worker/cuda/nvcc/nvcc_compiler.h"
#include "services/worker/cuda/target/cuda_measurer.h"
#include "services/worker/lease/timing_lease.h"

namespace kernelcast::worker {

struct CudaTargetOptions {
  // Where NVIDIA's toolkit is; empty: it is looked for.
  std::string cuda_home;
  // Of this program; what it starts is beside it, and a toolkit may be in ../cuda.
  std::string program_folder;
  // What to compile for where there is no device, or for others; empty: the device's own, or
  // kDefaultArchitecture.
  std::string architecture;
  std::string cache_directory;
  int64_t max_cache_bytes = int64_t{1} << 30;
  int compile_processes = 1;
  // For candidates that launch from the host: the C++ compiler beside nvcc, and the
  // folders that hold kernelcast/candidate.h.
  std::string host_compiler = "g++";
  std::vector<std::string> include_directories;
  // User that compilers, and runners of host code, become where the worker is root; 0: they stay
  // root.
  uint32_t untrusted_uid = 0;
  // What a candidate's host code may take of the host's memory.
  int64_t host_memory_bytes = int64_t{4} << 30;
  // Locks of the timing leases of this machine's devices are DIRECTORY/kernelcast-UUID.lock; "":
  // this process only.
  std::string lease_directory;
  std::string worker_id;
  MeasureOptions measure = CudaMeasureOptions();
  // Problems whose inputs and expected outputs are kept on the device.
  int prepared_problems = 2;
  // A runner is replaced by a fresh one after so many candidates.
  int candidates_per_runner = 200;
};

// Candidates of device CUDA, and those that launch it from the host where there is an nvcc, for the
// first device that the driver shows this process. Without a device it compiles for those that have
// one; without a toolkit it does nothing, and says why.
class CudaTarget final : public Target {
 public:
  static constexpr std::string_view kDefaultArchitecture = "sm_90a";

  // UNAVAILABLE: the cache folder cannot be used. INTERNAL: the lease file cannot. What else is
  // missing is said by Describe.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaTarget>> Make(CudaTargetOptions options);

  TargetInfo Describe() const override { return info_; }
  absl::StatusOr<CompileResult> Compile(const Problem& problem, const Candidate& candidate,
                                        const CancelToken& cancel) override;
  absl::StatusOr<CompileResult> CompileReference(const Problem& problem,
                                                 const CancelToken& cancel) override;
  absl::StatusOr<Artifact> Resolve(const Candidate& candidate, const Artifact& sent) override;
  absl::StatusOr<Measurement> Measure(const Problem& problem, const Candidate& candidate,
                                      const Artifact& artifact, MeasureLevel level,
                                      const CancelToken& cancel) override;
  absl::StatusOr<Profile> ProfileCandidate(const Problem& problem, const Candidate& candidate,
                                           const Artifact& artifact,
                                           const CancelToken& cancel) override;

  // Where the time of the last measurement went; not while another is under way.
  const CudaJudgeTimes& last_times() const { return last_times_; }

 private:
  explicit CudaTarget(CudaTargetOptions options) : options_(std::move(options)) {}

  absl::StatusOr<DeviceFacts> ProbeDevice();
  // `device` may be null; `fits` becomes an error where what is compiled cannot run on it.
  absl::Status ProbeToolchain(const DeviceFacts* device, absl::Status& fits);
  void ProbeNvcc(const CudaToolkit& toolkit);
  void ProbeRunnerSandbox();
  // Whether there will be hardware counters, as far as can be told without asking for them.
  void ProbeCounters();
  // Adds to the facts what the virtual GPU sees of the launches at the bench shapes.
  absl::Status AddSimulations(const Problem& problem, const ProblemTarget& target,
                              const Candidate& candidate, const CancelToken& cancel,
                              CompileSuccess& success);
  absl::StatusOr<CudaProgram> CompileTrusted(const KernelProgram& program, const std::string& what,
                                             const CancelToken& cancel);
  // Everything that it takes to run the candidate.
  absl::StatusOr<CudaPrograms> CompileAll(const Problem& problem, const Candidate& candidate,
                                          const Artifact& artifact, const CancelToken& cancel);

  const CudaTargetOptions options_;
  // Constant after construction.
  TargetInfo info_;
  const CudaApi* api_ = nullptr;
  std::string cupti_library_;
  std::string cublas_folder_;  // empty: there is none
  std::unique_ptr<CompileCache> cache_;
  std::unique_ptr<CudaCompiler> compiler_;
  // Null where host-launched candidates cannot be compiled, for the reason beside it.
  std::unique_ptr<NvccCompiler> nvcc_;
  std::string no_nvcc_reason_;
  std::unique_ptr<TimingLease> lease_;
  std::unique_ptr<DeviceMonitor> monitor_;

  // Used under the timing lease.
  std::unique_ptr<CudaMeasurer> measurer_;
  CudaJudgeTimes last_times_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_TARGET_H_
