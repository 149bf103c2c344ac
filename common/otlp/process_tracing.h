#ifndef KERNELCAST_COMMON_OTLP_PROCESS_TRACING_H_
#define KERNELCAST_COMMON_OTLP_PROCESS_TRACING_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/metrics/metrics.h"
#include "common/tracing/tracer.h"

namespace kernelcast {

struct TracingOptions {
  std::string endpoint;  // OTLP/HTTP collector; empty: no tracing
  double ratio = TracerOptions().ratio;
};

// Owns the process's tracer and its metric kernelcast_tracing_spans_total.
class ProcessTracing {
 public:
  // `service` becomes service.name and `instance` service.instance.id. Does nothing without an
  // endpoint. The registry must outlive the result. INVALID_ARGUMENT: the endpoint is not a URL.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ProcessTracing>> Start(
      const TracingOptions& options, const std::string& service, const std::string& instance,
      MetricsRegistry* metrics);
  // Exports the finished spans once. All users of the tracer must have ended.
  ~ProcessTracing();

 private:
  class Counters;
  ProcessTracing();

  std::unique_ptr<Counters> counters_;
  std::unique_ptr<Tracer> tracer_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_OTLP_PROCESS_TRACING_H_
