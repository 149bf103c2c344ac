#include "services/orchestrator/core/plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/orchestrator/core/decide.h"
#include "services/orchestrator/core/search_budget.h"

namespace kernelcast::orchestrator {
namespace {

RejectCandidate RejectFor(DecisionReason reason, std::string detail) {
  RejectCandidate action;
  action.reason = reason;
  action.rejection.cause = CauseOf(reason);
  action.rejection.detail = std::move(detail);
  return action;
}

RejectCandidate RejectForError(const CompileError& error) {
  RejectCandidate action = RejectFor(DecisionReason::kCompileError, "");
  action.rejection.compile_error = error;
  return action;
}

// Settles an evaluation after a crash between its decision to reject and its settlement.
RejectCandidate RejectAsDecided(const State& state, const Evaluation& evaluation, int64_t now_ns) {
  const DecisionReason reason = evaluation.decision->reason;
  if (evaluation.compile_error && reason == DecisionReason::kCompileError) {
    return RejectForError(*evaluation.compile_error);
  }
  if (reason == DecisionReason::kDuplicate && !evaluation.duplicate_of.empty()) {
    return RejectFor(reason, evaluation.duplicate_of);
  }
  if (reason == DecisionReason::kBudget) {
    const Search* const search = state.FindSearch(evaluation.search_id);
    std::string limit = evaluation.over_budget;
    if (limit.empty() && search != nullptr) limit = ExhaustedBudget(*search, now_ns);
    if (!limit.empty()) return RejectFor(reason, std::move(limit));
  }
  return RejectFor(reason, "the reason was lost in a crash");
}

EvaluationAction PlanDecision(const State& state, const Evaluation& evaluation, int64_t now_ns) {
  DecideCandidate action{Decide(state, evaluation, now_ns), std::nullopt};
  if (action.decision.kind != DecisionKind::kReject) return action;
  action.rejection.emplace();
  action.rejection->cause = CauseOf(action.decision.reason);
  action.rejection->detail = action.decision.reason == DecisionReason::kBudget
                                 ? ExhaustedBudget(*state.FindSearch(evaluation.search_id), now_ns)
                                 : "no forecast was available";
  return action;
}

EvaluationAction PlanForecast(const State& state, const Evaluation& evaluation, int64_t now_ns) {
  if (NeedsNoForecast(state, evaluation)) return PlanDecision(state, evaluation, now_ns);
  const Candidate& candidate = evaluation.candidate;
  const ReferenceDescribed* const reference =
      state.FindReference(candidate.problem_id, candidate.target, evaluation.device_model);
  if (reference == nullptr) return DescribeReference{};
  const Search* const search = state.FindSearch(evaluation.search_id);
  ForecastCandidate action;
  action.query = ForecastQuery{candidate, evaluation.facts, reference->facts, evaluation.search_id,
                               search != nullptr ? search->spec.max_forecast_tokens : 0};
  action.query.device_model = evaluation.device_model;
  action.query.anchor = AnchorFor(state, candidate, search, evaluation.device_model);
  return action;
}

}  // namespace

EvaluationAction PlanEvaluation(const State& state, const Evaluation& evaluation, int64_t now_ns) {
  if (evaluation.decision) {
    switch (evaluation.decision->kind) {
      case DecisionKind::kPrune: return SettlePruned{};
      case DecisionKind::kReject: return RejectAsDecided(state, evaluation, now_ns);
      case DecisionKind::kMeasure: break;
    }
  } else if (!evaluation.duplicate_of.empty()) {
    return RejectFor(DecisionReason::kDuplicate, evaluation.duplicate_of);
  } else if (!evaluation.over_budget.empty()) {
    return RejectFor(DecisionReason::kBudget, evaluation.over_budget);
  } else if (evaluation.compile_error) {
    return RejectForError(*evaluation.compile_error);
  }
  if (evaluation.device_model.empty()) return ChooseDevice{};
  switch (evaluation.stage) {
    case Stage::kCompile: return CompileCandidate{};
    case Stage::kForecast: return PlanForecast(state, evaluation, now_ns);
    case Stage::kDecide: return PlanDecision(state, evaluation, now_ns);
    case Stage::kMeasure: break;
  }
  return MeasureCandidate{evaluation.mode == EvaluateMode::kFinal ? MeasureLevel::kFinal
                                                                  : MeasureLevel::kScreen};
}

Rejection::Cause CauseOf(DecisionReason reason) {
  switch (reason) {
    case DecisionReason::kCompileError: return Rejection::Cause::kCompileError;
    case DecisionReason::kDuplicate: return Rejection::Cause::kDuplicate;
    case DecisionReason::kBudget: return Rejection::Cause::kBudget;
    case DecisionReason::kCancelled: return Rejection::Cause::kCancelled;
    default: return Rejection::Cause::kUnavailable;
  }
}

std::optional<SearchAction> PlanSearch(const State& state, const Search& search,
                                       const SearchInputs& inputs) {
  if (search.ended_ns != 0) return std::nullopt;
  if (search.status == SearchStatus::kRunning) {
    const std::string budget = ExhaustedBudget(search, inputs.now_ns);
    if (!budget.empty() && !GoesOnAfter(search, budget)) {
      return FinishSearch{absl::StrCat("budget: ", budget)};
    }
    std::optional<StrategyAction> next =
        StrategyFor(search.spec.generator).Next(state, search, inputs);
    if (!next) return std::nullopt;
    return std::visit([](auto& action) { return SearchAction(std::move(action)); }, *next);
  }
  if (search.in_flight > 0) return std::nullopt;
  std::vector<std::string> finals = NextFinals(search.leaders, search.finals, inputs.confirmation);
  if (!finals.empty()) return MeasureFinals{std::move(finals)};
  return PlanClose(search);
}

CloseSearch PlanClose(const Search& search) {
  const std::vector<Finalist> finalists = RankFinalists(search.leaders, search.finals);
  if (finalists.empty() || finalists.front().failed) return {};
  return {finalists.front().request_id};
}

}  // namespace kernelcast::orchestrator
