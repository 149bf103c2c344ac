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

// What the engine has told lately.
struct StatusView {
  EngineFigures figures;
  int64_t overview_ns = 0;  // when the following was so, by the wall clock; 0: not known yet
  std::vector<EngineOverview::Queue> queues;
  std::vector<EngineOverview::SearchFigures> running;  // the latest first
  uint64_t running_left_out = 0;
  std::vector<EngineOverview::SearchFigures> ended;  // the latest first
  // Since the process started, by target.
  std::map<std::string, std::map<DecisionReason, uint64_t>> decisions;
};

// Remembers what the engine tells, so that whoever wants to see it need not ask the engine.
// Bounded. Thread-safe.
class StatusBoard final : public EngineObserver {
 public:
  static constexpr size_t kMaxRunning = 100;
  static constexpr size_t kMaxEnded = 50;
  static constexpr size_t kMaxTargets = 16;  // further ones count as "other"

  void OnDecided(const Evaluation& evaluation, const Decision& decision) override;
  void OnSettled(const Evaluation&, const EvaluationSettled&) override {}
  void OnGenerated(const GenerationSettled&) override {}
  void OnFigures(const EngineFigures& figures) override;
  void OnOverview(const EngineOverview& overview) override;

  StatusView View() const;

 private:
  mutable std::mutex mutex_;
  StatusView view_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STATUS_STATUS_BOARD_H_
