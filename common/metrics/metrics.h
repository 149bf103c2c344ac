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

// The process's metrics. Every name starts with "kernelcast_" and belongs to one kind of
// instrument; anything else is a mistake in the program and ends it. Instruments are made once, at
// start, with all their label combinations, live as long as the registry unless they are removed,
// and are thread-safe, as is the registry. Asking again for the same name and labels gives the same
// instrument.
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

  // Takes a gauge of this registry away, which is then gone: for labels whose values come and go.
  void RemoveGauge(const std::string& name, prometheus::Gauge& gauge);

  // Serves /metrics in Prometheus text format on "host:port"; port 0 picks one.
  // UNAVAILABLE: the address cannot be bound. FAILED_PRECONDITION: served already.
  [[nodiscard]] absl::Status Serve(const std::string& address);
  // Port served on, 0 before Serve.
  int port() const;

  // Text exposition, for tests.
  std::string Text() const;

  // Bounds for durations in seconds, from 100 us to 100 s.
  static std::vector<double> DurationBounds();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_METRICS_METRICS_H_
