#ifndef KERNELCAST_SERVICES_FORECASTER_POOL_POOL_BACKEND_H_
#define KERNELCAST_SERVICES_FORECASTER_POOL_POOL_BACKEND_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/base/clock.h"
#include "common/base/delayed_work.h"
#include "common/base/lru_cache.h"
#include "common/metrics/metrics.h"
#include "services/forecaster/core/backend.h"
#include "services/forecaster/pool/answer_value.h"
#include "services/forecaster/pool/pool_weights.h"

namespace kernelcast::forecaster {

struct PoolOptions {
  // The costly backend is asked only if the cheap one's P(win) is within these limits...
  double ask_above = 0.03;
  double ask_below = 0.9;
  // ...and no bin has more than this probability.
  double sure_above = 0.9;
  // A win is a speedup above that of the best label, and of the reference, times 1 + margin.
  double margin = 0.02;
  // The cheap forecast is returned this share of the remaining time before the caller's deadline.
  double reserve_share = 0.1;
  PoolWeightOptions weights;
  AnswerValueOptions value;
};

// How a request to the pool was answered.
enum class PoolResult {
  kSettled,     // the cheap forecast was certain enough
  kPooled,      // from both
  kDeclined,    // cheap only: the costly backend declined
  kUnanswered,  // cheap only: the costly backend failed, or its budget is spent
  kLate,        // cheap only: the answer was not awaited
  kNotWorthIt,  // cheap only: the costly backend was not asked, because it gains too little
  kCostlyOnly,  // the cheap backend abstained
  kNeither,
};

// Metrics of the pool. Calls of Weight must not overlap; the rest is thread-safe.
class PoolMetrics {
 public:
  // `registry` must outlive this object.
  explicit PoolMetrics(MetricsRegistry& registry);
  void Settled(PoolResult result);
  void Weight(const std::string& target, const std::string& device_model, double costly);

 private:
  std::map<PoolResult, prometheus::Counter*> results_;
  MetricsRegistry& registry_;
  // By target and device model. Limited, because labels can contain any names.
  static constexpr size_t kMaxWeights = 64;
  std::map<std::pair<std::string, std::string>, prometheus::Gauge*> weights_;
};

// The linear pool of a cheap and a costly backend, with weights learnt from labels. The cheap
// backend is asked first. The costly one is asked only if its answer may change the decision: if
// the cheap forecast is neither certain to win or lose nor certain of the bin. The incumbent is the
// best label of the problem and target.
//
// An impatient caller (ForecastCall::impatient) waits for the costly backend for as long as its
// answer is worth (AnswerValue), and gets the cheap forecast then. The answer is remembered when it
// comes: the costly backend repeats it when the search asks about the candidate once more, and its
// tokens are counted with the search's next forecast. Questions end with their caller's deadline.
//
// If the costly backend fails, declines or is late, the cheap forecast is used and reports what the
// model did (Forecast::model). If the model declined, the caller must defer the candidate. The
// forecast lists the pooled forecasts as its components. Labels contain them, so the weights need
// no storage: they are learnt again from the labels at start.
//
// Prepare and Observe are not forwarded to the two backends; their owner must call them.
// Thread-safe.
class PoolBackend final : public Backend {
 public:
  static constexpr std::string_view kName = "pool";

  // `metrics` may be null. All pointers must outlive this object.
  PoolBackend(PoolOptions options, Backend* cheap, Backend* costly, PoolMetrics* metrics,
              const Clock& clock = Clock::Real());
  ~PoolBackend() override;

  std::string_view name() const override { return kName; }
  void Forecast(ForecastInput input, const ForecastCall& call, Done done) override;
  void Observe(std::vector<ObservedLabel> labels) override;
  BackendDescription Describe() const override;
  absl::StatusOr<RenderedPrompt> ShowPrompt(const ForecastInput& input) const override {
    return costly_.ShowPrompt(input);
  }

  // Whether the costly backend would be asked, given this forecast of the cheap one.
  bool IsOpen(const ForecastInput& input, const kernelcast::Forecast& cheap) const;

 private:
  using GroupKey = std::tuple<std::string, std::string, std::string>;  // problem, target, device
  // A question to the costly backend whose caller may not wait for the answer.
  struct Question;
  // Answers may come after this object's destruction.
  struct Link {
    std::mutex mutex;
    PoolBackend* pool = nullptr;  // guarded by mutex
  };

  void AskImpatiently(ForecastInput input, const ForecastCall& call, kernelcast::Forecast cheap,
                      Done done);
  void AskForSearch(ForecastInput input, const ForecastCall& call, kernelcast::Forecast cheap,
                    Done done);
  // Sends the question to the costly backend.
  void Send(const std::shared_ptr<Question>& question, ForecastInput input, ForecastCall call);
  // Takes note of an answer. `awaited`: somebody waits for it.
  void Take(const Question& question, const ForecastResult& answer, bool awaited);
  // The cheap forecast for a caller who does not get an answer of the model.
  kernelcast::Forecast Without(kernelcast::Forecast cheap, ModelOutcome why,
                               const std::string& search_id);

  kernelcast::Forecast Alone(kernelcast::Forecast cheap) const;
  ForecastResult Combine(const std::string& target, const std::string& device_model,
                         kernelcast::Forecast cheap, ForecastResult costly) const;
  void Settled(PoolResult result) const;
  // Requires mutex_. Learns from a label and the model's answer in it, or the one that came late.
  std::optional<double> Learn(const Label& label, const std::string& reference_id);

  const PoolOptions options_;
  Backend& cheap_;
  Backend& costly_;
  PoolMetrics* const metrics_;
  const Clock& clock_;

  mutable std::mutex mutex_;  // guards the members below
  PoolWeights weights_;
  std::map<GroupKey, double> best_speedup_;
  AnswerValue value_;
  std::set<std::string> open_;  // keys of questions without an answer
  // Tokens of answers that came late, by search.
  std::map<std::string, TokenUsage> owed_;

  // Answers by key, to learn from labels that do not contain them. Thread-safe.
  LruCache<ForecastComponent> answers_;
  const std::shared_ptr<Link> link_ = std::make_shared<Link>();
  DelayedWork timer_;  // last: its work uses the other members
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_POOL_POOL_BACKEND_H_
