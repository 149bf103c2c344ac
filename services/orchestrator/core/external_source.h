#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_EXTERNAL_SOURCE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_EXTERNAL_SOURCE_H_

#include "services/orchestrator/core/candidate_source.h"

namespace kernelcast::orchestrator {

// Candidates come from callers. The search ends when a caller stops it, or with its budget.
class ExternalSource final : public CandidateSource {
 public:
  absl::Status Check(const SearchSpec& spec, const Problem& problem,
                     bool has_writer) const override;
  bool ProposesByItself() const override { return false; }
  uint64_t ExpectedDecisions(const Search& search) const override;
  std::optional<SourceAction> Next(const State& state, const Search& search,
                                   const SourceInputs& inputs) const override;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_EXTERNAL_SOURCE_H_
