#include "services/orchestrator/core/template_strategy.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "services/orchestrator/core/decide.h"
#include "services/orchestrator/core/next_measurement.h"
#include "services/orchestrator/core/search_budget.h"

namespace kernelcast::orchestrator {
namespace {

constexpr const char* kNothingLeft = "nothing left worth measuring";

// Whether a ranking may find something that the last one did not. While nothing is measured, a few
// more pruned candidates are awaited before they are ranked.
bool IsWorthRanking(const Search& search) {
  const Rankings& last = search.rankings;
  if (last.nothing_left_after != search.counts.measurements) return true;
  if (search.counts.pruned == last.nothing_left_among) return false;
  return search.in_flight == search.measuring ||
         search.counts.pruned >=
             last.nothing_left_among + TemplateStrategy::kLookAheadPerMeasurement;
}

// Whether the last selected candidate waits for its decision.
bool AwaitsSelection(const State& state, const Search& search) {
  const Evaluation* const last = state.FindEvaluation(search.selection);
  return last != nullptr && !last->decision.has_value();
}

RankPruned PrunedOf(const State& state, const Search& search, const ReferenceDescribed& reference) {
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
    std::optional<Candidate> candidate = search.generator->Find(candidate_id);
    if (!candidate) continue;
    ranking.candidate_ids.push_back(candidate_id);
    if (anchor == nullptr) anchor = AnchorFor(state, *candidate, &search, search.device_model);
    ranking.queries.push_back(ForecastQuery{*std::move(candidate), history.facts, reference.facts,
                                            search.search_id, search.spec.max_forecast_tokens,
                                            /*again=*/true, search.device_model, anchor});
  }
  return ranking;
}

}  // namespace

absl::Status TemplateStrategy::Check(const SearchSpec& spec, const Problem& problem, bool) const {
  if (!problem.targets.find(spec.target)->second.space) {
    return absl::InvalidArgumentError(absl::StrCat("spec.generator: problem ", problem.name,
                                                   " has no template space for target '",
                                                   spec.target, "'"));
  }
  if (spec.budget == Budget{}) {
    return absl::InvalidArgumentError(
        "spec.budget: at least one limit must be set for a template search");
  }
  return absl::OkStatus();
}

uint64_t TemplateStrategy::ExpectedDecisions(const Search& search) const {
  const uint64_t most = search.spec.budget.max_candidates;
  if (search.generator == nullptr) return most;
  const uint64_t space = std::min<uint64_t>(search.generator->space_size(), kLookAhead);
  return most == 0 ? space : std::min(most, space);
}

std::optional<size_t> TemplateStrategy::ChooseSelection(
    const Search& search, const std::vector<ForecastResult>& forecasts) {
  PolicyInput input = CountsFor(search);
  input.reconsidered = true;
  input.audit_draw = 1;
  std::vector<const Forecast*> measurable(forecasts.size(), nullptr);
  for (size_t i = 0; i < forecasts.size(); ++i) {
    const auto* forecast = std::get_if<Forecast>(&forecasts[i]);
    if (forecast == nullptr || !ValidateForecast(*forecast).ok()) continue;
    input.forecast = forecast;
    if (search.policy->Decide(input).kind == DecisionKind::kMeasure) measurable[i] = forecast;
  }
  return ChooseNext(measurable, input.incumbent_speedup);
}

std::optional<PrunedRanked> TemplateStrategy::Conclude(const Search& search,
                                                       const RankPruned& ranking,
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
  const std::optional<size_t> best = ChooseSelection(search, forecasts);
  if (best) ranked.candidate_id = ranking.candidate_ids[*best];
  return ranked;
}

std::optional<ProposeCandidate> TemplateStrategy::Chosen(const Search& search) {
  if (search.generator == nullptr) return std::nullopt;
  const auto known = search.history.find(search.rankings.chosen);
  if (known == search.history.end() ||
      known->second.standing != CandidateHistory::Standing::kPruned) {
    return std::nullopt;
  }
  std::optional<Candidate> candidate = search.generator->Find(search.rankings.chosen);
  if (!candidate) return std::nullopt;
  return ProposeCandidate{NextRequestId(search), EvaluateMode::kRoute, *std::move(candidate)};
}

uint64_t TemplateStrategy::LookAhead(const Search& search) {
  return kLookAhead + search.looked_further +
         kLookAheadPerMeasurement * (search.counts.measurements + search.measuring);
}

std::optional<StrategyAction> TemplateStrategy::Next(const State& state, const Search& search,
                                                     const StrategyInputs& inputs) const {
  if (search.generator == nullptr) return std::nullopt;
  return NextOfSpace(state, search, inputs, [](const char* reason) {
    return std::optional<StrategyAction>(FinishSearch{reason});
  });
}

std::optional<StrategyAction> TemplateStrategy::NextOfSpace(
    const State& state, const Search& search, const StrategyInputs& inputs,
    const std::function<std::optional<StrategyAction>(const char* reason)>& finish) const {
  if (std::optional<ProposeCandidate> chosen = Chosen(search)) return *std::move(chosen);
  const SearchSpec& spec = search.spec;
  const uint64_t slots = std::max<uint64_t>(1, inputs.capacity.measure_slots);
  const bool all_proposed =
      search.generator->proposed() >= search.generator->space_size() ||
      (spec.budget.max_candidates > 0 && search.counts.considered >= spec.budget.max_candidates);
  // Only enough to keep the workers busy, because later decisions know more.
  const bool has_room =
      search.in_flight < InFlightLimit(search, inputs.capacity) && search.measuring < 2 * slots;
  const bool looks_ahead = spec.measure_everything || search.counts.considered < LookAhead(search);
  if (!all_proposed && has_room && looks_ahead) {
    return ProposeCandidate{NextRequestId(search),
                            spec.measure_everything ? EvaluateMode::kMeasure : EvaluateMode::kRoute,
                            *search.generator->Next()};
  }
  if (spec.measure_everything) {
    return all_proposed && search.in_flight == 0 ? finish(kNothingLeft) : std::nullopt;
  }
  // If measurements are limited, each is chosen with the results of all before it. If only time is
  // limited, the next one already waits at the device.
  const uint64_t ahead = spec.budget.max_measurements > 0 ? 0 : slots;
  if (search.measuring >= slots + ahead || !MaySelect(search)) return std::nullopt;
  return Select(state, search, inputs, has_room, finish);
}

std::optional<StrategyAction> TemplateStrategy::Select(
    const State& state, const Search& search, const StrategyInputs& inputs, bool has_room,
    const std::function<std::optional<StrategyAction>(const char* reason)>& finish) const {
  const SearchSpec& spec = search.spec;
  if (inputs.ranking || AwaitsSelection(state, search)) return std::nullopt;
  const ReferenceDescribed* const reference =
      state.FindReference(spec.problem_id, spec.target, search.device_model);
  if (reference != nullptr && IsWorthRanking(search)) {
    RankPruned ranking = PrunedOf(state, search, *reference);
    if (!ranking.queries.empty()) return ranking;
  }
  const bool more =
      search.generator->proposed() < search.generator->space_size() &&
      (spec.budget.max_candidates == 0 || search.counts.considered < spec.budget.max_candidates);
  if (!more) return search.in_flight == 0 ? finish(kNothingLeft) : std::nullopt;
  // Nothing known is worth measuring.
  if (search.counts.considered >= LookAhead(search) && has_room) {
    return ProposeCandidate{NextRequestId(search), EvaluateMode::kRoute, *search.generator->Next()};
  }
  return std::nullopt;
}

}  // namespace kernelcast::orchestrator
