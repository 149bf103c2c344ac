#ifndef KERNELCAST_COMMON_LLM_METRICS_ENDPOINT_METRICS_H_
#define KERNELCAST_COMMON_LLM_METRICS_ENDPOINT_METRICS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/llm/stats.h"
#include "common/metrics/metrics.h"

namespace kernelcast::llm {

// A service's names for the metrics of its endpoints. All must be set.
struct EndpointMetricNames {
  const char* calls;
  const char* queue_wait;
  const char* pending;
  const char* queued;
  const char* pending_bytes;
  const char* overloaded;
  const char* retries_denied;
  const char* attempts;
  const char* retries;
  const char* hedges;
  const char* hedges_won;
  const char* tokens;
  const char* answers_without_usage;
  const char* cost;
  const char* in_flight;
  const char* limit;
  const char* breaker;
  const char* breaker_changes;
  const char* latency;
  const char* first_token;
};

// Metrics of a client and its endpoints. Labels are the names of configured endpoints and of enum
// values. Thread-safe.
class EndpointMetrics : public LlmObserver {
 public:
  // `endpoints` must be in the order of the client's configuration.
  EndpointMetrics(MetricsRegistry& registry, const EndpointMetricNames& names,
                  const std::vector<std::string>& endpoints);

  void OnAttempt(int endpoint, ErrorKind result, int64_t latency_ns) override;
  void OnFirstToken(int endpoint, int64_t since_sent_ns) override;
  void OnRetry(int endpoint, ErrorKind reason) override;
  void OnHedge(int endpoint) override;
  void OnHedgeWon(int endpoint) override;
  void OnUsage(int endpoint, const TokenUsage& usage, double cost) override;
  void OnBreaker(int endpoint, BreakerState state) override;
  void OnConcurrency(int endpoint, int in_flight, int limit) override;
  void OnCall(const ChatOutcome& outcome) override;
  void OnLoad(const ClientLoad& load) override;

 private:
  using KindCounters = std::array<prometheus::Counter*, kErrorKindCount>;
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
    std::map<BreakerState, prometheus::Counter*> breaker_changes;
    prometheus::Histogram* latency = nullptr;
    prometheus::Histogram* first_token = nullptr;
  };

  std::vector<Endpoint> endpoints_;
  KindCounters calls_{};
  prometheus::Histogram* queue_wait_ = nullptr;
  prometheus::Gauge* pending_ = nullptr;
  prometheus::Gauge* queued_ = nullptr;
  prometheus::Gauge* pending_bytes_ = nullptr;
  prometheus::Counter* overloaded_ = nullptr;
  prometheus::Counter* retries_denied_ = nullptr;
  ClientLoad load_;  // last value reported; used by the client's thread only
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_METRICS_ENDPOINT_METRICS_H_
