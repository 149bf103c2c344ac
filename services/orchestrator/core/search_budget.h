#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_SEARCH_BUDGET_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_SEARCH_BUDGET_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "services/orchestrator/core/policy.h"
#include "services/orchestrator/core/state.h"

namespace kernelcast::orchestrator {

// The limits of a search. Pure functions of its state.

// The name of the budget limit that is reached, such as "max_measurements". Empty: none.
// `now_ns` is the time since the Unix epoch.
std::string ExhaustedBudget(const Search& search, int64_t now_ns);

// Whether the search continues without measurements after reaching that limit.
bool GoesOnAfter(const Search& search, std::string_view limit);

// The inputs of the policy except the forecast. The search must be open.
PolicyInput CountsFor(const Search& search);

// Whether candidates of the search wait to be compared with others before they are settled, instead
// of being decided at once. False for a closed search.
bool Selects(const Search& search);

// Whether a search may select from what it knows now, or must wait for more. The search must be
// open.
bool MaySelect(const Search& search);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_SEARCH_BUDGET_H_
