// The engine's overview of its work.

#include <map>
#include <mutex>
#include <string_view>
#include <tuple>
#include <utility>

#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/gate.h"
#include "services/orchestrator/core/search_budget.h"

namespace kernelcast::orchestrator {

SearchSnapshot Snapshot(const Search& search, const State& state) {
  SearchSnapshot snapshot;
  snapshot.search_id = search.search_id;
  if (auto problem = state.FindProblem(search.spec.problem_id)) {
    snapshot.problem_name = problem->name;
  }
  snapshot.spec = search.spec;
  snapshot.device_model = search.device_model;
  snapshot.status = search.status;
  snapshot.end_reason = search.end_reason;
  snapshot.counts = search.counts;
  snapshot.incumbent = search.incumbent;
  snapshot.confirmed = search.confirmed;
  snapshot.started_ns = search.started_ns;
  snapshot.ended_ns = search.ended_ns;
  snapshot.last_sequence = search.last_sequence;
  snapshot.risk = search.routes.risk().Report();
  snapshot.finalists = search.finalists;
  return snapshot;
}

void Engine::UpdateFigures() {
  EngineFigures figures;
  figures.events = durable_sequence_;
  figures.live_evaluations = state_.evaluations().size();
  figures.pending_labels = state_.pending_labels().size();
  figures.running_searches = state_.open_searches().size();
  for (const std::string& id : state_.open_searches()) {
    if (const auto& generation = state_.FindSearch(id)->generation; generation != nullptr) {
      figures.live_generations += generation->in_flight.size();
    }
  }
  {
    std::lock_guard lock(mutex_);
    figures_ = figures;
  }
  if (observer_ != nullptr) observer_->OnFigures(figures);
}

EngineFigures Engine::figures() const {
  std::lock_guard lock(mutex_);
  return figures_;
}

EngineOverview Engine::MakeOverview() {
  EngineOverview overview;
  overview.now_ns = NowNs();
  for (const auto& [id, search] : state_.searches()) {
    if (search.ended_ns != 0 && search.ended_ns < overview_ns_) continue;
    EngineOverview::SearchFigures& figures = overview.searches.emplace_back();
    figures.search_id = id;
    if (auto problem = state_.FindProblem(search.spec.problem_id)) {
      figures.problem_name = problem->name;
    }
    figures.target = search.spec.target;
    figures.device_model = search.device_model;
    figures.policy = search.spec.policy;
    figures.status = search.status;
    figures.end_reason = search.end_reason;
    figures.started_ns = search.started_ns;
    figures.ended_ns = search.ended_ns;
    figures.counts = search.counts;
    figures.selects = Selects(search);
    const std::optional<Incumbent>& best =
        search.confirmed.has_value() ? search.confirmed : search.incumbent;
    const bool stands = best && !NothingCarriesOver(search.finalists);
    const Ratio* const speedup = stands ? MeasuredSpeedup(best->measurement) : nullptr;
    if (speedup != nullptr) figures.best = *speedup;
    figures.risk = search.routes.risk().Report();
  }
  using QueueKey = std::tuple<std::string_view, std::string_view, Stage>;
  std::map<QueueKey, EngineOverview::Queue> queues;
  for (const auto& [id, evaluation] : state_.evaluations()) {
    EngineOverview::Queue& queue =
        queues[{evaluation.candidate.target, evaluation.device_model, evaluation.stage}];
    if (queue.depth++ == 0 || evaluation.accepted_ns < queue.oldest_accepted_ns) {
      queue.oldest_accepted_ns = evaluation.accepted_ns;
    }
  }
  for (auto& [key, queue] : queues) {
    queue.target = std::string(std::get<0>(key));
    queue.device_model = std::string(std::get<1>(key));
    queue.stage = std::get<2>(key);
    overview.queues.push_back(std::move(queue));
  }
  overview_ns_ = overview.now_ns;
  return overview;
}

}  // namespace kernelcast::orchestrator
