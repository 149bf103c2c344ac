#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_DECISION_ORDER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_DECISION_ORDER_H_

#include <optional>
#include <string>

#include "services/orchestrator/core/candidate_source.h"
#include "services/orchestrator/core/state.h"

namespace kernelcast::orchestrator {

// Candidates that a search proposes and does not select from are decided one after the other: what
// would be measured, only when the device has room for it, the most likely winner first except for
// those that have waited long, and by a forecast that includes the results so far. Otherwise, all
// that are compiled at the start would be decided before the first result. Pure functions of the
// state.

// Whether the evaluation has a forecast and waits until it is next.
bool IsDecidedInOrder(const State& state, const Evaluation& evaluation);

// Whether there are results since the evaluation's forecast, and the forecaster learns from them.
bool IsOutdated(const Search& search, const Evaluation& evaluation);

// The request of the evaluation to decide next, or to forecast again if its forecast is outdated.
// Nothing: all wait for results, or one is being forecast again.
std::optional<std::string> NextToDecide(const State& state, const Search& search,
                                        const SourceInputs& inputs);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_DECISION_ORDER_H_
