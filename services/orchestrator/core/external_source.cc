#include "services/orchestrator/core/external_source.h"

namespace kernelcast::orchestrator {

absl::Status ExternalSource::Check(const SearchSpec& spec, const Problem&, bool) const {
  if (!spec.strategy.empty() && spec.strategy != kDefaultStrategy) {
    return absl::InvalidArgumentError(
        "spec.strategy: a search with candidates from outside derives none");
  }
  return absl::OkStatus();
}

uint64_t ExternalSource::ExpectedDecisions(const Search& search) const {
  return search.spec.budget.max_candidates;
}

std::optional<SourceAction> ExternalSource::Next(const State&, const Search&,
                                                 const SourceInputs&) const {
  return std::nullopt;
}

}  // namespace kernelcast::orchestrator
