#ifndef KERNELCAST_COMMON_METRICS_METRICS_H_
#define KERNELCAST_COMMON_METRICS_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast {

using Labels = std::map<std::string, std::string>;

// The process's metrics. Every name must start with "kernelcast_" and belong to one kind of
// instrument; violations terminate the program. Create instruments once, at start, with all their
// label combinations. They live as long as the registry unless removed. Requesting the same name
// and labels again returns the same instrument. The registry and its instruments are thread-safe.
class MetricsRegistry {
 public:
  MetricsRegistry();  // also registers kernelcast_build_info
  ~MetricsRegistry();

  prometheus::Counter& Counter(const std::string& name, const std::string& help,
                               const Labels& labels = {});
  prometheus::Gauge& Gauge(const std::string& name, const std::string& help,
                           const Labels& labels = {});
  prometheus::Histogram& Histogram(const std::string& name, const std::string& help,
                                   const std::vector<double>& bounds, const Labels& labels = {});

  // Removes a gauge of this registry and destroys it. For labels whose values come and go.
  void RemoveGauge(const std::string& name, prometheus::Gauge& gauge);

  // Serves /metrics in Prometheus text format on "host:port". Port 0 picks a free port.
  // UNAVAILABLE: the address cannot be bound. FAILED_PRECONDITION: already serving.
  [[nodiscard]] absl::Status Serve(const std::string& address);
  // The port being served, or 0 before Serve.
  int port() const;

  // Text exposition, for tests.
  std::string Text() const;

  // Histogram bounds for durations in seconds, from 100 us to 100 s.
  static std::vector<double> DurationBounds();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The registry that a service uses. It is never destroyed, because its HTTP server would take up to
// two seconds to stop. Until the process ends, it answers with the last values.
MetricsRegistry& ProcessMetrics();

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_METRICS_METRICS_H_
