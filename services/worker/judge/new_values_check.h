#ifndef KERNELCAST_SERVICES_WORKER_JUDGE_NEW_VALUES_CHECK_H_
#define KERNELCAST_SERVICES_WORKER_JUDGE_NEW_VALUES_CHECK_H_

#include <optional>
#include <string>
#include <vector>

#include "common/domain/measurement.h"
#include "services/worker/core/new_values.h"
#include "services/worker/core/options.h"
#include "services/worker/core/timing_session.h"
#include "services/worker/core/verdict.h"
#include "services/worker/judge/case_plan.h"

namespace kernelcast::worker {

// Calls of both sides on the values of one bank.
struct NewValuesRound {
  std::vector<double> candidate_ns;
  std::vector<double> reference_ns;
  // Bounds of the mean calls. They are the same where the machine has held up none.
  RoundTimes least = {};
  RoundTimes most = {};
  // Whether the machine has held up calls, so that only the bounds count.
  bool held_up = false;
  // False: the round shows nothing.
  bool counts = true;
};

// Makes rounds with one shape in the present process of the candidate. Each device implements it.
class NewValuesRounds {
 public:
  virtual ~NewValuesRounds() = default;

  // Writes the values of a bank to the addresses of the timed calls, calls both sides on them and
  // verifies the outputs. A bank other than kBase is new to the candidate's process. For kBase, the
  // calls are as in the round before. False: the judgement has ended.
  virtual bool Time(CasePlan::Bank bank, NewValuesRound& round) = 0;
};

// Compares timed calls of one shape, whose values are repeated, with calls on values that the
// candidate has never seen, at the same addresses. The slower of the two counts.
//
// One slow process may be noise. All values are new again in another process, so further processes
// decide, and medians over all of them count. A candidate reuses results if it is quick again on
// values that it has seen, in most of its processes. Not thread-safe.
class NewValuesCheck {
 public:
  struct Kind {
    CasePlan::Bank bank = CasePlan::kOther;
    // A candidate that is slower by more than this, and quick on known values, reuses results.
    double allowed_slowdown = 1;
    std::string values = {};  // what they are, for messages
    Rounds rounds = {};
  };
  // New values of a problem. There are some of kAltered if inputs can be altered, or with
  // `draws_altered`.
  static std::vector<Kind> KindsOf(const Problem& problem, const MeasureOptions& options,
                                   bool draws_altered);

  // `noise`: with few rounds, no slowdown is known whose logarithm is smaller.
  NewValuesCheck(std::vector<Kind> kinds, double noise) : kinds_(std::move(kinds)), noise_(noise) {}

  // Adds timed calls.
  void AddSession(TimingSession session);
  // Makes the rounds of one process. `result` gets the times of calls on values that are all new.
  // There must be a session. False: the judgement has ended.
  bool Run(NewValuesRounds& rounds, TimedShape& result);

  // Whether a process was slow as if it reused results.
  bool slowed() const { return slowed_; }
  // Whether further processes may show that the candidate is quick, or that it reuses results.
  bool Suspects() const;
  // Whether there is a round of each kind that counts.
  bool complete() const;
  // Nothing, unless results were reused in most processes.
  std::optional<Exploit> Refusal() const;
  // By which factor timed calls are too short.
  double Charge() const { return ChargeFor(Slowdowns()); }
  // The logarithm of a factor by which they may be shorter still.
  double Doubt() const { return DoubtOf(Slowdowns()); }
  // Adds all sessions with the charge; see TimedShape::Add.
  void AddTo(TimedShape& result, double doubt) const;

 private:
  std::vector<Slowdown> Slowdowns() const;

  std::vector<Kind> kinds_;
  double noise_;
  std::vector<TimingSession> sessions_;
  Rounds timed_;  // groups of timed calls, of all sessions
  int processes_ = 0;
  bool slowed_ = false;
  std::vector<std::string> reused_;  // evidence, of each process that reused results
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_JUDGE_NEW_VALUES_CHECK_H_
