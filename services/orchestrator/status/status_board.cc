#include "services/orchestrator/status/status_board.h"

#include <algorithm>
#include <iterator>

namespace kernelcast::orchestrator {
namespace {

bool StartedLater(const EngineOverview::SearchFigures& a, const EngineOverview::SearchFigures& b) {
  return a.started_ns > b.started_ns;
}
bool EndedLater(const EngineOverview::SearchFigures& a, const EngineOverview::SearchFigures& b) {
  return a.ended_ns > b.ended_ns;
}

}  // namespace

void StatusBoard::OnDecided(const Evaluation& evaluation, const Decision& decision) {
  if (evaluation.mode == EvaluateMode::kFinal && evaluation.generated) return;
  const std::lock_guard lock(mutex_);
  auto found = view_.decisions.find(evaluation.candidate.target);
  if (found == view_.decisions.end()) {
    const bool room = view_.decisions.size() < kMaxTargets;
    found = view_.decisions.try_emplace(room ? evaluation.candidate.target : "other").first;
  }
  ++found->second[decision.reason];
  if (!evaluation.repeated) ++view_.candidates[found->first];
}

void StatusBoard::OnFigures(const EngineFigures& figures) {
  const std::lock_guard lock(mutex_);
  view_.figures = figures;
}

void StatusBoard::OnOverview(const EngineOverview& overview) {
  std::vector<EngineOverview::SearchFigures> running;
  std::vector<EngineOverview::SearchFigures> ended;
  for (const EngineOverview::SearchFigures& search : overview.searches) {
    (search.ended_ns == 0 ? running : ended).push_back(search);
  }
  std::sort(running.begin(), running.end(), StartedLater);
  const size_t shown = std::min(running.size(), kMaxRunning);
  const size_t left_out = running.size() - shown;
  running.resize(shown);

  const std::lock_guard lock(mutex_);
  view_.overview_ns = overview.now_ns;
  view_.queues = overview.queues;
  view_.running = std::move(running);
  view_.running_left_out = left_out;
  if (ended.empty()) return;
  // A search that ended at the moment of the last overview is reported twice.
  for (EngineOverview::SearchFigures& known : view_.ended) {
    const bool again = std::any_of(ended.begin(), ended.end(), [&](const auto& search) {
      return search.search_id == known.search_id;
    });
    if (!again) ended.push_back(std::move(known));
  }
  std::sort(ended.begin(), ended.end(), EndedLater);
  ended.resize(std::min(ended.size(), kMaxEnded));
  view_.ended = std::move(ended);
}

StatusView StatusBoard::View() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

}  // namespace kernelcast::orchestrator
