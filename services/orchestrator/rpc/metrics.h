#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_RPC_METRICS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_RPC_METRICS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "common/metrics/metrics.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/rpc/peer_metrics.h"

namespace kernelcast::orchestrator {

// Workers and forecasters, as reported in metrics.
struct AllPeerFigures {
  PeerFigures workers;
  PeerFigures forecasters;
};

// The orchestrator's Prometheus metrics; docs/reference/metrics.md is the reference. All label
// combinations exist from the start, except those of problems, which appear with their searches.
// Thread-safe.
class OrchestratorMetrics final : public EngineObserver {
 public:
  // Maximum number of problems with their own series. The rest share one, "other".
  static constexpr size_t kMaxProblems = 32;

  // `look_at_peers` is called with each overview, on the engine's thread. May be null.
  explicit OrchestratorMetrics(MetricsRegistry* registry,
                               std::function<AllPeerFigures()> look_at_peers = nullptr);

  void OnDecided(const Evaluation& evaluation, const Decision& decision) override;
  void OnSettled(const Evaluation& evaluation, const EvaluationSettled& settled) override;
  void OnGenerated(const GenerationSettled& settled) override;
  void OnAdvised(const GenerationAdvised& advised) override;
  void OnFigures(const EngineFigures& figures) override;
  void OnOverview(const EngineOverview& overview) override;

 private:
  void CountTokens(const GenerationUsage& usage);

  struct Queue {
    prometheus::Gauge* depth = nullptr;
    prometheus::Gauge* oldest_age_seconds = nullptr;
  };
  struct PerModel {
    std::map<std::pair<DecisionKind, DecisionReason>, prometheus::Counter*> decisions;
    prometheus::Counter* candidates_decided = nullptr;
    std::map<std::string, prometheus::Counter*> settled;
    std::map<std::string_view, prometheus::Counter*> device_seconds_spent;  // by phase
    prometheus::Counter* device_seconds_avoided = nullptr;
    prometheus::Counter* audits = nullptr;
    prometheus::Counter* prunable = nullptr;
    prometheus::Counter* prunable_winners = nullptr;
    std::map<Stage, Queue> queues;
    prometheus::Gauge* risk = nullptr;
    prometheus::Gauge* risk_low = nullptr;
    prometheus::Gauge* risk_limit = nullptr;
    prometheus::Gauge* prune_threshold = nullptr;
    prometheus::Counter* risk_alarms = nullptr;
  };
  struct Problem {
    uint64_t searched_at = 0;                                     // number of the overview
    std::map<std::string_view, prometheus::Gauge*> best_speedup;  // by GPU model
  };

  PerModel& For(std::string_view target, std::string_view device_model);
  static void CountSpent(const Evaluation& evaluation, const DeviceTime& time, PerModel& series);
  void ShowQueues(const EngineOverview& overview);
  void CountAvoided(const EngineOverview& overview);
  void ShowRisks(const EngineOverview& overview);
  void ShowBest(const EngineOverview& overview);
  // Whether the problem has its own series or can get them, possibly in place of another.
  bool RoomFor(const std::string& name);

  MetricsRegistry* const registry_;
  const std::function<AllPeerFigures()> look_at_peers_;
  std::map<std::string_view, PerModel> models_;
  prometheus::Gauge& in_flight_;
  prometheus::Gauge& events_;
  prometheus::Gauge& running_searches_;
  prometheus::Gauge& pending_labels_;
  prometheus::Gauge& generations_in_flight_;
  PeerMetrics workers_;
  PeerMetrics forecasters_;
  std::map<GenerationOutcome, prometheus::Counter*> generations_;
  std::map<std::string, prometheus::Counter*, std::less<>> generation_tokens_;
  std::map<std::string, prometheus::Counter*, std::less<>> advice_;  // "given" and "none"

  // Used by the engine's thread only.
  uint64_t overviews_ = 0;
  std::map<std::string, Problem, std::less<>> problems_;
  Problem other_problems_;
  std::map<std::string, uint64_t, std::less<>> alarms_;  // of running searches
  std::map<std::string, double, std::less<>> avoided_;   // of running searches, as counted
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_RPC_METRICS_H_
