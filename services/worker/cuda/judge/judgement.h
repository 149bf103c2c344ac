#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_JUDGEMENT_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_JUDGEMENT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/secret_random.h"
#include "common/domain/measurement.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/judgement_budget.h"
#include "services/worker/core/options.h"
#include "services/worker/core/speedup_interval.h"
#include "services/worker/core/timing_session.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/device_monitor.h"
#include "services/worker/cuda/judge/judge_kernels.h"
#include "services/worker/cuda/judge/poison_patterns.h"
#include "services/worker/cuda/judge/prepared_problem.h"
#include "services/worker/cuda/judge/runner_client.h"
#include "services/worker/judge/judge_sequence.h"
#include "services/worker/judge/judgement_end.h"

namespace kernelcast::worker {

struct CudaJudgeTimes : JudgeTimes {
  int64_t capture_ns = 0;  // of graphs
  int64_t graphs_ns = 0;   // timing graphs, also on new values
  int64_t wait_ns = 0;     // until the device was free for timing
};

// Runners of the two sides. Device code shares one process with a reference that is device code
// too. A shared object has its own, untrusted process, and so has the reference of a Python task.
struct CudaRunners {
  CudaRunner* reference = nullptr;
  CudaRunner* candidate = nullptr;

  bool alive() const {
    return reference != nullptr && reference->alive() && candidate != nullptr && candidate->alive();
  }
};

// Destroys the current runners and returns new ones, with the problem attached in other memory.
// Used for figures that span several processes, and after a crash.
using RenewRunners = std::function<absl::StatusOr<CudaRunners>()>;

// Waits until the device is free for timing, which checks of outputs need not be. An error ends the
// judgement.
using BeforeTiming = std::function<absl::Status()>;

// Begins no other work of the worker on the device until the result is destroyed. Waits for the end
// of what runs, at most `limit_ns`. Null: there is no other work.
using PauseOtherWork = std::function<std::shared_ptr<void>(int64_t limit_ns)>;

// The input of a judgement. References must outlive the judgement.
struct CudaJudgeRequest {
  CudaPreparedProblem& prepared;
  const CudaProgram& candidate;
  MeasureSpec spec;
  CudaDevice& device;
  JudgeKernels& kernels;
  CudaRunners runners;  // at the final level without the candidate's, if the reference is apart
  const RenewRunners& renew;
  const BeforeTiming& before_timing;
  bool alone;  // whether no other process uses the device before that
  DeviceMonitor& monitor;
  RunnerSpread& spread;
  const PauseOtherWork& pause_other_work;
  const CancelToken& cancel;
  CudaJudgeTimes& times;
  const Clock& clock = Clock::Real();
};

// The state that the steps of one judgement share: the request, the candidate's programs, the
// current runners and the end. Not thread-safe.
class Judgement : public JudgementEnd {
 public:
  explicit Judgement(const CudaJudgeRequest& request);

  // Must succeed before any step. INVALID_ARGUMENT: a launch of the candidate has no plan.
  [[nodiscard]] absl::Status MakePrograms();

  // Also explains a wrong result.
  bool Settle(MeasureOutcome outcome);
  // Translates the runner's answer. A failure of the candidate becomes an outcome, or NotCompiled
  // if its kernels do not compile; a failure of the reference an error.
  bool Accept(const CudaRunner::Answer& answer, Side side, const std::string& stage,
              int64_t limit_ns);

  // Goes on although the judgement had ended. Returns false if its token is stopped.
  bool Resume();

  // Remembers the values of the inputs of a host-launched candidate, and compares them with those.
  bool NoteInputs();
  bool CheckInputs();
  // Timed calls of the candidate have used the inputs. They must be compared before the reference
  // or a task's checker uses them, and before they are replaced.
  void set_inputs_used() { inputs_used_ = true; }
  bool CheckUsedInputs() { return !inputs_used_ || CheckInputs(); }

  // Whether no other process can have kept the device busy.
  bool alone() const { return request_.alone; }
  // Waits until the device is free for timing.
  bool AwaitDevice() { return Must(request_.before_timing()); }
  // Pauses other work of the worker on the device until the judgement has ended.
  void Quieten();
  // Replaces the runners by new ones, in which nothing is loaded.
  [[nodiscard]] absl::Status RenewRunners();
  const CudaRunners& runners() const { return runners_; }
  CudaRunner& RunnerOf(Side side) const {
    return side == Side::kCandidate ? *runners_.candidate : *runners_.reference;
  }
  uint32_t SlotOf(Side side) const {
    return side == Side::kCandidate ? cuda_runner::kCandidate : cuda_runner::kReference;
  }
  const CudaPreparedProblem::Programs& ProgramsOf(Side side) const {
    return side == Side::kCandidate ? programs_ : prepared().reference_programs();
  }
  CudaPreparedProblem::Arena OutputsOf(Side side) const {
    return apart() && side == Side::kReference ? CudaPreparedProblem::kReferenceOutputs
                                               : CudaPreparedProblem::kOutputs;
  }

  // Whether the candidate's process runs host code of the candidate, and is not trusted.
  bool hosted() const { return candidate().host_launched(); }
  // Whether the reference runs in another process than the candidate.
  bool apart() const { return hosted() || prepared().task() != nullptr; }
  // Whether calls of a side are host code. Those of both sides are made alike for a shared object.
  bool HostCalls(Side side) const {
    return hosted() || (side == Side::kReference && prepared().task() != nullptr);
  }
  // Whether results of a side are copied after a call: those of Python programs.
  bool CopiesResults(Side side) const { return prepared().task() != nullptr && HostCalls(side); }
  int64_t NowNs() const { return request_.clock.MonotonicNs(); }
  CudaPreparedProblem& prepared() const { return request_.prepared; }
  const CudaProgram& candidate() const { return request_.candidate; }
  MeasureLevel level() const { return request_.spec.level; }
  const MeasureSpec& spec() const { return request_.spec; }
  const MeasureOptions& options() const { return prepared().options(); }
  CudaDevice& device() const { return request_.device; }
  JudgeKernels& kernels() const { return request_.kernels; }
  DeviceMonitor& monitor() const { return request_.monitor; }
  const CancelToken& cancel() const { return request_.cancel; }

  // Choice of what is called and verified, and contents of memory that candidates can see. Separate
  // streams, so that the second reveals nothing about the first.
  SecretRandom& plan_random() { return plan_random_; }
  PoisonPatterns& patterns() { return patterns_; }

 private:
  // Explains an illegal address; empty if the problem has no inputs.
  std::string InputsHint() const;

  const CudaJudgeRequest& request_;
  CudaRunners runners_;
  SecretRandom plan_random_;
  PoisonPatterns patterns_;
  JudgementBudget budget_;
  CudaPreparedProblem::Programs programs_;
  uint64_t inputs_fingerprint_ = 0;
  bool inputs_used_ = false;
  std::shared_ptr<void> quiet_;  // of Quieten
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_JUDGEMENT_H_
