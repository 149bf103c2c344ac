#include "services/orchestrator/core/plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/domain/held_out_problem.h"
#include "services/orchestrator/core/decide.h"
#include "services/orchestrator/core/decision_order.h"
#include "services/orchestrator/core/gate.h"
#include "services/orchestrator/core/search_budget.h"

namespace kernelcast::orchestrator {
namespace {

// Since the process started. Workers that are there are found in much less.
constexpr absl::Duration kForecastDeviceWait = absl::Seconds(2);
constexpr const char* kSetAside = "set aside: handling it crashed the orchestrator twice";

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

// MeasureSpec::stop_below of a screening. 0: it is timed in full, because no search asks for less,
// or because its label must not depend on the incumbent: labels drawn by chance correct the others'
// bias.
double StopBelow(const State& state, const Evaluation& evaluation) {
  const Search* const search = state.FindSearch(evaluation.search_id);
  if (search == nullptr || search->spec.time_in_full || search->leaders.empty()) return 0;
  if (search->IsHeldOut(evaluation.candidate) ||
      (evaluation.decision && (evaluation.decision->reason == DecisionReason::kAudit ||
                               evaluation.decision->audit_propensity < 1))) {
    return 0;
  }
  return kBehindMargin * search->leaders.front().speedup.low;
}

DecideCandidate DecideNow(const State& state, const Evaluation& evaluation, int64_t now_ns) {
  DecideCandidate action{Decide(state, evaluation, now_ns), std::nullopt};
  if (action.decision.kind != DecisionKind::kReject) return action;
  action.rejection.emplace();
  action.rejection->cause = CauseOf(action.decision.reason);
  action.rejection->detail =
      action.decision.reason == DecisionReason::kBudget
          ? ExhaustedBudget(*state.FindSearch(evaluation.search_id), now_ns)
          : absl::StrCat("no forecast", evaluation.forecast_error.empty() ? "" : ": ",
                         evaluation.forecast_error);
  return action;
}

ForecastCandidate ForecastOf(const State& state, const Evaluation& evaluation,
                             const CompileFacts& reference) {
  const Candidate& candidate = evaluation.candidate;
  const Search* const search = state.FindSearch(evaluation.search_id);
  ForecastCandidate action;
  action.query = ForecastQuery{candidate, evaluation.facts, reference, evaluation.search_id,
                               search != nullptr ? search->spec.max_forecast_tokens : 0};
  action.query.again = evaluation.forecast.has_value();
  action.query.device_model = evaluation.device_model;
  action.query.impatient = evaluation.mode != EvaluateMode::kForecast;
  action.query.anchor = AnchorFor(state, candidate, search, evaluation.device_model);
  return action;
}

EvaluationAction PlanDecision(const State& state, const Evaluation& evaluation,
                              const EvaluationInputs& inputs) {
  if (!IsDecidedInOrder(state, evaluation)) return DecideNow(state, evaluation, inputs.now_ns);
  if (!inputs.is_next) {
    DecideCandidate decide = DecideNow(state, evaluation, inputs.now_ns);
    if (WaitsForOthers(state, evaluation, decide.decision)) return WaitForOthers{};
    return decide;
  }
  const ReferenceDescribed* const reference = state.FindReference(
      evaluation.candidate.problem_id, evaluation.candidate.target, evaluation.device_model);
  if (reference != nullptr && IsOutdated(state, evaluation)) {
    return ForecastOf(state, evaluation, reference->facts);
  }
  return DecideNow(state, evaluation, inputs.now_ns);
}

EvaluationAction PlanForecast(const State& state, const Evaluation& evaluation, int64_t now_ns) {
  if (NeedsNoForecast(state, evaluation)) return DecideNow(state, evaluation, now_ns);
  const Candidate& candidate = evaluation.candidate;
  const ReferenceDescribed* const reference =
      state.FindReference(candidate.problem_id, candidate.target, evaluation.device_model);
  if (reference == nullptr) return DescribeReference{};
  return ForecastOf(state, evaluation, reference->facts);
}

std::string NobodyMeasures(const std::string& target, const std::string& device_model,
                           const std::vector<Workers::Device>& devices) {
  std::vector<std::string> there;
  for (const Workers::Device& device : devices) {
    there.push_back(absl::StrCat(device.target, " on ", device.model,
                                 device.measure_slots == 0 ? " (away)" : ""));
  }
  return absl::StrCat("no worker measures ", target,
                      device_model.empty() ? "" : absl::StrCat(" on ", device_model),
                      there.empty() ? "; no worker measures anything"
                                    : absl::StrCat("; there are: ", absl::StrJoin(there, ", ")));
}

// Whether something that has waited for a worker since then gives up.
bool IsOverdue(int64_t since_ns, int64_t now_ns, const DeviceInputs& inputs) {
  return now_ns - std::max(since_ns, inputs.start_ns) >= absl::ToInt64Nanoseconds(inputs.grace);
}

// A forecast needs only compile facts. But workers that measure may be found at the same time as
// the one that compiles, and a forecast is for one of their devices, if there are any.
bool GoesWithoutDevice(const Evaluation& evaluation, const EvaluationInputs& inputs) {
  const absl::Duration wait = std::min(kForecastDeviceWait, inputs.device.grace);
  return evaluation.mode == EvaluateMode::kForecast && inputs.device.can_compile &&
         inputs.now_ns - inputs.device.start_ns >= absl::ToInt64Nanoseconds(wait);
}

EvaluationAction PlanDevice(const State& state, const Evaluation& evaluation,
                            const EvaluationInputs& inputs) {
  // An evaluation of a search has its device model, and fails with it.
  if (const Search* const search = state.FindSearch(evaluation.search_id)) {
    if (search->device_model.empty()) return WaitForDevice{};
    return ChooseDevice{search->device_model};
  }
  if (!inputs.device.found.empty()) return ChooseDevice{inputs.device.found};
  const std::string& target = evaluation.candidate.target;
  const std::string& wanted = evaluation.wanted_device_model;
  if (GoesWithoutDevice(evaluation, inputs)) return ChooseDevice{wanted.empty() ? target : wanted};
  if (!IsOverdue(evaluation.accepted_ns, inputs.now_ns, inputs.device)) return WaitForDevice{};
  return RejectFor(DecisionReason::kUnavailable,
                   NobodyMeasures(target, wanted, inputs.device.devices));
}

std::string WantedModel(const Search& search) {
  if (!search.device_model.empty()) return search.device_model;
  return search.spec.device_models.empty() ? "" : search.spec.device_models.front();
}

// A search needs a worker to start, and waits for one that is away, unless it is stopped.
std::optional<AbandonSearch> PlanWithoutWorker(const Search& search, const SearchInputs& inputs) {
  const bool overdue =
      search.device_model.empty() && IsOverdue(search.started_ns, inputs.now_ns, inputs.device);
  if (!search.stopped && !overdue) return std::nullopt;
  const std::string missing = MissingWorker(search, inputs);
  AbandonSearch action;
  action.failed = !search.stopped;
  action.reason = search.stopped ? DecisionReason::kCancelled : DecisionReason::kUnavailable;
  action.rejection.cause = CauseOf(action.reason);
  action.rejection.detail =
      search.stopped ? absl::StrCat("the search was stopped, and ", missing) : missing;
  return action;
}

std::optional<MeasureHeldOut> PlanGate(const State& state, const Search& search) {
  const SearchSpec& spec = search.spec;
  const auto problem = state.FindProblem(spec.problem_id);
  if (spec.gate == GateMode::kOff || problem == nullptr) return std::nullopt;
  std::vector<std::string> next =
      NextGated(RankFinalists(search.leaders, search.finals), search.gates);
  if (next.empty()) return std::nullopt;
  if (auto known = state.FindProblem(search.held_out_problem_id)) {
    return MeasureHeldOut{std::move(next), std::move(known)};
  }
  std::optional<Problem> held_out =
      HeldOutProblem(*problem, spec.target, spec.gate == GateMode::kDrawn ? search.search_id : "");
  if (!held_out) return std::nullopt;
  return MeasureHeldOut{std::move(next), std::make_shared<const Problem>(*std::move(held_out))};
}

}  // namespace

EvaluationAction PlanEvaluation(const State& state, const Evaluation& evaluation,
                                const EvaluationInputs& inputs) {
  const int64_t now_ns = inputs.now_ns;
  if (evaluation.decision) {
    switch (evaluation.decision->kind) {
      case DecisionKind::kPrune: return SettlePruned{};
      case DecisionKind::kReject: return RejectAsDecided(state, evaluation, now_ns);
      case DecisionKind::kMeasure: break;
    }
  }
  if (inputs.set_aside) return RejectFor(DecisionReason::kUnavailable, kSetAside);
  if (evaluation.decision) {
    if (evaluation.decision->reason == DecisionReason::kReused) {
      return ReuseMeasurement{evaluation.measured_by};
    }
  } else if (!evaluation.measured_by.empty()) {
    return ReuseMeasurement{evaluation.measured_by};
  } else if (!evaluation.duplicate_of.empty()) {
    return RejectFor(DecisionReason::kDuplicate, evaluation.duplicate_of);
  } else if (!evaluation.over_budget.empty()) {
    return RejectFor(DecisionReason::kBudget, evaluation.over_budget);
  } else if (evaluation.compile_error) {
    return RejectForError(*evaluation.compile_error);
  }
  if (evaluation.device_model.empty()) return PlanDevice(state, evaluation, inputs);
  switch (evaluation.stage) {
    case Stage::kCompile: return CompileCandidate{};
    case Stage::kForecast: return PlanForecast(state, evaluation, now_ns);
    case Stage::kDecide: return PlanDecision(state, evaluation, inputs);
    case Stage::kMeasure: break;
  }
  if (evaluation.mode == EvaluateMode::kFinal) return MeasureCandidate{MeasureLevel::kFinal};
  if (evaluation.mode == EvaluateMode::kCheck) return MeasureCandidate{MeasureLevel::kCheck};
  if (evaluation.mode == EvaluateMode::kProfile) return MeasureCandidate{.profile = true};
  return MeasureCandidate{{MeasureLevel::kScreen, StopBelow(state, evaluation)}};
}

bool RepeatsMeasurement(const Evaluation& evaluation, const Measurement& measurement, int retries) {
  return std::holds_alternative<EnvironmentUnstable>(measurement.outcome) &&
         evaluation.repeats < retries;
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
  const bool has_worker = !search.device_model.empty() && inputs.capacity.measure_slots > 0;
  if (search.device_model.empty() && !inputs.device.found.empty()) {
    return ChooseDevice{inputs.device.found};
  }
  if (!has_worker) {
    if (std::optional<AbandonSearch> abandon = PlanWithoutWorker(search, inputs)) return abandon;
    if (search.device_model.empty()) return std::nullopt;
  }
  if (search.status == SearchStatus::kRunning) {
    const std::string budget = ExhaustedBudget(search, inputs.now_ns);
    if (!budget.empty() && !GoesOnAfter(search, budget)) {
      return FinishSearch{absl::StrCat("budget: ", budget)};
    }
    std::optional<SourceAction> next = SourceFor(search.spec.generator).Next(state, search, inputs);
    if (!next) return std::nullopt;
    return std::visit([](auto& action) { return SearchAction(std::move(action)); }, *next);
  }
  if (search.in_flight > 0) return std::nullopt;
  std::vector<std::string> finals = NextFinals(search.leaders, search.finals, inputs.confirmation);
  if (!finals.empty()) return MeasureFinals{std::move(finals)};
  if (std::optional<MeasureHeldOut> gate = PlanGate(state, search)) return *std::move(gate);
  return PlanClose(search);
}

std::string MissingWorker(const Search& search, const SearchInputs& inputs) {
  const bool has_device = !search.device_model.empty();
  if (has_device ? inputs.capacity.measure_slots > 0 : !inputs.device.found.empty()) return "";
  return NobodyMeasures(search.spec.target, WantedModel(search), inputs.device.devices);
}

CloseSearch PlanClose(const Search& search) {
  const std::vector<Finalist> finalists = search.RankedFinalists();
  if (finalists.empty() || !MayWin(finalists.front())) return {};
  return {finalists.front().request_id};
}

}  // namespace kernelcast::orchestrator
