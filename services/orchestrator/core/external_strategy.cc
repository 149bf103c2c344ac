#include "services/orchestrator/core/external_strategy.h"

namespace kernelcast::orchestrator {

absl::Status ExternalStrategy::Check(const SearchSpec&, const Problem&, bool) const {
  return absl::OkStatus();
}

uint64_t ExternalStrategy::ExpectedDecisions(const Search& search) const {
  return search.spec.budget.max_candidates;
}

std::optional<StrategyAction> ExternalStrategy::Next(const State&, const Search&,
                                                     const StrategyInputs&) const {
  return std::nullopt;
}

}  // namespace kernelcast::orchestrator
