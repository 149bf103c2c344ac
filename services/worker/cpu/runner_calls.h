#ifndef KERNELCAST_SERVICES_WORKER_CPU_RUNNER_CALLS_H_
#define KERNELCAST_SERVICES_WORKER_CPU_RUNNER_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/secret_random.h"
#include "common/domain/measurement.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/judgement_budget.h"
#include "services/worker/core/new_values.h"
#include "services/worker/core/output_rules.h"
#include "services/worker/core/timing_session.h"
#include "services/worker/core/verdict.h"
#include "services/worker/core/verification.h"
#include "services/worker/cpu/placement.h"
#include "services/worker/cpu/prepared_problem.h"
#include "services/worker/cpu/runner_process.h"
#include "services/worker/judge/judgement_end.h"
#include "services/worker/native/shared_object.h"

namespace kernelcast::worker {

// Makes a judgement's calls of the candidate's process and of the reference's. Checks after each
// call how the process ended, its status, the planted values, and whether it works while it should
// sleep. Not thread-safe.
//
// Methods that return bool are steps; see JudgementEnd.
class RunnerCalls : public JudgementEnd {
 public:
  using BenchShape = PreparedProblem::BenchShape;
  using Bank = PreparedProblem::Bank;

  // `budget` limits the candidate's calls. It must outlive this.
  RunnerCalls(PreparedProblem& prepared, JudgementBudget& budget, const CancelToken& cancel)
      : JudgementEnd(prepared.plan()),
        prepared_(prepared),
        budget_(budget),
        cancel_(cancel),
        options_(prepared.options()) {}

  bool Start(const Program& program);
  void Stop() { candidate_.reset(); }

  bool Call(Side side, runner::Command command, size_t index, bool linger, int64_t limit_ns,
            const std::string& stage, RunnerProcess::Result& result);
  // Makes an empty call, after which the process waits without sleeping.
  bool Wake(Side side);

  // Times empty calls in a row, without pauses, like timed calls. Their time changes while a shape
  // is timed, above all on shared cores, so each block measures it again.
  bool TimeEmptyCalls(Side side, bool linger, const std::string& stage);
  void ForgetEmptyCalls(Side side) { empty_ns_[Index(side)].clear(); }
  // The time of a call without the kernel. The candidate's is at most the reference's, because its
  // process could be slow on purpose when it has nothing to run.
  double Overhead(Side side) const;

  // Calls without a pause between them. Each counts from the end of the one before, so work that a
  // kernel does after its end lengthens the next call. Planted values verify them.
  struct Burst {
    std::vector<double> calls_ns;
    // How long the process or this thread waited for a core, whichever is longer.
    int64_t waited_ns = 0;
    int64_t waited_sum_ns = 0;  // of both
    int64_t its_wait_ns = 0;    // of the process
    // How long this thread waited for a core since the process was woken, if that was requested.
    int64_t judge_wait_ns = 0;
    bool disturbed() const { return waited_ns > 0; }
    // The mean call without the waiting of the process and of this thread, if bursts are metered:
    // `least_ns` if they waited one after the other, `most_ns` if at the same time.
    double least_ns = 0;
    double most_ns = 0;
  };
  // Settles as wrong if the entry returned an error.
  bool EntrySucceeded(const RunnerProcess::Result& result);
  // Plants wrong values in the outputs of these slots, which must be gone after the burst.
  void Plant(const BenchShape& shape, Side side, std::span<const size_t> slots, Bank bank);
  bool RunBurst(const BenchShape& shape, Side side, std::span<const size_t> slots, bool linger,
                Burst& burst);
  // Reads the waiting times between the calls, which takes a few microseconds.
  bool RunMeteredBurst(const BenchShape& shape, Side side, std::span<const size_t> slots,
                       Burst& burst);
  // Checks that the candidate has overwritten the planted values with right ones. `stale`: as for
  // VerifySlot.
  bool LookAtPlanted(const BenchShape& shape, std::span<const size_t> slots, Bank bank,
                     std::optional<Bank> stale);

