#ifndef KERNELCAST_SERVICES_WORKER_CPU_RUNNER_PROCESS_H_
#define KERNELCAST_SERVICES_WORKER_CPU_RUNNER_PROCESS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/measurement.h"
#include "common/process/child_process.h"
#include "common/process/memory_file.h"
#include "common/process/process_clock.h"
#include "common/process/process_limit.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/options.h"
#include "services/worker/cpu/placement.h"
#include "services/worker/native/shared_object.h"
#include "services/worker/python/task_programs.h"
#include "services/worker/python/zygote.h"
#include "services/worker/runner/control.h"

namespace kernelcast::worker {

using Program = std::variant<LoadableObject, PythonProgram>;

struct RunnerOptions {
  std::string path;  // of kernelcast-runner
  // Runs Python programs; null: they cannot run.
  std::shared_ptr<PythonZygote> python;
  int64_t max_memory_bytes = int64_t{2} << 30;  // beyond the tensors
  int64_t max_cpu_seconds = 120;
  int64_t max_output_bytes = kMaxCandidateOutputBytes;
  // User that runners become when the worker is root; 0: stay root.
  uint32_t uid = 0;
  uint32_t spin_us = 60;
};

// The judge's side of one runner process. The process is killed by the destructor. Not thread-safe.
//
//   Start -> WaitReady -> Call, Call, ... -> (after kDied or kLate) Failure
class RunnerProcess {
 public:
  // The memory files must outlive the process. UNAVAILABLE: no process, memory or descriptor is
  // available, or no interpreter for a Python program.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RunnerProcess>> Start(
      const RunnerOptions& options, const Placement& placement, const Program& program,
      std::span<const runner::CaseRecord> cases, const MemoryFile& inputs,
      const MemoryFile& outputs);

  enum class End {
    kDone,
    kDied,     // the process ended
    kLate,     // it used more than the limit (process_limit.h), and was killed
    kStopped,  // the caller's token was stopped
  };
  End WaitReady(int64_t limit_ns, const CancelToken& cancel);

  struct Result {
    End end = End::kDone;
    // From just before the command was given, on the monotonic clock, until its end was seen.
    int64_t start_ns = 0;
    int64_t ns = 0;
    int32_t status = 0;
  };
  // `linger`: the runner waits for the next command awake, so that it starts at once.
  Result Call(runner::Command command, uint32_t case_index, bool linger, int64_t limit_ns,
              const CancelToken& cancel);

  // The outcome of a process that died or was late. `stage` names what it was doing. UNAVAILABLE:
  // it died before any of the candidate's code ran, for reasons of this machine.
  [[nodiscard]] absl::StatusOr<MeasureOutcome> Failure(End end, const std::string& stage,
                                                       int64_t limit_ns);

  const WaitMeter& wait_meter() const { return wait_meter_; }
  // Processor time that it has used: exact while it sleeps, else up to a tick of the system behind.
  int64_t RanNs() const { return clock_.RanNs(); }
  // Waits until it says that it waits for a command asleep, as it does a moment after a call
  // without `linger`, the system agrees, and its processor time stands still. False: it has not
  // within the limit.
  bool AwaitSleep(int64_t limit_ns) const;
  std::vector<std::string> missing_protections() const;

 private:
  RunnerProcess() = default;

  runner::StartBlock& start_block() const {
    return *reinterpret_cast<runner::StartBlock*>(start_.data());
  }
  runner::ControlBlock& block() const {
    return *reinterpret_cast<runner::ControlBlock*>(control_.data());
  }
  // Ends it where the caller waits no longer. Nothing: the caller waits on.
  std::optional<End> KillIfOver(ProcessLimit& limit, const CancelToken& cancel);
  End Await(uint32_t sequence, int64_t start_ns, int64_t limit_ns, const CancelToken& cancel,
            int64_t& end_ns);

  MemoryFile control_;
  MemoryFile start_;
  int64_t inputs_bytes_ = 0;
  bool python_ = false;
  std::unique_ptr<ChildProcess> child_;
  bool judge_may_spin_ = true;
  WaitMeter wait_meter_;
  ProcessClock clock_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_RUNNER_PROCESS_H_
