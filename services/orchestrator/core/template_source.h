#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_TEMPLATE_SOURCE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_TEMPLATE_SOURCE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "services/orchestrator/core/candidate_source.h"

namespace kernelcast::orchestrator {

// Candidates are points of the problem's template space, each proposed once. With the default
// strategy a search first explores part of the space, then measures the best of the candidates that
// it has pruned, one after the other, and explores a little further with each measurement, or where
// nothing else is worth measuring. With other strategies it derives points from parents.
class TemplateSource final : public CandidateSource {
 public:
  // A search explores this much of a space before it selects, and this much more with each
  // measurement, so that variations of the best are among the candidates. Smaller spaces are
  // explored completely.
  static constexpr uint64_t kLookAhead = 512;
  static constexpr uint64_t kLookAheadPerMeasurement = 8;

  absl::Status Check(const SearchSpec& spec, const Problem& problem,
                     bool has_writer) const override;
  bool ProposesByItself() const override { return true; }
  uint64_t ExpectedDecisions(const Search& search) const override;
  std::optional<SourceAction> Next(const State& state, const Search& search,
                                   const SourceInputs& inputs) const override;

  // The same for a source that uses the space among other sources. `finish` is the step after the
  // space is exhausted. The search must have a generator.
  std::optional<SourceAction> NextOfSpace(
      const State& state, const Search& search, const SourceInputs& inputs,
      const std::function<std::optional<SourceAction>(const char* reason)>& finish) const;

  // The number of candidates that a search considers before it waits for measurements to guide it.
  // Includes those beyond, which were considered because nothing else was worth measuring.
  static uint64_t LookAhead(const Search& search);

 private:
  static std::optional<SourceAction> Propose(const Search& search);
  // Whether the search proposes a candidate before it measures any of those that it has pruned.
  static bool LooksAhead(const Search& search);
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_TEMPLATE_SOURCE_H_
