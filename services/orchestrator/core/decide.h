#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_DECIDE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_DECIDE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/domain/anchor.h"
#include "common/domain/decision.h"
#include "services/orchestrator/core/state.h"

namespace kernelcast::orchestrator {

// Pure functions of the state.

// The decision on an evaluation at stage kDecide, or at stage kForecast if it needs no forecast.
// `now_ns` is the time since the Unix epoch, for wall-time budgets.
Decision Decide(const State& state, const Evaluation& evaluation, int64_t now_ns);

// Whether the search compares the candidate with others before it measures any. Others are decided
// one by one, and return only when the forecaster has learnt.
bool IsSelectedFrom(const Search& search, const Evaluation& evaluation);

// Whether the evaluation is decided without a forecast.
bool NeedsNoForecast(const State& state, const Evaluation& evaluation);

// The kernel that a model compares the candidate with. `search` may be null. Null: the reference.
std::shared_ptr<const AnchorKernel> AnchorFor(const State& state, const Candidate& candidate,
                                              const Search* search,
                                              const std::string& device_model);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_DECIDE_H_
