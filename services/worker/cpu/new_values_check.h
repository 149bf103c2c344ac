#ifndef KERNELCAST_SERVICES_WORKER_CPU_NEW_VALUES_CHECK_H_
#define KERNELCAST_SERVICES_WORKER_CPU_NEW_VALUES_CHECK_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/secret_random.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/new_values.h"
#include "services/worker/core/timing_session.h"
#include "services/worker/core/verdict.h"
#include "services/worker/cpu/placement.h"
#include "services/worker/cpu/prepared_problem.h"
#include "services/worker/cpu/runner_calls.h"

namespace kernelcast::worker {

// Compares timed calls, whose values are repeated, with calls on values that the candidate has
// never seen, at the same addresses. The slower of the two counts. Rounds on known values, under
// the same conditions as those on new ones, tell whether the candidate remembers results.
//
// A round is one burst of calls on some slots, in a secret order, charged as a whole, so that it
// does not matter which call does the work of which. New values appear while the candidate's
// process sleeps; a round in which the process may have run before its first call on them does not
// count. From then until it sleeps again its processor time is charged, whether it is called, woken
// or waits: a process may serve the judge's commands itself and work where nothing is timed. The
// judge does the same work in rounds of every kind, so that only the values differ. Everything is
// verified before anything else runs: by the oracle's outputs, or, for values drawn on the spot, by
// the reference's.
//
// Not thread-safe.
class NewValuesCheck {
 public:
  NewValuesCheck(PreparedProblem& prepared, RunnerCalls& calls, SecretRandom& plan_random,
                 const CancelToken& cancel)
      : prepared_(prepared),
        calls_(calls),
        plan_random_(plan_random),
        cancel_(cancel),
        options_(prepared.options()) {}

  // For TimedShape::Add.
  struct Charge {
    double factor = 1;
    double doubt = 0;
  };
  // Checks a shape that `session` has timed. `result` gets the times of calls on new values.
  // Returns as methods of RunnerCalls do.
  bool Run(const PreparedProblem::BenchShape& shape, const TimingSession& session,
           TimedShape& result, Charge& charge);

 private:
  using Set = PreparedProblem::Set;
  using Bank = CasePlan::Bank;

  // One kind of new values, and the rounds on them so far.
  struct Kind {
    Bank bank;
    double allowed_slowdown;
    Rounds rounds = {};
  };
  // The bursts of a round. A round that does not count has none. Short calls depend on how long
  // their process has slept, and what ran meanwhile. So the reference is timed before and after the
  // candidate, and what it takes lies between the two.
  struct Bursts {
    RunnerCalls::Burst candidate;
    RunnerCalls::Burst reference;
    RunnerCalls::Burst reference_after;
    bool counts() const { return !candidate.calls_ns.empty(); }
    void AddTo(Rounds& rounds) const;
  };

  bool KnownRound(const PreparedProblem::BenchShape& shape);
  // On prepared values first, which the oracle knows; on values drawn on the spot afterwards.
  bool FreshRound(const PreparedProblem::BenchShape& shape, Kind& kind, TimedShape& result);
  // The slots of a round in the order of their calls, and their inputs during the round.
  struct Plan {
    std::vector<size_t> slots;
    std::vector<const std::vector<std::string>*> inputs;  // of each of `slots`
    // The expected outputs, by slot of the shape; empty where only the reference can compute them.
    std::vector<const Set*> sets = {};
  };
  // Draws inputs of this kind for the slots.
  absl::Status Draw(const PreparedProblem::BenchShape& shape, Bank bank,
                    std::span<const size_t> slots, std::vector<std::vector<std::string>>& inputs);
  bool Round(const PreparedProblem::BenchShape& shape, const Plan& plan, Bursts& bursts);
  bool TimeReference(const PreparedProblem::BenchShape& shape, std::span<const size_t> slots,
                     RunnerCalls::Burst& burst);
  // Brings the tensors of a side's calls into the caches of its core, as they are in repeated
  // calls. Otherwise a call would wait for what the judge has written and read on another core.
  void Touch(const PreparedProblem::BenchShape& shape, std::span<const size_t> slots, Side side);
  // Calls the candidate once on each slot, untimed.
  bool CallCandidate(const PreparedProblem::BenchShape& shape, std::span<const size_t> slots);
  size_t SlotsOfRound(const PreparedProblem::BenchShape& shape) const;
  // The slots of a round, in the order of their calls.
  std::vector<size_t> SecretSlots(const PreparedProblem::BenchShape& shape);
  // Sleeps for a random time.
  void Pause();
  bool Undecided(const Kind& kind) const;
  // Whether more rounds may show that the candidate is not slower on known values either. There
  // must be a round of them.
  bool MayChargeKnown() const;
  // Whether the candidate is too slow for all rounds. One round of each kind on one slot is enough
  // then: it is slower than the reference anyway, and is charged with what that round shows.
  bool TooSlowForAllRounds(const PreparedProblem::BenchShape& shape,
                           const TimingSession& session) const;

  PreparedProblem& prepared_;
  RunnerCalls& calls_;
  SecretRandom& plan_random_;
  const CancelToken& cancel_;
  const MeasureOptions& options_;

  RunnerCore runner_core_{prepared_.placement()};
  Rounds timed_;  // groups of timed calls
  Rounds known_;
  bool brief_ = false;  // see TooSlowForAllRounds
  RoundOverhead overhead_;
  int rounds_ = 0;        // of each kind, those that do not count included
  int awake_rounds_ = 0;  // of all kinds
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_NEW_VALUES_CHECK_H_
