#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_PLAN_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "services/orchestrator/core/confirmation.h"
#include "services/orchestrator/core/ports.h"
#include "services/orchestrator/core/search_strategy.h"
#include "services/orchestrator/core/state.h"

namespace kernelcast::orchestrator {

// What to do next, as pure functions of the state: the same state and inputs give the same action.
// The engine performs the actions and turns their results into events. It performs an action in
// progress once, and after a restart again.

// --- Evaluations ---

// Choose the device model. Event: DeviceChosen.
struct ChooseDevice {};

// Compile the candidate. Event: EvaluationCompiled.
struct CompileCandidate {};

// Compile the problem's reference for the evaluation's target and device model. Event:
// ReferenceDescribed.
struct DescribeReference {};

// Forecast the candidate. Event: EvaluationForecast.
struct ForecastCandidate {
  ForecastQuery query;
};

// Events: EvaluationDecided and, with a rejection, EvaluationSettled. A rejection is logged with
// the decision's kind and reason alone.
struct DecideCandidate {
  Decision decision;
  std::optional<Rejection> rejection;
};

// Measure the candidate. Event: EvaluationSettled.
struct MeasureCandidate {
  MeasureLevel level = MeasureLevel::kScreen;
};

// Settle on the forecast. Event: EvaluationSettled.
struct SettlePruned {};

// Decide to reject, if that has not happened, and settle. Events: EvaluationDecided and
// EvaluationSettled.
struct RejectCandidate {
  DecisionReason reason = DecisionReason::kUnavailable;
  Rejection rejection;
};

using EvaluationAction =
    std::variant<ChooseDevice, CompileCandidate, DescribeReference, ForecastCandidate,
                 DecideCandidate, MeasureCandidate, SettlePruned, RejectCandidate>;

// The next action of a live evaluation. `now_ns` is the time since the Unix epoch.
EvaluationAction PlanEvaluation(const State& state, const Evaluation& evaluation, int64_t now_ns);

// The cause of a rejection whose decision has this reason.
Rejection::Cause CauseOf(DecisionReason reason);

// --- Searches ---

// Measure these candidates once more, at the final level. Event: EvaluationAccepted for each.
struct MeasureFinals {
  std::vector<std::string> candidate_ids;
};

// Event: SearchClosed. The request whose measurement is the search's result, or empty.
struct CloseSearch {
  std::string confirmed_request_id;
};

using SearchAction = std::variant<ProposeCandidate, RequestKernel, RankPruned, LookFurther,
                                  FinishSearch, MeasureFinals, CloseSearch>;

struct SearchInputs : StrategyInputs {
  ConfirmationLimits confirmation;
};

// The next action of an open search that has a device model. Nothing: it waits for results.
std::optional<SearchAction> PlanSearch(const State& state, const Search& search,
                                       const SearchInputs& inputs);

// Closes a search that is finishing and has nothing in flight.
CloseSearch PlanClose(const Search& search);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_PLAN_H_
