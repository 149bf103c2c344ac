#ifndef KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_MEASURER_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_MEASURER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/secret_random.h"
#include "common/domain/measurement.h"
#include "common/domain/problem.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/options.h"
#include "services/worker/core/problem_faults.h"
#include "services/worker/core/speedup_interval.h"
#include "services/worker/cuda/api/cuda_api.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/device_monitor.h"
#include "services/worker/cuda/judge/judge.h"
#include "services/worker/cuda/judge/judge_kernels.h"
#include "services/worker/cuda/judge/prepared_problem.h"
#include "services/worker/cuda/judge/profile.h"
#include "services/worker/cuda/judge/runner_client.h"

namespace kernelcast::worker {

struct CudaMeasurerOptions {
  MeasureOptions measure = CudaMeasureOptions();
  CudaRunnerOptions runner = {};
  // For Python tasks; without `python` there are none.
  CudaRunnerOptions python = {};
  // Device memory for prepared problems that are kept. 0: kPreparedShare of what is free when the
  // device is opened. The problem in use is always kept.
  uint64_t prepared_bytes = 0;
  // A runner is replaced after this many candidates.
  int candidates_per_runner = 200;
  CudaProfileOptions profile = {};
  PauseOtherWork pause_other_work = nullptr;
  // The same, and ends the processes that hold memory for later candidates.
  PauseOtherWork drop_other_work = nullptr;
  // Where problems at fault are noted. Shared by the devices of a worker.
  std::shared_ptr<ProblemFaults> faults = std::make_shared<ProblemFaults>();
  // Key for the values and placement of each preparation; for tests.
  std::function<SecretKey()> key = NewSecretKey;
};

// Compiled programs for the device.
struct CudaPrograms {
  std::vector<std::string> judge;  // JudgeModules(), in their order
  CudaProgram reference;
  CudaProgram oracle;
  CudaProgram candidate;
  // Set for a Python task, which has no other reference and oracle.
  std::shared_ptr<const PythonTaskPrograms> task = nullptr;
};

// Runners in which a candidate was loaded ahead, for as many of its processes.
using LoadedCandidate = std::deque<std::unique_ptr<CudaRunner>>;

// The timing lease of a device while it is held. Shared with the thread that ends a candidate's
// process.
using HeldLease = std::shared_ptr<void>;
using AcquireLease = std::function<absl::StatusOr<HeldLease>()>;
// For a device that nobody else uses.
absl::StatusOr<HeldLease> NoLease();

// Judges candidates on one device. Between candidates it keeps what is expensive to create: a
// context, prepared problems, a warm runner, and a spare for when a candidate has ended the runner.
// Use from one thread at a time, under the timing lease, which Measure acquires. Threads may
// change, but no thread that has started runners may end before the measurer.
class CudaMeasurer {
 public:
  // The rest is for what candidates and references allocate, and for contexts.
  static constexpr double kPreparedShare = 0.8;
  // Idle problems are dropped before a candidate is judged until this share is free.
  static constexpr double kFreeShare = 0.1;

  // `api`, `monitor` and `clock` must outlive the measurer. `ordinal` is the device's number as the
  // driver shows it to this process.
  CudaMeasurer(const CudaApi& api, DeviceMonitor& monitor, CudaMeasurerOptions options,
               const Clock& clock = Clock::Real(), int ordinal = 0)
      : api_(api),
        monitor_(monitor),
        options_(std::move(options)),
        clock_(clock),
        ordinal_(ordinal),
        spread_(options_.measure.spread) {}
  ~CudaMeasurer();
  CudaMeasurer(const CudaMeasurer&) = delete;
  CudaMeasurer& operator=(const CudaMeasurer&) = delete;

  // Creates the context if there is none that works, and makes it current on the calling thread.
  // The first candidate needs it. UNAVAILABLE: no context can be created.
  [[nodiscard]] absl::StatusOr<CudaDevice*> OpenDevice();
  // Peaks for rooflines. Call it before the first candidate.
  void set_peaks(std::vector<DevicePeak> peaks) { options_.measure.peaks = std::move(peaks); }

  // Begins to start a runner, which StartRunner then waits for, and a spare.
  void BeginRunners();
  // Starts a runner before the first candidate. UNAVAILABLE: it cannot use the device.
  [[nodiscard]] absl::Status StartRunner(const CancelToken& cancel);

  // Recreates the context and a runner. UNAVAILABLE: the device no longer works.
  [[nodiscard]] absl::Status CheckDevice(const CancelToken& cancel);

  // Returns the errors of Target::Measure, and RESOURCE_EXHAUSTED if the problem is too large for
  // the device. If something fails through no fault of the candidate, recreates it and judges the
  // candidate once more before it returns UNAVAILABLE.
  //
  // If the judge, the reference or the candidate lacks memory, all else that the worker holds on
  // the device is dropped, and the candidate is judged once more.
  //
  // The driver takes long to end a process that has used the device. After a Python candidate that
  // is ok, this returns at once, and another thread waits for the end with the lease. The next
  // candidate of the task, if it is loaded, is checked meanwhile, on other memory, and acquires the
  // lease before it is timed.
  [[nodiscard]] absl::StatusOr<MeasureOutcome> Measure(const Problem& problem,
                                                       const CudaPrograms& programs,
                                                       MeasureSpec spec, const CancelToken& cancel,
                                                       LoadedCandidate loaded = {},
                                                       const AcquireLease& acquire = NoLease);

