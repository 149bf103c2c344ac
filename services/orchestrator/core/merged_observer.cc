#include "services/orchestrator/core/merged_observer.h"

#include <algorithm>

namespace kernelcast::orchestrator {
namespace {

void AddQueue(std::vector<EngineOverview::Queue>& queues, const EngineOverview::Queue& added) {
  for (EngineOverview::Queue& queue : queues) {
    if (queue.target != added.target || queue.device_model != added.device_model ||
        queue.stage != added.stage) {
      continue;
    }
    queue.depth += added.depth;
    queue.oldest_accepted_ns = std::min(queue.oldest_accepted_ns, added.oldest_accepted_ns);
    return;
  }
  queues.push_back(added);
}

}  // namespace

class MergedObserver::Part final : public EngineObserver {
 public:
  Part(MergedObserver* whole, int engine) : whole_(whole), engine_(engine) {}
  ~Part() override { whole_->Forget(engine_); }

  void OnDecided(const Evaluation& evaluation, const Decision& decision) override {
    const std::lock_guard lock(whole_->mutex_);
    whole_->observer_->OnDecided(evaluation, decision);
  }
  void OnSettled(const Evaluation& evaluation, const EvaluationSettled& settled) override {
    const std::lock_guard lock(whole_->mutex_);
    whole_->observer_->OnSettled(evaluation, settled);
  }
  void OnGenerated(const GenerationSettled& settled) override {
    const std::lock_guard lock(whole_->mutex_);
    whole_->observer_->OnGenerated(settled);
  }
  void OnAdvised(const GenerationAdvised& advised) override {
    const std::lock_guard lock(whole_->mutex_);
    whole_->observer_->OnAdvised(advised);
  }
  void OnFigures(const EngineFigures& figures) override {
    const std::lock_guard lock(whole_->mutex_);
    whole_->said_[engine_].figures = figures;
    whole_->observer_->OnFigures(whole_->Sum());
  }
  void OnOverview(const EngineOverview& overview) override {
    const std::lock_guard lock(whole_->mutex_);
    EngineOverview& own = whole_->said_[engine_].overview;
    own = overview;
    // The end of a search is reported once: for this engine here, for another with its own
    // overview.
    EngineOverview joined;
    joined.now_ns = overview.now_ns;
    joined.searches = overview.searches;
    std::erase_if(own.searches, [](const auto& search) { return search.ended_ns != 0; });
    for (const auto& [engine, said] : whole_->said_) {
      for (const EngineOverview::Queue& queue : said.overview.queues) {
        AddQueue(joined.queues, queue);
      }
      if (engine == engine_) continue;
      joined.searches.insert(joined.searches.end(), said.overview.searches.begin(),
                             said.overview.searches.end());
    }
    whole_->observer_->OnOverview(joined);
  }

 private:
  MergedObserver* const whole_;
  const int engine_;
};

std::unique_ptr<EngineObserver> MergedObserver::For(int engine) {
  return std::make_unique<Part>(this, engine);
}

EngineFigures MergedObserver::Sum() const {
  EngineFigures sum;
  for (const auto& [engine, said] : said_) {
    sum.events += said.figures.events;
    sum.live_evaluations += said.figures.live_evaluations;
    sum.running_searches += said.figures.running_searches;
    sum.pending_labels += said.figures.pending_labels;
    sum.live_generations += said.figures.live_generations;
  }
  return sum;
}

void MergedObserver::Forget(int engine) {
  const std::lock_guard lock(mutex_);
  said_.erase(engine);
  observer_->OnFigures(Sum());
}

}  // namespace kernelcast::orchestrator
