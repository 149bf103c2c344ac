// Forecasts the pruned candidates of searches again, to measure the best of them. Waits for
// forecasters that have not learnt yet.

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/orchestrator/core/decision_order.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/engine_inbox.h"
#include "services/orchestrator/core/ranking.h"

namespace kernelcast::orchestrator {

namespace {

// The delay after which a forecaster that has not learnt from the newest labels is asked again.
constexpr int64_t kBehindWaitNs = 8'000'000;

}  // namespace

void Engine::StartRanking(const Search& search, RankPruned action) {
  rankings_[search.search_id] = 0;
  RunNow([this, search_id = search.search_id, action = std::move(action),
          problem = state_.FindProblem(search.spec.problem_id),
          trace = traces_.OfSearch(search.search_id)]() mutable {
    const TraceScope scope(&trace);
    std::vector<ForecastQuery> queries = std::move(action.queries);
    forecasters_->ForecastAll(
        problem, std::move(queries),
        [this, inbox = inbox_, search_id,
         action = std::move(action)](absl::StatusOr<std::vector<ForecastResult>> forecasts) {
          inbox->Post([this, search_id, action, forecasts = std::move(forecasts)]() mutable {
            OnRanked(search_id, action, std::move(forecasts));
          });
        });
  });
}

void Engine::OnRanked(const std::string& search_id, const RankPruned& ranking,
                      absl::StatusOr<std::vector<ForecastResult>> forecasts) {
  rankings_.erase(search_id);
  const Search* search = state_.FindSearch(search_id);
  if (search == nullptr || search->status != SearchStatus::kRunning) return;
  // The next tick tries again.
  if (!forecasts.ok() || forecasts->size() != ranking.candidate_ids.size()) return;
  const int64_t waited_ns = NowNs() - std::max(search->measured_ns, start_ns_);
  std::optional<PrunedRanked> ranked = Conclude(*search, ranking, *forecasts, waited_ns);
  if (ranked) {
    Emit(*std::move(ranked));
  } else {
    rankings_[search_id] = clock_->MonotonicNs() + kBehindWaitNs;
  }
}

bool Engine::WaitsToLearn(const Evaluation& evaluation, const Forecast& forecast) {
  const std::string& problem_id = evaluation.candidate.problem_id;
  if (!forecast.labels_seen) return false;
  if (*forecast.labels_seen > 0) {
    not_learnt_.erase(problem_id);
    return false;
  }
  if (!evaluation.forecast || LabelsOf(state_, evaluation) == 0) return false;
  if (not_learnt_.contains(problem_id)) return false;
  const int64_t now_ns = clock_->MonotonicNs();
  LearningWait& wait =
      learning_waits_.emplace(evaluation.request_id, LearningWait{now_ns, 0}).first->second;
  if (now_ns - wait.since_ns >= kLabelPatienceNs) {
    not_learnt_.insert(problem_id);
    return false;
  }
  wait.again_ns = now_ns + kBehindWaitNs;
  return true;
}

int64_t Engine::ResumeForecasts() {
  int64_t next_ns = std::numeric_limits<int64_t>::max();
  const int64_t now_ns = clock_->MonotonicNs();
  for (auto it = rankings_.begin(); it != rankings_.end();) {
    const auto& [search_id, again_ns] = *it;
    if (again_ns == 0 || again_ns > now_ns) {
      if (again_ns > now_ns) next_ns = std::min(next_ns, again_ns);
      ++it;
      continue;
    }
    dirty_searches_.insert(search_id);
    next_ns = now_ns;
    it = rankings_.erase(it);
  }
  std::vector<std::string> again;
  for (auto& [request_id, wait] : learning_waits_) {
    if (wait.again_ns > now_ns) next_ns = std::min(next_ns, wait.again_ns);
    if (wait.again_ns == 0 || wait.again_ns > now_ns) continue;
    wait.again_ns = 0;
    again.push_back(request_id);
  }
  for (const std::string& request_id : again) {
    next_ns = now_ns;
    Post([this, request_id] {
      acting_.erase(request_id);
      Advance(request_id, /*is_next=*/true);
      // It has been settled by something else.
      if (!acting_.contains(request_id)) learning_waits_.erase(request_id);
    });
  }
  return next_ns;
}

}  // namespace kernelcast::orchestrator
