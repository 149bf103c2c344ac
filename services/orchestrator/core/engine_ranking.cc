// Forecasts the pruned candidates of searches again, to measure the best of them.

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/engine_inbox.h"
#include "services/orchestrator/core/search_strategy.h"
#include "services/orchestrator/core/template_strategy.h"

namespace kernelcast::orchestrator {

namespace {

// How often, and after what delay, a forecaster is asked again if it has not learnt from the newest
// labels.
constexpr int kMaxBehind = 60;
constexpr int64_t kBehindWaitNs = 8'000'000;

}  // namespace

void Engine::StartRanking(const Search& search, RankPruned action) {
  Ranking& ranking = rankings_[search.search_id];
  ranking.status.busy = true;
  ranking.measured = search.counts.measurements;
  RunNow([this, search_id = search.search_id, candidate_ids = std::move(action.candidate_ids),
          queries = std::move(action.queries), problem = state_.FindProblem(search.spec.problem_id),
          trace = traces_.OfSearch(search.search_id)]() mutable {
    const TraceScope scope(&trace);
    forecasters_->ForecastAll(
        problem, std::move(queries),
        [this, inbox = inbox_, search_id, candidate_ids = std::move(candidate_ids)](
            absl::StatusOr<std::vector<ForecastResult>> forecasts) {
          inbox->Post([this, search_id, candidate_ids, forecasts = std::move(forecasts)]() mutable {
            OnRanked(search_id, candidate_ids, std::move(forecasts));
          });
        });
  });
}

void Engine::OnRanked(const std::string& search_id, const std::vector<std::string>& candidate_ids,
                      absl::StatusOr<std::vector<ForecastResult>> forecasts) {
  Ranking& ranking = rankings_[search_id];
  ranking.status.busy = false;
  const Search* search = state_.FindSearch(search_id);
  if (search == nullptr || search->status != SearchStatus::kRunning) {
    rankings_.erase(search_id);
    return;
  }
  // The next tick tries again.
  if (!forecasts.ok() || forecasts->size() != candidate_ids.size()) return;
  uint64_t labels_seen = 0;
  for (const ForecastResult& result : *forecasts) {
    const auto* forecast = std::get_if<Forecast>(&result);
    if (forecast != nullptr) labels_seen = std::max(labels_seen, forecast->labels_seen);
  }
  const uint64_t measured = search->counts.measurements;
  if (ranking.learns && ranking.behind < kMaxBehind &&
      labels_seen < ranking.labels_seen + (measured - ranking.labels_measured)) {
    ++ranking.behind;
    ranking.again_ns = clock_->MonotonicNs() + kBehindWaitNs;
    ranking.status.busy = true;
    return;
  }
  if (labels_seen > ranking.labels_seen) {
    ranking.learns = true;
  } else if (ranking.behind == kMaxBehind) {
    ranking.learns = false;
  }
  ranking.behind = 0;
  ranking.labels_seen = labels_seen;
  ranking.labels_measured = measured;
  dirty_searches_.insert(search_id);

  const std::optional<size_t> best = TemplateStrategy::ChooseSelection(*search, *forecasts);
  if (!best) {
    ranking.status.nothing_left_after = ranking.measured;
    return;
  }
  const std::string& best_id = candidate_ids[*best];
  const auto known = search->history.find(best_id);
  std::optional<Candidate> candidate = search->generator->Find(best_id);
  if (known == search->history.end() || !candidate ||
      known->second.standing != CandidateHistory::Standing::kPruned) {
    return;
  }
  const std::string request_id = NextRequestId(*search);
  if (Accept(request_id, search_id, EvaluateMode::kRoute, *std::move(candidate), true)) {
    Advance(request_id);
  }
}

void Engine::LetLookFurther(const std::string& search_id, uint64_t to) {
  RankingStatus& status = rankings_[search_id].status;
  status.nothing_left_after.reset();
  if (to <= status.further_to) return;
  status.further_to = to;
  Post([this, search_id] { dirty_searches_.insert(search_id); });
}

int64_t Engine::ResumeRankings() {
  int64_t next_ns = std::numeric_limits<int64_t>::max();
  const int64_t now_ns = clock_->MonotonicNs();
  for (auto& [search_id, ranking] : rankings_) {
    if (ranking.again_ns == 0) continue;
    if (ranking.again_ns > now_ns) {
      next_ns = std::min(next_ns, ranking.again_ns);
      continue;
    }
    ranking.again_ns = 0;
    ranking.status.busy = false;
    dirty_searches_.insert(search_id);
    next_ns = now_ns;
  }
  return next_ns;
}

}  // namespace kernelcast::orchestrator
