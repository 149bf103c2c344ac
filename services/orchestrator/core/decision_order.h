#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_DECISION_ORDER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_DECISION_ORDER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "services/orchestrator/core/state.h"

namespace kernelcast::orchestrator {

// The order in which routed candidates are decided, in a search that does not select from them, and
// outside searches. A candidate that would be measured waits until the device has room. Candidates
// of callers are then decided as they arrived. If a search proposes its candidates, the most likely
// winner is next, or one that has waited long. The forecast must include the results so far.
// Without this order, all candidates that arrive early would be decided before the first result.
// Pure functions of the state.

// Values of the outside world at one moment.
struct OrderInputs {
  int64_t now_ns = 0;           // since the Unix epoch
  uint64_t measure_slots = 0;   // measurements that the devices make at once; 0: no worker is there
  bool forecasts_next = false;  // the last one that NextToDecide returned is being forecast again
};

// Whether the evaluation has a forecast and waits in the queue of its search or problem.
bool IsDecidedInOrder(const State& state, const Evaluation& evaluation);

// Whether there are results since the evaluation's forecast, and the forecaster learns from them.
bool IsOutdated(const State& state, const Evaluation& evaluation);

// The number of results that a forecast of the evaluation could have learnt from.
uint64_t LabelsOf(const State& state, const Evaluation& evaluation);

// Whether an evaluation that is decided in order waits for NextToDecide. The others are decided
// when they have a forecast: those of the start, and those that are pruned or audited. But where
// forecasts compare launches, all wait until there is a correct result.
bool WaitsForOthers(const State& state, const Evaluation& evaluation, const Decision& decision);

// The request of the evaluation to decide next, or to forecast again if its forecast is outdated.
// Nothing: the device has no room, or one is being forecast again.
std::optional<std::string> NextToDecide(const State& state, const Search& search,
                                        const OrderInputs& inputs);
// The same for candidates outside searches.
std::optional<std::string> NextToDecide(const State& state, const ProblemHistory& history,
                                        const OrderInputs& inputs);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_DECISION_ORDER_H_
