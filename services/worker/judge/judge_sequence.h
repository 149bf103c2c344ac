#ifndef KERNELCAST_SERVICES_WORKER_JUDGE_JUDGE_SEQUENCE_H_
#define KERNELCAST_SERVICES_WORKER_JUDGE_JUDGE_SEQUENCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/domain/measurement.h"
#include "services/worker/core/options.h"
#include "services/worker/core/output_rules.h"
#include "services/worker/core/speedup_interval.h"
#include "services/worker/core/verdict.h"
#include "services/worker/judge/judgement_end.h"
#include "services/worker/judge/new_values_check.h"
#include "services/worker/judge/prepared_cases.h"

namespace kernelcast::worker {

// Where the time of one judgement went.
struct JudgeTimes {
  int64_t start_ns = 0;  // of processes, with the candidate loaded
  int64_t check_ns = 0;
  int64_t timing_ns = 0;
  int64_t fresh_ns = 0;  // calls on new values
};

// The order of one judgement, the same on all devices. A device implements the steps.
//
//   for each process:  Start
//                      CheckCases, in the first one
//                      CheckLargest, for a final figure
//                      for each shape: TimeShape, or CheckAgain in a further process
//   for each shape:    AddSessions
//
// A screening has one process and a final figure several. There are further ones where the
// candidate may be slower on new values. Not thread-safe.
class JudgeSequence {
 public:
  virtual ~JudgeSequence() = default;

  [[nodiscard]] absl::StatusOr<MeasureOutcome> Run();

 protected:
  struct Setting {
    const PreparedCases& prepared;
    std::string_view target;
    MeasureSpec spec;
    RunnerSpread& spread;
    JudgeTimes& times;
    // Of NewValuesCheck.
    NewValuesCheck check;
    // How many processes decide about a candidate that may be slower on new values.
    int processes_to_charge = 1;
    const Clock& clock = Clock::Real();
  };
  // References must outlive this.
  explicit JudgeSequence(const Setting& setting);

  // Of the steps.
  virtual JudgementEnd& end() = 0;
  // Steps; see JudgementEnd.
  virtual bool Begin() { return true; }
  // Loads the candidate in a process. For a final figure it is a new one, and so is the
  // reference's, on other memory: addresses and placement differ, and the interval must cover that.
  virtual bool Start(int process) = 0;
  virtual bool CheckCases() = 0;
  // Calls and verifies the case of CasePlan::LargestCheck, and sets a hash of its outputs.
  virtual bool CheckLargest(uint64_t& outputs) = 0;
  virtual bool BeforeTiming() { return true; }
  // Adds a session to the shape's check, and makes the rounds of this process.
  virtual bool TimeShape(size_t shape_index) = 0;
  // Makes rounds in a further process.
  virtual bool CheckAgain(size_t shape_index) { return TimeShape(shape_index); }
  // Adds the sessions of a shape to its result, or refuses.
  virtual bool AddSessions(size_t shape_index) = 0;

  // Whether further processes may show more about a shape.
  virtual bool Suspects(size_t shape_index) const { return checks_[shape_index].Suspects(); }
  // Ends the processes.
  virtual void End() = 0;
  virtual const OutputRules& rules() const = 0;
  virtual const Tolerance& FirstTolerance() const = 0;
  virtual uint32_t checked_cases() const = 0;
  virtual MeasureOutcome ConcludeTimes();
  // Adds what else is known of an outcome.
  virtual void Describe(MeasuredOk&) {}

  int64_t NowNs() const { return clock_.MonotonicNs(); }

  const MeasureOptions& options_;
  const PrecisionOptions& precision_;
  const MeasureSpec spec_;
  RunnerSpread& spread_;
  std::vector<TimedShape> results_;     // by shape
  std::vector<NewValuesCheck> checks_;  // by shape

 private:
  const PreparedCases& prepared_;
  JudgeTimes& times_;
  const int processes_to_charge_;
  const Clock& clock_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_JUDGE_JUDGE_SEQUENCE_H_
