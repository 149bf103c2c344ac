#ifndef KERNELCAST_SERVICES_WORKER_CPU_CPU_ROUNDS_H_
#define KERNELCAST_SERVICES_WORKER_CPU_CPU_ROUNDS_H_

#include <span>
#include <vector>

#include "common/base/secret_random.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/new_values.h"
#include "services/worker/core/timing_session.h"
#include "services/worker/cpu/placement.h"
#include "services/worker/cpu/prepared_problem.h"
#include "services/worker/cpu/runner_calls.h"
#include "services/worker/judge/new_values_check.h"

namespace kernelcast::worker {

// A round is one burst of calls on some slots, in a secret order, charged as a whole, so that it
// does not matter which call does the work of which. Values appear while the candidate's process
// sleeps; a round in which the process may have run before its first call on them does not count.
// From then until it sleeps again its processor time is charged, whether it is called, woken or
// waits: a process may serve the judge's commands itself and work where nothing is timed. The judge
// does the same work in rounds of every kind, so that only the values differ. Everything is
// verified before anything else runs.
//
// Used for one shape, in all processes of the candidate. Not thread-safe.
class CpuRounds final : public NewValuesRounds {
 public:
  CpuRounds(PreparedProblem& prepared, const PreparedProblem::BenchShape& shape, RunnerCalls& calls,
            RunnerCore& runner_core, SecretRandom& plan_random, const CancelToken& cancel)
      : prepared_(prepared),
        shape_(shape),
        calls_(calls),
        runner_core_(runner_core),
        plan_random_(plan_random),
        cancel_(cancel) {}

  bool Time(CasePlan::Bank bank, NewValuesRound& round) override;

  // Makes rounds on one slot only if the candidate is too slow for all rounds of all processes. It
  // is slower than the reference anyway, and is charged with what one process shows.
  void NoteSession(const TimingSession& session);
  bool brief() const { return brief_; }

 private:
  // The part of a round in which the values of the bank are in place.
  bool CallBoth(std::span<const size_t> slots, CasePlan::Bank bank, NewValuesRound& round);
  bool TimeReference(std::span<const size_t> slots, RunnerCalls::Burst& burst);
  // Brings the tensors of a side's calls into the caches of its core, as they are in repeated
  // calls. Otherwise a call would wait for what the judge has written and read on another core.
  void Touch(std::span<const size_t> slots, Side side);
  // Calls the candidate once on each slot, untimed.
  bool CallCandidate(std::span<const size_t> slots);
  size_t SlotsOfRound() const;
  // Writes the inputs of a bank into slots.
  void Put(std::span<const size_t> slots, CasePlan::Bank bank);
  // Sleeps for a random time.
  void Pause();

  PreparedProblem& prepared_;
  const PreparedProblem::BenchShape& shape_;
  RunnerCalls& calls_;
  RunnerCore& runner_core_;
  SecretRandom& plan_random_;
  const CancelToken& cancel_;

  RoundOverhead overhead_;
  bool brief_ = false;
  int awake_rounds_ = 0;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CPU_CPU_ROUNDS_H_