  // Finds out what the inputs and outputs of a Python task are. Errors are those of DescribeTask,
  // and UNAVAILABLE.
  [[nodiscard]] absl::StatusOr<PythonTaskPrograms> Describe(const Problem& problem,
                                                            const CancelToken& cancel);

  // Profiles a candidate that Measure found to be ok, in a separate process: processes that time
  // are never profiled. A reason that prevents profiling is in the result; other errors are those
  // of Measure.
  [[nodiscard]] absl::StatusOr<Profile> ProfileCandidate(const Problem& problem,
                                                         const CudaPrograms& programs,
                                                         const CancelToken& cancel);

  // Where the time of the last candidate went.
  struct Times {
    int64_t prepare_ns = 0;
    int64_t attach_ns = 0;  // mapping memory into the candidate's process
    int64_t end_ns = 0;     // ending it, as far as the measurement waits
    CudaJudgeTimes judge;
  };
  const Times& times() const { return times_; }

 private:
  absl::StatusOr<MeasureOutcome> Judge(const Problem& problem, const CudaPrograms& programs,
                                       MeasureSpec spec, const CancelToken& cancel);
  // Notes a failed preparation that is the problem's fault.
  void NoteFault(const Problem& problem, const absl::Status& failed, int64_t took_ns);
  // Whether a candidate can be checked while the process of the last one ends.
  bool ChecksMeanwhile(const Problem& problem, const CudaPrograms& programs,
                       MeasureLevel level) const;
  // Waits for the end of the last candidate's process. Returns false if it has changed the
  // problem's inputs.
  bool AwaitEnd();
  // The same, and drops a damaged problem.
  void FinishCandidate();
  // Ends the current candidate's process on another thread, which then releases the lease.
  void EndOnThread(CudaPreparedProblem& prepared);
  void DropDamaged(CudaPreparedProblem& prepared);
  absl::Status PrepareDevice(const CudaPrograms& programs);
  absl::StatusOr<CudaPreparedProblem*> Prepare(const Problem& problem, const CudaPrograms& programs,
                                               const CancelToken& cancel);
  absl::StatusOr<CudaPreparedProblem*> PrepareAnew(const Problem& problem,
                                                   const CudaPrograms& programs,
                                                   const CancelToken& cancel);
  // Drops the least recently used problems but the first while they take more than this.
  void DropBeyond(uint64_t bytes);
  // The same, but `kept` problems, while too little is free for what is judged next.
  void DropWhileShort(const CudaPrograms& programs, size_t kept);
  uint64_t FreeBytes() const;
  bool MemoryIsScarce() const;
  // Drops all problems but this one, runners and loaded processes. Returns what keeps others from
  // being loaded, or null if there was nothing to drop.
  std::shared_ptr<void> TakeDevice(const Problem& problem);
  // Whether a result may be due to a lack of memory.
  bool LacksMemory(const absl::StatusOr<MeasureOutcome>& outcome) const;
  // Starts a runner for a shared object, with the memory that it works on.
  absl::Status StartObjectRunner(CudaPreparedProblem& prepared, const CudaProgram& candidate,
                                 const CancelToken& cancel);
  // Makes sure that there is a runner for device code of a task, with the memory that it works on.
  absl::Status StartDeviceRunner(CudaPreparedProblem& prepared, const CancelToken& cancel);
  // Returns a spare runner that works, or a new one.
  absl::StatusOr<std::unique_ptr<CudaRunner>> TakeRunner(const CancelToken& cancel);
  // Starts the runner of a problem's reference.
  absl::Status StartReference(const CudaPrograms& programs, const CancelToken& cancel);
  void DropRunner();
  void DropDeviceRunner();
  void DropDevice();

  const CudaApi& api_;
  DeviceMonitor& monitor_;
  CudaMeasurerOptions options_;
  const Clock& clock_;
  const int ordinal_;

  std::unique_ptr<CudaDevice> device_;
  uint64_t prepared_bytes_ = 0;
  uint64_t opened_free_bytes_ = 0;            // when the device was opened
  bool memory_was_scarce_ = false;            // when the present candidate was judged
  std::optional<int64_t> failed_prepare_ns_;  // what a failed preparation took
  std::unique_ptr<JudgeKernels> kernels_;
  std::list<std::unique_ptr<CudaPreparedProblem>> prepared_;  // most recently used first
  std::unique_ptr<CudaRunner> runner_;
  bool runs_task_ = false;                          // the runner has a Python reference
  std::deque<std::unique_ptr<CudaRunner>> spares_;  // started, or starting
  std::unique_ptr<CudaRunner> object_runner_;       // for the current host-launched candidate
  // For device code of tasks, with the arenas of device_attached_. Kept for further candidates.
  std::unique_ptr<CudaRunner> device_runner_;
  CudaPreparedProblem* device_attached_ = nullptr;
  LoadedCandidate loaded_;  // that candidate, until runners are needed
  AcquireLease acquire_;
  HeldLease lease_;                          // null while ending_ holds it
  std::future<void> ending_;                 // valid while the last candidate's process may run
  CudaPreparedProblem* ended_on_ = nullptr;  // the problem of that candidate
  CudaPreparedProblem* attached_ = nullptr;  // its arenas are mapped in the runner
  RunnerSpread spread_;
  Times times_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_MEASURER_H_
