#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_WRITER_METRICS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_WRITER_METRICS_H_

#include <map>
#include <string>
#include <vector>

#include "common/llm_metrics/endpoint_metrics.h"
#include "common/metrics/metrics.h"
#include "services/orchestrator/generator/answer_reader.h"

namespace kernelcast::orchestrator {

// Metrics of answers without a kernel and, as an observer, of the client. Thread-safe.
class WriterMetrics final : public llm::EndpointMetrics {
 public:
  WriterMetrics(MetricsRegistry& registry, const std::vector<std::string>& endpoints);

  void Faulted(ReadFault fault);
  // A kernel was read with this repair.
  void Mended(Repair repair);

 private:
  std::map<ReadFault, prometheus::Counter*> faults_;
  std::map<Repair, prometheus::Counter*> repairs_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_WRITER_METRICS_H_
