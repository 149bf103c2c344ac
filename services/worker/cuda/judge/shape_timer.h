#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_SHAPE_TIMER_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_SHAPE_TIMER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "services/worker/core/options.h"
#include "services/worker/core/timing_session.h"
#include "services/worker/core/verdict.h"
#include "services/worker/cuda/judge/between_calls.h"
#include "services/worker/cuda/judge/judgement.h"
#include "services/worker/cuda/judge/output_verifier.h"
#include "services/worker/judge/new_values_check.h"

namespace kernelcast::worker {

// Times both sides on the bench shapes in the current runners, and verifies the outputs of the last
// calls. Not thread-safe.
class ShapeTimer {
 public:
  // Both must outlive the timer.
  ShapeTimer(Judgement& judgement, OutputVerifier& verifier)
      : judgement_(judgement), verifier_(verifier) {}

  // Notes the clock of the device. Call it before the others.
  void Begin();

  // Whether to time CUDA graphs of the calls instead of the calls; they must be captured.
  void set_replays(bool replays) { replays_ = replays; }

  // Warm-up and blocks of timed calls. Nothing: as a step that returns false.
  // `behind` says when timing ends early, by the time of a call of the reference; null: it does
  // not.
  using BehindRuleAt = std::function<BehindRule(double reference_ns)>;
  std::optional<TimingSession> RunSession(size_t shape_index, const PrecisionOptions& precision,
                                          const BehindRuleAt& behind, TimedShape& result);
  // How calls on new values are made.
  enum class FreshCalls {
    kTogether,
    // A few calls on all-new values have a request each, and those on altered values a few
    // requests. The values are written just before each. Otherwise host code could compute the
    // results of later calls on another stream, while the cache is overwritten.
    kOneByOne,
    // Together. Calls on altered values are only verified: their graphs are timed.
    kBesideGraphs,
  };
  // Makes the rounds of `check`, which has the session before, after which the base bank is in
  // place again. Adds the times on new values to `result`. False: as a step.
  bool CheckNewValues(size_t shape_index, FreshCalls calls, NewValuesCheck& check,
                      TimedShape& result);

  using Bank = CudaPreparedProblem::Bank;
  using BenchShape = CudaPreparedProblem::BenchShape;
  // Copies values to the addresses of the timed calls. False: as a step.
  bool PutBank(const BenchShape& shape, Bank bank);

 private:
  struct Calls {
    const BenchShape& shape;
    Side side;
    size_t slots;  // called once each; at most all of the shape
    // Follows another request of the same side, so that it finds warm caches.
    bool back_to_back = false;
  };
  // The calls of a request to a runner, and its writes before each call.
  struct Plan {
    std::vector<cuda_runner::SampleRecord> samples;
    std::vector<cuda_runner::PoisonRecord> poisons;
    size_t first_call = 0;  // samples before it are no calls
    size_t calls = 0;       // nor are those after them
    uint64_t poisoned_bytes = 0;
    uint32_t pattern = 0;
  };
  struct CallTimes {
    std::vector<double> calls_ns;
    uint32_t pattern = 0;  // what their outputs held before
    double beyond_ns = 0;  // what each took longer than that, see BeyondCalls
    std::vector<double> Charged() const;
  };

  const BenchShape& ShapeAt(size_t index) const {
    return judgement_.prepared().bench_shapes()[index];
  }
  // The last program of each side does nothing.
  size_t NothingProgram() const { return judgement_.prepared().cases().size(); }

  // How often the L2 cache is overwritten before each call.
  uint32_t Flushes() const;

  std::optional<CallTimes> TimeCalls(const Calls& calls);
  std::optional<Plan> PlanCalls(const Calls& calls);
  struct Timed {
    Plan plan;
    CudaRunner::Answer answer;
    double wall_us = 0;       // on the host
    double explained_us = 0;  // by events of the device
    bool explained = false;   // whether the two agree
    double beyond_us = 0;     // on the host, beyond the calls that are reported
    double launching_us = 0;  // host time between calls; only the reference's can be trusted
  };
  // `wake`: see CudaRunner::Wake.
  std::optional<Timed> RunOnce(const Calls& calls, bool wake);
  // Repeats the calls until the reported times add up to the time on the host. What lies beyond the
  // calls is that of the first attempt: the next ones are on values that are known by then.
  std::optional<Timed> RunUntilExplained(const Calls& calls);
  // The times of the calls, with what the candidate moved between them.
  CallTimes CallTimesOf(const Timed& timed, const Calls& calls);
  bool MeasureOverhead();
  // For device code whose reference runs in another process: learns the time between calls from
  // calls that do nothing in the candidate's own process.
  bool MeasureBetween(const BenchShape& shape);
  bool WarmUp(size_t shape_index, double& candidate_ns, double& reference_ns);
  bool RunBlock(const BenchShape& shape, const TimingSession::Block& block,
                TimingSession::BlockTimes& times);
  // Verifies outputs of timed calls. False: as a step.
  bool Verify(const OutputVerifier::SlotCalls& calls);
  // Times and verifies the candidate's calls on the values of `bank`, which replace those of
  // `before`. Nothing: as a step that returns false.
  std::optional<std::vector<double>> TimeBank(const std::vector<BenchShape>& requests, Bank bank,
                                              Bank before);
  // Times the reference's calls on the values that are in place.
  std::optional<std::vector<double>> TimeReference(const std::vector<BenchShape>& requests);
  class FreshRounds;

  Judgement& judgement_;
  OutputVerifier& verifier_;
  bool replays_ = false;
  double overhead_ns_ = 0;  // what an empty call takes
  BetweenCalls between_;    // of the present session
  BeyondCalls beyond_;      // the same
  // The processor time of the candidate's process when it last slept, before its next request's
  // values appeared.
  std::optional<int64_t> ran_at_rest_ns_;
  double clock_hz_ = 0;
  std::vector<double> warm_clock_hz_;  // by shape; 0 before the first warm-up
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_SHAPE_TIMER_H_
