#ifndef KERNELCAST_COMMON_OTLP_PROCESS_TRACING_H_
#define KERNELCAST_COMMON_OTLP_PROCESS_TRACING_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/metrics/metrics.h"
#include "common/tracing/tracer.h"

namespace kernelcast {

struct TracingOptions {
  std::string endpoint;  // of an OTLP/HTTP collector; empty: nothing is traced
  double ratio = TracerOptions().ratio;
};

// The process's tracer, while this lives, and what it does as metrics
// (kernelcast_tracing_spans_total).
class ProcessTracing {
 public:
  // `service` becomes service.name, `instance` service.instance.id. Without an endpoint it does
  // nothing. The registry must outlive the result. INVALID_ARGUMENT: the endpoint is no URL.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ProcessTracing>> Start(
      const TracingOptions& options, const std::string& service, const std::string& instance,
      MetricsRegistry* metrics);
  // What has ended is exported, once. Whatever uses the tracer has ended before.
  ~ProcessTracing();

 private:
  class Counters;
  ProcessTracing();

  std::unique_ptr<Counters> counters_;
  std::unique_ptr<Tracer> tracer_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_OTLP_PROCESS_TRACING_H_
