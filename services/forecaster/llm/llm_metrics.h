#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_LLM_METRICS_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_LLM_METRICS_H_

#include <array>
#include <map>
#include <string>
#include <vector>

#include "common/domain/forecast.h"
#include "common/llm/stats.h"
#include "common/metrics/metrics.h"
#include "services/forecaster/core/answer_parser.h"
#include "services/forecaster/llm/response_ladder.h"

namespace kernelcast::forecaster {

enum class CacheUse { kHit, kMiss, kCoalesced };

// Metrics of the llm backend and, as an observer, of its client. Labels are the names of the
// configured endpoints and of enumerations. Thread-safe.
class LlmMetrics final : public llm::LlmObserver {
 public:
  LlmMetrics(MetricsRegistry& registry, const std::vector<std::string>& endpoints);

  // How a question was settled.
  void Forecasted();
  void Abstained(Abstention::Cause cause);
  void Cache(CacheUse use);
  // One answer of an endpoint.
  void Answered(Rung rung, RungOutcome outcome);
  void Faulted(AnswerFault fault);
  void ProbabilitySum(double raw_sum);

  void OnAttempt(int endpoint, llm::ErrorKind result, int64_t latency_ns) override;
  void OnFirstToken(int endpoint, int64_t since_sent_ns) override;
  void OnRetry(int endpoint, llm::ErrorKind reason) override;
  void OnHedge(int endpoint) override;
  void OnHedgeWon(int endpoint) override;
  void OnUsage(int endpoint, const llm::TokenUsage& usage, double cost) override;
  void OnBreaker(int endpoint, llm::BreakerState state) override;
  void OnConcurrency(int endpoint, int in_flight, int limit) override;
  void OnCall(const llm::ChatOutcome& outcome) override;
  void OnLoad(const llm::ClientLoad& load) override;

 private:
  using KindCounters = std::array<prometheus::Counter*, llm::kErrorKindCount>;
  struct Endpoint {
    KindCounters attempts{};
    KindCounters retries{};
    prometheus::Counter* hedges = nullptr;
    prometheus::Counter* hedges_won = nullptr;
    prometheus::Counter* input_tokens = nullptr;
    prometheus::Counter* cached_tokens = nullptr;
    prometheus::Counter* output_tokens = nullptr;
    prometheus::Counter* cost = nullptr;
    prometheus::Counter* answers_without_usage = nullptr;
    prometheus::Gauge* in_flight = nullptr;
    prometheus::Gauge* limit = nullptr;
    prometheus::Gauge* breaker = nullptr;
    std::map<llm::BreakerState, prometheus::Counter*> breaker_changes;
    prometheus::Histogram* latency = nullptr;
    prometheus::Histogram* first_token = nullptr;
  };

  std::vector<Endpoint> endpoints_;
  prometheus::Counter* forecasts_ = nullptr;
  std::map<Abstention::Cause, prometheus::Counter*> abstentions_;
  std::map<CacheUse, prometheus::Counter*> cache_;
  std::map<std::pair<Rung, RungOutcome>, prometheus::Counter*> answers_;
  std::map<AnswerFault, prometheus::Counter*> faults_;
  prometheus::Histogram* probability_sum_ = nullptr;
  KindCounters calls_{};
  prometheus::Histogram* queue_wait_ = nullptr;
  prometheus::Gauge* pending_ = nullptr;
  prometheus::Gauge* queued_ = nullptr;
  prometheus::Gauge* pending_bytes_ = nullptr;
  prometheus::Counter* overloaded_ = nullptr;
  prometheus::Counter* retries_denied_ = nullptr;
  llm::ClientLoad load_;  // that was last told of; of the client's thread
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_LLM_METRICS_H_