  // Compares all of a slot's outputs with the expected ones. `stale`: the bank whose values were in
  // the slot before; outputs that fit those were remembered.
  bool VerifySlot(const BenchShape& shape, size_t slot, Bank bank, std::optional<Bank> stale);

  OutputRules& rules() { return rules_; }
  const OutputRules& rules() const { return rules_; }
  OutputRules::Output OutputOf(size_t index, size_t output, const ExpectedTensor& expected) const;
  // Lets a task's own checker, where it has one, decide about the candidate's outputs of a case.
  // Sets `refusal` to its reason if it refuses them.
  bool AskChecker(size_t index, std::optional<std::string>& refusal);

  // Marks the start of a time in which the candidate's process must sleep.
  bool MarkIdle();
  // Marks again, once the process surely sleeps. Also marks the start of its round.
  void MarkAtRest() { ran_when_idle_ns_ = MarkRound(Side::kCandidate); }
  int64_t MarkRound(Side side) { return ran_before_round_ns_[Index(side)] = Process(side).RanNs(); }
  // Waits until the side's process sleeps after its burst. The reference's processor time outside
  // its calls is added to `overhead`. The candidate's calls become as long as all processor time
  // that it has used since its round began, without the overhead.
  bool EndRound(Side side, RoundOverhead& overhead, Burst& burst);
  // Waits until the side's process sleeps.
  bool AwaitSleep(Side side);
  void ForgetIdle() { ran_when_idle_ns_.reset(); }
  // Returns whether the candidate's process slept since the mark, and removes the mark. True
  // without a mark. A few false are no proof of work: where the host takes the core away while the
  // process goes to sleep, the processor clock counts that time, and earlier work, late.
  bool Rested();
  // Refuses the candidate when it was awake three times and in more than a tenth of the times. A
  // candidate that works while the reference runs does so each time.
  bool WasIdle();
  // Ends with the finding that the candidate works between its calls.
  bool JudgeAwake();

  const JudgementBudget& budget() const { return budget_; }

 private:
  static size_t Index(Side side) { return side == Side::kCandidate ? 0 : 1; }
  static PreparedProblem::Owner OwnerOf(Side side) {
    return side == Side::kCandidate ? PreparedProblem::Owner::kCandidate
                                    : PreparedProblem::Owner::kReference;
  }
  RunnerProcess& Process(Side side) {
    return side == Side::kCandidate ? *candidate_ : prepared_.reference();
  }
  // How long the side's process and this thread have waited for a core since the last call of
  // WaitedNow. Where the two share a core they wait for each other at the ends of each call.
  struct Waited {
    int64_t most_ns = 0;  // of the two
    int64_t sum_ns = 0;
    int64_t its_ns = 0;  // of the process
  };
  Waited WaitedNow(Side side);
  // Whether an output that differs from the reference's in some elements may be right.
  bool MayDiffer(const ExpectedTensor& expected) const {
    return prepared_.has_checker() || expected.tolerance().matched_ratio < 1 ||
           expected.tolerance().own_error.has_value();
  }

  PreparedProblem& prepared_;
  JudgementBudget& budget_;
  const CancelToken& cancel_;
  const MeasureOptions& options_;
  SecretRandom sentinels_random_{"sentinels"};
  OutputRules rules_{prepared_.problem()};

  std::unique_ptr<RunnerProcess> candidate_;
  std::vector<double> empty_ns_[2];  // bursts of empty calls: the median of each
  double overhead_ns_[2] = {0, 0};
  std::vector<std::vector<Sentinels>> sentinels_;  // by planted slot and output
  const WaitMeter own_waits_ = WaitMeter::OfThisThread();
  std::optional<int64_t> ran_when_idle_ns_;
  int64_t ran_before_round_ns_[2] = {0, 0};
  int64_t judge_waited_ns_ = 0;  // when a process was last woken
  int64_t ran_unasked_ns_ = 0;   // when it last did not rest
  int idle_times_ = 0;           // that were marked
  int awake_times_ = 0;          // of those, by WasIdle
  int64_t waited_ns_[2] = {0, 0};
  int64_t own_waited_ns_ = 0;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_RUNNER_CALLS_H_
