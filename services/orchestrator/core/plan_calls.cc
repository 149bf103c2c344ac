// Calls that the state requires besides the next actions.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "services/orchestrator/core/plan.h"
#include "services/orchestrator/core/search_budget.h"

namespace kernelcast::orchestrator {

SearchCalls PlanCalls(const State& state, const Search& search, const SearchInputs& inputs) {
  SearchCalls calls;
  if (search.status != SearchStatus::kRunning || search.device_model.empty() ||
      !ExhaustedBudget(search, inputs.now_ns).empty()) {
    return calls;
  }
  const SearchSpec& spec = search.spec;
  calls.reference =
      SourceFor(spec.generator).ProposesByItself() &&
      state.FindReference(spec.problem_id, spec.target, search.device_model) == nullptr;
  if (search.generation == nullptr || !inputs.has_writer) return calls;
  for (const auto& [number, request] : search.generation->in_flight) {
    const bool awaits_critic = spec.critic && !request.advice;
    (awaits_critic ? calls.advice : calls.kernels).push_back(number);
  }
  return calls;
}

std::vector<std::string> WaitingForReference(const State& state, const std::string& problem_id,
                                             const std::string& target,
                                             const std::string& device_model) {
  std::vector<std::string> waiting;
  for (const auto& [id, evaluation] : state.evaluations()) {
    if (evaluation.stage == Stage::kForecast && evaluation.candidate.problem_id == problem_id &&
        evaluation.candidate.target == target && evaluation.device_model == device_model) {
      waiting.push_back(id);
    }
  }
  std::sort(waiting.begin(), waiting.end());
  return waiting;
}

MissingReference PlanWithoutReference(const State& state, const std::string& problem_id,
                                      const std::string& target, const std::string& device_model) {
  MissingReference ends;
  ends.request_ids = WaitingForReference(state, problem_id, target, device_model);
  for (const std::string& id : state.open_searches()) {
    const Search& search = *state.FindSearch(id);
    if (search.spec.problem_id == problem_id && search.spec.target == target &&
        search.device_model == device_model) {
      ends.search_ids.push_back(id);
    }
  }
  return ends;
}

std::vector<LabelOffer> PlanLabels(const State& state, const std::set<std::string>& offered) {
  std::map<std::string, std::vector<Label>> by_problem;
  for (const auto& [request_id, pending] : state.pending_labels()) {
    if (offered.contains(request_id)) continue;
    std::vector<Label>& labels = by_problem[pending.problem_id];
    if (labels.size() < LabelOffer::kMaxLabels) labels.push_back(pending.label);
  }
  std::vector<LabelOffer> offers;
  for (auto& [problem_id, labels] : by_problem) {
    offers.push_back({problem_id, std::move(labels)});
  }
  return offers;
}

}  // namespace kernelcast::orchestrator
