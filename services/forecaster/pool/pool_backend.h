#ifndef KERNELCAST_SERVICES_FORECASTER_POOL_POOL_BACKEND_H_
#define KERNELCAST_SERVICES_FORECASTER_POOL_POOL_BACKEND_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/clock.h"
#include "common/metrics/metrics.h"
#include "services/forecaster/core/backend.h"
#include "services/forecaster/pool/pool_weights.h"

namespace kernelcast::forecaster {

struct PoolOptions {
  // The costly backend is asked while the cheap one's P(win) lies within these...
  double ask_above = 0.03;
  double ask_below = 0.9;
  // ...and no bin has more than this probability.
  double sure_above = 0.9;
  // A win is a speedup above the best label's, and the reference's, times 1 + margin.
  double margin = 0.02;
  // Before the caller's deadline by this share of the time left, the cheap forecast is given.
  double reserve_share = 0.1;
  PoolWeightOptions weights;
};

// How a question to the pool was settled.
enum class PoolResult {
  kSettled,     // the cheap forecast left nothing open
  kPooled,      // both
  kDeclined,    // the costly one declined: the cheap forecast stands
  kUnanswered,  // the costly one failed, or its budget is spent: the cheap forecast stands
  kCostlyOnly,  // the cheap one abstained
  kNeither,
};

// Metrics of the pool. Thread-safe.
class PoolMetrics {
 public:
  explicit PoolMetrics(MetricsRegistry& registry);
  void Settled(PoolResult result);
  void Weight(const std::string& target, double costly);

 private:
  std::map<PoolResult, prometheus::Counter*> results_;
  std::map<std::string, prometheus::Gauge*> weights_;
};

// The linear pool of a cheap and a costly backend, by weights learnt from labels. Cheap first: the
// costly one is asked only where its answer may change what is decided, that is, where the cheap
// forecast is neither sure to win, nor sure to lose, nor sure of the bin. The incumbent that is to
// be beaten is the best label of the problem and target.
//
// Where the costly backend fails, declines or is late, the cheap forecast stands. The forecast
// names what was pooled as its components; labels bring them back, so that weights need no store of
// their own: they are learnt again from the labels at start.
//
// Prepare and Observe do not reach the two backends: whoever owns them tells them. Thread-safe.
class PoolBackend final : public Backend {
 public:
  static constexpr std::string_view kName = "pool";

  // `metrics` may be null. All outlive this object.
  PoolBackend(PoolOptions options, Backend* cheap, Backend* costly, PoolMetrics* metrics,
              const Clock& clock = Clock::Real());

  std::string_view name() const override { return kName; }
  void Forecast(ForecastInput input, const ForecastCall& call, Done done) override;
  void Observe(std::vector<ObservedLabel> labels) override;
  BackendDescription Describe() const override;
  absl::StatusOr<RenderedPrompt> ShowPrompt(const ForecastInput& input) const override {
    return costly_.ShowPrompt(input);
  }

  // Whether the costly backend would be asked beside this forecast of the cheap one.
  bool IsOpen(const ForecastInput& input, const kernelcast::Forecast& cheap) const;

 private:
  using GroupKey = std::pair<std::string, std::string>;  // problem, target

  kernelcast::Forecast Alone(kernelcast::Forecast cheap) const;
  ForecastResult Combine(const std::string& target, kernelcast::Forecast cheap,
                         ForecastResult costly) const;
  void Settled(PoolResult result) const;

  const PoolOptions options_;
  Backend& cheap_;
  Backend& costly_;
  PoolMetrics* const metrics_;
  const Clock& clock_;

  mutable std::mutex mutex_;  // guards what follows
  PoolWeights weights_;
  std::map<GroupKey, double> best_speedup_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_POOL_POOL_BACKEND_H_
