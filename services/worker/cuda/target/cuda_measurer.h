#ifndef KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_MEASURER_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_MEASURER_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/domain/measurement.h"
#include "common/domain/problem.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/options.h"
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
  // Problems whose inputs and expected outputs are kept on the device.
  int prepared_problems = 2;
  // A runner is replaced by a fresh one after so many candidates.
  int candidates_per_runner = 200;
  CudaProfileOptions profile = {};
};

// Compiled, all for the device.
struct CudaPrograms {
  std::string judge;  // JudgeKernelsSource
  CudaProgram reference;
  CudaProgram oracle;
  CudaProgram candidate;
};

// Judges candidates on one device and keeps between them what is dear to make: a context, problems
// that are prepared, and a runner that is warm. For one thread at a time, which holds the timing
// lease; not always the same.
class CudaMeasurer {
 public:
  // `api`, `monitor` and `clock` must outlive the measurer.
  CudaMeasurer(const CudaApi& api, DeviceMonitor& monitor, CudaMeasurerOptions options,
               const Clock& clock = Clock::Real())
      : api_(api), monitor_(monitor), options_(std::move(options)), clock_(clock) {}
  ~CudaMeasurer();
  CudaMeasurer(const CudaMeasurer&) = delete;
  CudaMeasurer& operator=(const CudaMeasurer&) = delete;

  // Starts a runner ahead of the first candidate. UNAVAILABLE: it cannot use the device.
  [[nodiscard]] absl::Status StartRunner(const CancelToken& cancel);

  // Errors are those of Target::Measure, and RESOURCE_EXHAUSTED where the problem is too large for
  // the device. What came to harm without the candidate's doing is made anew, and the candidate
  // judged once more, before it is UNAVAILABLE.
  [[nodiscard]] absl::StatusOr<MeasureOutcome> Measure(const Problem& problem,
                                                       const CudaPrograms& programs,
                                                       MeasureLevel level,
                                                       const CancelToken& cancel);

  // Profiles a candidate that Measure found to be ok, in a process of its own: those that time are
  // never profiled. What keeps the profiler from its work is in the result; else errors as of
  // Measure.
  [[nodiscard]] absl::StatusOr<Profile> ProfileCandidate(const Problem& problem,
                                                         const CudaPrograms& programs,
                                                         const CancelToken& cancel);

  // Where the time of the last candidate went.
  struct Times {
    int64_t prepare_ns = 0;
    CudaJudgeTimes judge;
  };
  const Times& times() const { return times_; }

 private:
  absl::StatusOr<MeasureOutcome> Judge(const Problem& problem, const CudaPrograms& programs,
                                       MeasureLevel level, const CancelToken& cancel);
  absl::Status PrepareDevice(const CudaPrograms& programs);
  absl::StatusOr<CudaPreparedProblem*> Prepare(const Problem& problem, const CudaPrograms& programs,
                                               const CancelToken& cancel);
  absl::StatusOr<CudaPreparedProblem*> PrepareAnew(const Problem& problem,
                                                   const CudaPrograms& programs,
                                                   const CancelToken& cancel);
  // A runner for a shared object, with what it works on.
  absl::Status StartObjectRunner(CudaPreparedProblem& prepared, const CancelToken& cancel);
  void DropRunner();
  void DropDevice();

  const CudaApi& api_;
  DeviceMonitor& monitor_;
  const CudaMeasurerOptions options_;
  const Clock& clock_;

  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<JudgeKernels> kernels_;
  std::list<std::unique_ptr<CudaPreparedProblem>> prepared_;  // most recently used first
  std::unique_ptr<CudaRunner> runner_;
  std::unique_ptr<CudaRunner> object_runner_;  // of the candidate at hand, if it is host-launched
  CudaPreparedProblem* attached_ = nullptr;    // whose arenas the runner has mapped
  Times times_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CUDA_MEASURER_H_
