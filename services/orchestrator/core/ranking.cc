#include "services/orchestrator/core/ranking.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "services/orchestrator/core/decide.h"
#include "services/orchestrator/core/draws.h"
#include "services/orchestrator/core/search_budget.h"

namespace kernelcast::orchestrator {
namespace {

// Whether a ranking may find something that the last one did not.
bool IsWorthRanking(const Search& search) {
  const Rankings& last = search.rankings;
  if (!Selects(search)) return HasLearnt(search);
  if (last.nothing_left_after != search.counts.measurements) return true;
  if (search.counts.pruned == last.nothing_left_among) return false;
  return search.in_flight == search.measuring ||
         search.counts.pruned >= last.nothing_left_among + kPrunedPerRanking;
}

// One of those that have not lost.
std::optional<size_t> ChooseByChance(const Search& search, std::span<const PrunedCandidate> pruned,
                                     std::span<const size_t> indices) {
  std::vector<size_t> open;
  for (size_t i = 0; i < pruned.size(); ++i) {
    if (!pruned[i].lost) open.push_back(indices[i]);
  }
  if (open.empty()) return std::nullopt;
  uint64_t random = DrawState(search.spec.seed, search.counts.measurements);
  return open[Below(random, open.size())];
}

// A candidate that the search has pruned. Nothing: its source is not known.
std::optional<Candidate> FindPruned(const Search& search, const std::string& candidate_id,
                                    const CandidateHistory& history) {
  if (history.standing != CandidateHistory::Standing::kPruned) return std::nullopt;
  if (history.source != nullptr) return *history.source;
  if (search.generator == nullptr) return std::nullopt;
  std::optional<Candidate> candidate = search.generator->Find(candidate_id);
  if (candidate) candidate->parent_candidate_id = history.parent_candidate_id;
  return candidate;
}

bool HasLost(const Search& search, const std::string& candidate_id,
             const CandidateHistory& history) {
  const std::optional<BatchLimits> limits = search.strategy->batches();
  if (!limits) return !Selects(search) || !search.generator->Has(candidate_id);
  return !history.turn || search.batches.IsFull(*history.turn, limits->admit);
}

}  // namespace

bool HasLearnt(const Search& search) {
  return search.counts.measurements > 0 &&
         search.rankings.nothing_left_after != search.counts.measurements;
}

std::optional<RankPruned> PlanRanking(const State& state, const Search& search,
                                      const SourceInputs& inputs, bool ended) {
  const SearchSpec& spec = search.spec;
  if (spec.measure_everything || inputs.ranking || AwaitsSelection(state, search)) {
    return std::nullopt;
  }
  const ReferenceDescribed* const reference =
      state.FindReference(spec.problem_id, spec.target, search.device_model);
  if (reference == nullptr || !IsWorthRanking(search)) return std::nullopt;
  const bool in_batches = search.strategy->batches().has_value();
  RankPruned ranking;
  ranking.measurements = search.counts.measurements;
  ranking.pruned = search.counts.pruned;
  std::shared_ptr<const AnchorKernel> anchor;
  for (const auto& [candidate_id, history] : search.history) {
    // A candidate is selected at most once with the same number of measurements.
    if (history.standing != CandidateHistory::Standing::kPruned ||
        history.selected_after == search.counts.measurements) {
      continue;
    }
    if (in_batches && history.turn && !search.batches.IsComplete(*history.turn, ended)) continue;
    std::optional<Candidate> candidate = FindPruned(search, candidate_id, history);
    if (!candidate) continue;
    ranking.candidate_ids.push_back(candidate_id);
    // Candidates with parents of their own are compared with those.
    if (anchor == nullptr || search.archive != nullptr) {
      anchor = AnchorFor(state, *candidate, &search, search.device_model);
    }
    ranking.queries.push_back(ForecastQuery{*std::move(candidate), history.facts, reference->facts,
                                            search.search_id, spec.max_forecast_tokens,
                                            /*again=*/true, search.device_model, anchor});
  }
  if (ranking.queries.empty()) return std::nullopt;
  return ranking;
}

std::optional<size_t> ChooseSelection(const Search& search,
                                      const std::vector<std::string>& candidate_ids,
                                      const std::vector<ForecastResult>& forecasts) {
  PolicyInput input = CountsFor(search);
  input.reconsidered = true;
  input.audit_draw = 1;
  std::vector<PrunedCandidate> pruned;
  std::vector<size_t> indices;
  bool distinguishes = false;
  for (size_t i = 0; i < forecasts.size(); ++i) {
    const auto* forecast = std::get_if<Forecast>(&forecasts[i]);
    const auto known = search.history.find(candidate_ids[i]);
    if (forecast == nullptr || known == search.history.end() || !ValidateForecast(*forecast).ok()) {
      continue;
    }
    input.forecast = forecast;
    const Decision decision = search.policy->Decide(input);
    if (decision.kind != DecisionKind::kMeasure) continue;
    pruned.push_back(
        {forecast, decision.win_probability, HasLost(search, known->first, known->second)});
    indices.push_back(i);
    distinguishes = distinguishes || search.policy->Distinguishes(input);
  }
  if (!distinguishes) return ChooseByChance(search, pruned, indices);
  const std::optional<size_t> best =
      search.strategy->ChooseMeasurement(pruned, input.incumbent_speedup);
  return best ? std::optional(indices[*best]) : std::nullopt;
}

std::optional<PrunedRanked> Conclude(const Search& search, const RankPruned& ranking,
                                     const std::vector<ForecastResult>& forecasts,
                                     int64_t waited_ns) {
  PrunedRanked ranked;
  ranked.search_id = search.search_id;
  ranked.measurements = ranking.measurements;
  ranked.pruned = ranking.pruned;
  bool learns = false;
  for (const ForecastResult& result : forecasts) {
    const auto* forecast = std::get_if<Forecast>(&result);
    if (forecast == nullptr) continue;
    learns = learns || forecast->labels_seen.has_value();
    ranked.labels_seen = std::max(ranked.labels_seen, forecast->labels_seen.value_or(0));
  }
  const Rankings& last = search.rankings;
  const bool behind = learns && ranked.labels_seen < last.ExpectedLabels(search.labels);
  if (behind && last.learns && waited_ns < kLabelPatienceNs) return std::nullopt;
  const std::optional<size_t> best = ChooseSelection(search, ranking.candidate_ids, forecasts);
  if (best) ranked.candidate_id = ranking.candidate_ids[*best];
  return ranked;
}

std::optional<ProposeCandidate> Chosen(const Search& search) {
  const auto known = search.history.find(search.rankings.chosen);
  if (known == search.history.end()) return std::nullopt;
  std::optional<Candidate> candidate = FindPruned(search, known->first, known->second);
  if (!candidate) return std::nullopt;
  return ProposeCandidate{NextRequestId(search), EvaluateMode::kRoute, *std::move(candidate)};
}

bool AwaitsSelection(const State& state, const Search& search) {
  const Evaluation* const last = state.FindEvaluation(search.selection);
  return last != nullptr && !last->decision.has_value();
}

}  // namespace kernelcast::orchestrator
