// Measures the best candidates of a finishing search again, and closes it.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/plan.h"

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

void Engine::StartFinals(const Search& search, const std::vector<std::string>& candidate_ids) {
  const std::string& search_id = search.search_id;
  for (const std::string& candidate_id : candidate_ids) {
    const auto known = search.history.find(candidate_id);
    if (known == search.history.end() || !settling_.contains(known->second.request_id)) continue;
    // Its source can be read only once it is durable.
    AfterCommit(
        [this, search_id] { Post([this, search_id] { dirty_searches_.insert(search_id); }); });
    return;
  }
  for (const std::string& candidate_id : candidate_ids) {
    std::optional<Candidate> candidate = SourceOf(search, candidate_id);
    if (!candidate) continue;
    const std::string request_id = absl::StrCat(search_id, "/confirm/", search.finals.size() + 1);
    if (Accept(request_id, search_id, EvaluateMode::kFinal, *std::move(candidate), true)) {
      Advance(request_id);
    }
  }
  if (search.in_flight == 0) Close(search, PlanClose(search).confirmed_request_id);
}

void Engine::StartHeldOut(const Search& search, MeasureHeldOut action) {
  const std::string& problem_id = action.problem->problem_id;
  if (state_.FindProblem(problem_id) == nullptr) {
    Emit(ProblemPut{action.problem->files, action.problem});
  }
  for (const std::string& candidate_id : action.candidate_ids) {
    std::optional<Candidate> candidate = SourceOf(search, candidate_id);
    if (!candidate) continue;
    const std::string request_id =
        absl::StrCat(search.search_id, "/held-out/", search.gates.size() + 1);
    if (Accept(request_id, search.search_id, EvaluateMode::kFinal,
               ForProblem(*std::move(candidate), problem_id), true)) {
      Advance(request_id);
    }
  }
  if (search.in_flight == 0) Close(search, PlanClose(search).confirmed_request_id);
}

void Engine::Close(const Search& search, std::string confirmed_request_id) {
  double best_speedup = 0;
  const std::vector<Finalist> finalists = search.RankedFinalists();
  for (const Finalist& one : finalists) {
    if (!one.failed && one.request_id == confirmed_request_id) best_speedup = one.speedup.value;
    if (one.gate != Gate::kDoesNotCarryOver && one.gate != Gate::kFailed) continue;
    Log(LogLevel::kInfo, "finalist does not carry over to the held-out bench shapes",
        {{"search_id", search.search_id},
         {"candidate_id", one.candidate_id},
         {"speedup", one.speedup.value},
         {"held_out_speedup", one.held_out->speedup.value},
         {"outcome", one.held_out->outcome}});
  }
  Log(LogLevel::kInfo, "search ended",
      {{"search_id", search.search_id},
       {"reason", search.end_reason},
       {"measured", search.counts.measured},
       {"pruned", search.counts.pruned},
       {"confirmations", search.counts.confirmations},
       {"best_speedup", best_speedup}});
  rankings_.erase(search.search_id);
  Emit(SearchClosed{search.search_id, std::move(confirmed_request_id), false, ""});
}

}  // namespace kernelcast::orchestrator
