#ifndef KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_TARGET_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_TARGET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/core/target.h"
#include "services/worker/cuda/api/cuda_api.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/device_monitor.h"
#include "services/worker/cuda/judge/judge.h"
#include "services/worker/cuda/target/candidate_loader.h"
#include "services/worker/cuda/target/cuda_compilers.h"
#include "services/worker/cuda/target/cuda_measurer.h"
#include "services/worker/cuda/target/cuda_target_options.h"
#include "services/worker/cuda/target/trusted_programs.h"
#include "services/worker/lease/timing_lease.h"
#include "services/worker/python/task_programs.h"

namespace kernelcast::worker {

// Target for device CUDA candidates, for device Triton ones if there is an interpreter with Triton,
// for host-launched ones if there is an nvcc, and for Python tasks and their candidates if there is
// an interpreter with PyTorch for CUDA. Measures on all devices that the driver shows this process,
// or on the chosen ones. Each device has its own timing lease and runners; if one fails, the others
// continue. Compilers and artefacts are shared. Compiling a Python candidate also records what it
// launches, on the processor. Without a device it only compiles, and takes any PyTorch. Without a
// toolkit it does nothing, and Describe says why.
class CudaTarget final : public Target {
 public:
  static constexpr std::string_view kDefaultArchitecture = "sm_90a";

  // UNAVAILABLE: the cache folder is unusable. INTERNAL: the lease file is unusable. Describe
  // reports anything else that is missing.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaTarget>> Make(CudaTargetOptions options);

  ~CudaTarget() override;

  TargetInfo Describe() const override;
  absl::StatusOr<CompileResult> Compile(const CompileRequest& request,
                                        const CancelToken& cancel) override;
  void Announce(const Problem& problem, const CancelToken& cancel) override;
  std::optional<size_t> Expect(const Problem& problem, const Candidate& candidate,
                               MeasureLevel level, const DeviceWish& wish = {}) override;
  absl::StatusOr<Artifact> Resolve(const Candidate& candidate, const Artifact& sent) override;
  absl::StatusOr<Measurement> Measure(const MeasureRequest& request,
                                      const CancelToken& cancel) override;
  absl::StatusOr<Profile> ProfileCandidate(const MeasureRequest& request,
                                           const CancelToken& cancel) override;
  bool Revive(size_t device) override;

  // Where the time of the first device's last measurement went. Do not call it during a
  // measurement.
  const CudaMeasurer::Times& last_times() const { return devices_.at(0)->last_times; }

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
    // Null without Python. Outlives the measurer, which pauses it.
    std::unique_ptr<CandidateLoader> loader;
    // Used under the timing lease.
    std::unique_ptr<CudaMeasurer> measurer;
    CudaMeasurer::Times last_times;
    // Why it no longer measures, or "". Protected by mutex_ of the target.
    std::string failure;
  };

  // Finds the devices; succeeds with at least one.
  absl::Status ProbeDevices();
  absl::Status ProbeToolchain();
  // Drops devices that do not fit the toolkit or the requested architecture.
  absl::Status FitArchitectures();
  absl::Status OpenDevices();
  // What launches of device code may name in a task. From a device, or without values where there
  // is none.
  absl::StatusOr<std::shared_ptr<const PythonTaskPrograms>> DescribeTask(const Problem& problem,
                                                                         const CompileGpu& gpu,
                                                                         Device* device,
                                                                         const CancelToken& cancel);
  // Null if it is not described.
  std::shared_ptr<const PythonTaskPrograms> FindTask(const Problem& problem) const;
  std::shared_ptr<const PythonTaskPrograms> Keep(const Problem& problem,
                                                 PythonTaskPrograms described);
  // Creates the device's context and finds the peaks for rooflines.
  void ProbePeaks(Device& device);
  // Determines whether hardware counters are available, as far as possible without using them.
  void ProbeCounters();
  // FAILED_PRECONDITION: GPUs of this model have another architecture.
  absl::Status CheckSimulates(const std::string& device_model) const;
  // Returns the first device of the model, or null.
  Device* FindModel(const std::string& device_model) const;
  std::set<std::string> Architectures() const;
  void StopAhead();
  // The task of a problem, described on the device at first.
  absl::StatusOr<std::shared_ptr<const PythonTaskPrograms>> TaskOf(Device& device,
                                                                   const Problem& problem,
                                                                   const CancelToken& cancel);
  // In how many processes a candidate of the task is loaded ahead. 0: it needs too much memory.
  int ProcessesAhead(const Device& device, const PythonTaskPrograms& task,
                     MeasureLevel level) const;
  // Runners in which the candidate was loaded, without the lease: all that are loaded ahead, so
  // that none is being loaded while a final figure is timed, and at least one.
  absl::StatusOr<LoadedCandidate> TakeLoaded(Device& device, const CudaPrograms& programs,
                                             MeasureLevel level, const CancelToken& cancel);
  void NoteFailure(Device& device, const absl::Status& status);
  // Returns everything needed to run the candidate.
  absl::StatusOr<CudaPrograms> CompileAll(Device& device, const MeasureRequest& request,
                                          const CancelToken& cancel);

  const CudaTargetOptions options_;
  // Constant after construction.
  TargetInfo info_;
  const CudaApi* api_ = nullptr;
  // Null if there is no toolkit.
  std::unique_ptr<CudaCompilers> compilers_;
  std::unique_ptr<TrustedPrograms> trusted_;
  std::vector<std::unique_ptr<Device>> devices_;

  // Held while a device's copy is timed, so that copies on several devices do not overlap.
  std::mutex copying_;
  // Held while a task is described without a device.
  std::mutex describing_;
  mutable std::mutex mutex_;
  // Protected by mutex_. By problem.
  std::map<std::string, std::shared_ptr<const PythonTaskPrograms>> tasks_;
  // Shared with the devices' measurers, which note them. Thread-safe.
  const std::shared_ptr<ProblemFaults> faults_ = std::make_shared<ProblemFaults>();

  // Compiles in advance of the first candidate.
  CancelToken stopping_;
  std::thread ahead_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_TARGET_H_
