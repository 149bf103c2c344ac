#ifndef KERNELCAST_COMMON_LLM_METRICS_ENDPOINT_METRICS_H_
#define KERNELCAST_COMMON_LLM_METRICS_ENDPOINT_METRICS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/llm/stats.h"
#include "common/metrics/metrics.h"

namespace kernelcast::llm {

// What a service calls the metrics of its endpoints. All must be set.
struct EndpointMetricNames {
  const char* attempts;
  const char* retries;
  const char* hedges;
  const char* tokens;
  const char* cost;
  const char* in_flight;
  const char* limit;
  const char* breaker;
  const char* latency;
  const char* first_token;
};

// What a client does at its endpoints, as metrics. Labels are the names of the configured endpoints
// and of enumerations. Thread-safe.
class EndpointMetrics : public LlmObserver {
 public:
  // `endpoints` in the order of the client's configuration.
  EndpointMetrics(MetricsRegistry& registry, const EndpointMetricNames& names,
                  const std::vector<std::string>& endpoints);

  void OnAttempt(int endpoint, ErrorKind result, int64_t latency_ns) override;
  void OnFirstToken(int endpoint, int64_t since_sent_ns) override;
  void OnRetry(int endpoint, ErrorKind reason) override;
  void OnHedge(int endpoint) override;
  void OnUsage(int endpoint, const TokenUsage& usage, double cost) override;
  void OnBreaker(int endpoint, BreakerState state) override;
  void OnConcurrency(int endpoint, int in_flight, int limit) override;

 private:
  using KindCounters = std::array<prometheus::Counter*, kErrorKindCount>;
  struct Endpoint {
    KindCounters attempts{};
    KindCounters retries{};
    prometheus::Counter* hedges = nullptr;
    prometheus::Counter* input_tokens = nullptr;
    prometheus::Counter* cached_tokens = nullptr;
    prometheus::Counter* output_tokens = nullptr;
    prometheus::Counter* cost = nullptr;
    prometheus::Gauge* in_flight = nullptr;
    prometheus::Gauge* limit = nullptr;
    prometheus::Gauge* breaker = nullptr;
    prometheus::Histogram* latency = nullptr;
    prometheus::Histogram* first_token = nullptr;
  };

  std::vector<Endpoint> endpoints_;
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_METRICS_ENDPOINT_METRICS_H_
