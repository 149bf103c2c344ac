#ifndef KERNELCAST_SERVICES_FORECASTER_RPC_SERVICE_METRICS_H_
#define KERNELCAST_SERVICES_FORECASTER_RPC_SERVICE_METRICS_H_

#include <array>
#include <map>
#include <string>
#include <vector>

#include "common/domain/forecast.h"
#include "common/metrics/metrics.h"
#include "services/forecaster/core/label.h"

namespace kernelcast::forecaster {

// The forecaster's own metrics, all created at once. Thread-safe.
class ServiceMetrics {
 public:
  ServiceMetrics(MetricsRegistry& registry, const std::vector<std::string>& backends);

  // A forecast or an abstention by a known backend.
  void Forecasted(const std::string& backend, int64_t duration_ns);
  void Confident(const std::string& target, const Forecast& forecast);
  // A label. `forecast_applies`: its forecast has the same baseline.
  void Observed(const Label& label, bool forecast_applies);
  void QueueLength(size_t writes);

 private:
  static constexpr size_t kBuckets = 10;
  struct Bucket {
    prometheus::Counter* probability;
    prometheus::Counter* hits;
    prometheus::Counter* misses;
  };
  struct Scores {
    prometheus::Histogram* confidence;
    prometheus::Histogram* half_brier;
    prometheus::Histogram* crps;
  };

  // For "cpu" or "gpu" and a backend. An unknown backend counts as "other".
  const Scores& ScoresOf(const std::string& target, const std::string& backend) const;

  std::map<std::string, prometheus::Histogram*> durations_;
  prometheus::Gauge& queue_length_;
  std::map<std::string, std::array<Bucket, kBuckets>> buckets_;   // by target
  std::map<std::pair<std::string, std::string>, Scores> scores_;  // by target and backend
  std::map<std::pair<std::string, std::string>, prometheus::Counter*> labels_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_RPC_SERVICE_METRICS_H_
