#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_DECISION_ORDER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_DECISION_ORDER_H_

#include <optional>
#include <string>

#include "services/orchestrator/core/candidate_source.h"
#include "services/orchestrator/core/state.h"

namespace kernelcast::orchestrator {

// The order in which a search decides the candidates that it proposes and does not select from. A
// candidate that would be measured waits until the device has room. Then the most likely winner is
// next, or one that has waited long. Its forecast must include the results so far. Without this
// order, all candidates that compile early would be decided before the first result. Pure functions
// of the state.

// Whether the evaluation has a forecast and is decided only when NextToDecide returns it.
bool IsDecidedInOrder(const State& state, const Evaluation& evaluation);

// Whether there are results since the evaluation's forecast, and the forecaster learns from them.
bool IsOutdated(const Search& search, const Evaluation& evaluation);

// The request of the evaluation to decide next, or to forecast again if its forecast is outdated.
// Nothing: all wait for results, or one is being forecast again.
std::optional<std::string> NextToDecide(const State& state, const Search& search,
                                        const SourceInputs& inputs);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_DECISION_ORDER_H_
