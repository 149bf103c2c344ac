#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_MODEL_SOURCE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_MODEL_SOURCE_H_

#include <cstdint>
#include <string>

#include "services/orchestrator/core/candidate_source.h"
#include "services/orchestrator/core/template_source.h"

namespace kernelcast::orchestrator {

// A language model writes the candidates, each derived from an earlier one. If the model is
// unavailable or its answers are useless, candidates come from the problem's template space, if it
// has one.
class ModelSource final : public CandidateSource {
 public:
  // Maximum consecutive answers of a model without a new kernel. After that it is not asked again.
  static constexpr uint64_t kMaxUselessAnswers = 24;
  // Consecutive unanswered requests after which the search continues with the template space.
  static constexpr uint64_t kOutagesBeforeTemplates = 2;

  absl::Status Check(const SearchSpec& spec, const Problem& problem,
                     bool has_writer) const override;
  bool ProposesByItself() const override { return true; }
  uint64_t ExpectedDecisions(const Search& search) const override;
  std::optional<SourceAction> Next(const State& state, const Search& search,
                                   const SourceInputs& inputs) const override;

 private:
  TemplateSource space_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_MODEL_SOURCE_H_
