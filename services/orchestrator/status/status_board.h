#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_BOARD_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_BOARD_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "services/orchestrator/core/engine.h"

namespace kernelcast::orchestrator {

// The latest notifications of the engine.
struct StatusView {
  EngineFigures figures;
  int64_t overview_ns = 0;  // wall clock time of the data below; 0: no data yet
  std::vector<EngineOverview::Queue> queues;
  std::vector<EngineOverview::SearchFigures> running;  // latest first
  uint64_t running_left_out = 0;
  std::vector<EngineOverview::SearchFigures> ended;  // latest first
  // By target, since the process started: decisions without confirmations, and the candidates they
  // are about, each counted once per search.
  std::map<std::string, std::map<DecisionReason, uint64_t>> decisions;
  std::map<std::string, uint64_t> candidates;
};

// Keeps what the engine reports, so that readers need not ask the engine. Bounded. Thread-safe.
class StatusBoard final : public EngineObserver {
 public:
  static constexpr size_t kMaxRunning = 100;
  static constexpr size_t kMaxEnded = 50;
  static constexpr size_t kMaxTargets = 16;  // further targets count as "other"

  void OnDecided(const Evaluation& evaluation, const Decision& decision) override;
  void OnSettled(const Evaluation&, const EvaluationSettled&) override {}
  void OnGenerated(const GenerationSettled&) override {}
  void OnAdvised(const GenerationAdvised&) override {}
  void OnFigures(const EngineFigures& figures) override;
  void OnOverview(const EngineOverview& overview) override;

  StatusView View() const;

 private:
  mutable std::mutex mutex_;
  StatusView view_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_BOARD_H_
