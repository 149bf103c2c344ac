#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "services/orchestrator/core/confirmation.h"
#include "services/orchestrator/core/engine.h"

namespace kernelcast::orchestrator {

std::optional<Candidate> Engine::SourceOf(const Search& search, const std::string& candidate_id) {
  for (const Incumbent& confirmation : search.confirmations) {
    if (confirmation.candidate.candidate_id == candidate_id) return confirmation.candidate;
  }
  const auto known = search.history.find(candidate_id);
  if (known == search.history.end()) return std::nullopt;
  absl::StatusOr<std::vector<StoredEvent>> events =
      store_->ReadEvaluation(known->second.request_id);
  if (!events.ok()) return std::nullopt;
  std::optional<EvaluationRecord> record = FoldEvaluation(*events);
  if (!record) return std::nullopt;
  return std::move(record->candidate);
}

void Engine::Confirm(const std::string& search_id) {
  const Search& search = *state_.FindSearch(search_id);
  const ConfirmationLimits limits{.candidates = options_.confirm_candidates};
  const std::vector<std::string> next = NextFinals(search.leaders, search.finals, limits);
  for (const std::string& candidate_id : next) {
    const auto known = search.history.find(candidate_id);
    if (known == search.history.end() || !settling_.contains(known->second.request_id)) continue;
    // Its source can be read only once it is durable.
    AfterCommit(
        [this, search_id] { Post([this, search_id] { dirty_searches_.insert(search_id); }); });
    return;
  }
  for (const std::string& candidate_id : next) {
    std::optional<Candidate> candidate = SourceOf(search, candidate_id);
    if (!candidate) continue;
    const std::string request_id = absl::StrCat(search_id, "/confirm/", search.finals.size() + 1);
    Accept(request_id, search_id, EvaluateMode::kFinal, *std::move(candidate), true);
    Advance(request_id);
  }
  if (search.in_flight > 0) return;
  const std::vector<Finalist> finalists = RankFinalists(search.leaders, search.finals);
  const Finalist* const best =
      finalists.empty() || finalists.front().failed ? nullptr : &finalists.front();
  Log(LogLevel::kInfo, "search ended",
      {{"search_id", search_id},
       {"reason", search.end_reason},
       {"measured", search.counts.measured},
       {"pruned", search.counts.pruned},
       {"confirmations", search.counts.confirmations},
       {"best_speedup", best != nullptr ? best->speedup.value : 0.0}});
  Emit(SearchClosed{search_id, best != nullptr ? best->request_id : "", false, ""});
  reranks_.erase(search_id);
}

}  // namespace kernelcast::orchestrator
