#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_RPC_METRICS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_RPC_METRICS_H_

#include <map>
#include <string>
#include <utility>

#include "common/metrics/metrics.h"
#include "services/orchestrator/core/engine.h"

namespace kernelcast::orchestrator {

// The orchestrator's Prometheus metrics; docs/metrics.md is the table of record. Every combination
// of labels exists from the start. Thread-safe.
class OrchestratorMetrics final : public EngineObserver {
 public:
  explicit OrchestratorMetrics(MetricsRegistry* registry);

  void OnDecided(const Evaluation& evaluation, const Decision& decision) override;
  void OnSettled(const Evaluation& evaluation, const EvaluationSettled& settled) override;
  void OnGenerated(const GenerationSettled& settled) override;
  void OnFigures(const EngineFigures& figures) override;

 private:
  struct PerTarget {
    std::map<DecisionReason, prometheus::Counter*> decisions;
    std::map<std::string, prometheus::Counter*> settled;
    prometheus::Counter* device_seconds_spent = nullptr;
    prometheus::Counter* device_seconds_avoided = nullptr;
    prometheus::Counter* audits = nullptr;
    prometheus::Counter* prunable = nullptr;
    prometheus::Counter* prunable_winners = nullptr;
    // For the estimate of what a pruned candidate would have cost. The engine's thread alone.
    double measured = 0;
    double device_seconds = 0;
  };

  // Targets that are no known model share one set of series.
  PerTarget& For(const std::string& target);

  std::map<std::string, PerTarget, std::less<>> targets_;
  prometheus::Gauge& in_flight_;
  prometheus::Gauge& events_;
  prometheus::Gauge& running_searches_;
  prometheus::Gauge& pending_labels_;
  prometheus::Gauge& generations_in_flight_;
  std::map<GenerationOutcome, prometheus::Counter*> generations_;
  std::map<std::string, prometheus::Counter*, std::less<>> generation_tokens_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_RPC_METRICS_H_
