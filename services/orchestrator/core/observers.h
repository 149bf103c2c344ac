#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_OBSERVERS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_OBSERVERS_H_

#include <utility>
#include <vector>

#include "services/orchestrator/core/engine.h"

namespace kernelcast::orchestrator {

// Forwards to several observers in order. They must outlive this object.
class Observers final : public EngineObserver {
 public:
  explicit Observers(std::vector<EngineObserver*> observers) : observers_(std::move(observers)) {}

  void OnDecided(const Evaluation& evaluation, const Decision& decision) override {
    for (EngineObserver* observer : observers_) observer->OnDecided(evaluation, decision);
  }
  void OnSettled(const Evaluation& evaluation, const EvaluationSettled& settled) override {
    for (EngineObserver* observer : observers_) observer->OnSettled(evaluation, settled);
  }
  void OnGenerated(const GenerationSettled& settled) override {
    for (EngineObserver* observer : observers_) observer->OnGenerated(settled);
  }
  void OnAdvised(const GenerationAdvised& advised) override {
    for (EngineObserver* observer : observers_) observer->OnAdvised(advised);
  }
  void OnFigures(const EngineFigures& figures) override {
    for (EngineObserver* observer : observers_) observer->OnFigures(figures);
  }
  void OnOverview(const EngineOverview& overview) override {
    for (EngineObserver* observer : observers_) observer->OnOverview(overview);
  }

 private:
  const std::vector<EngineObserver*> observers_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_OBSERVERS_H_
