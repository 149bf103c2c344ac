// The default: of everything that is known, measure what improves most.

#include <memory>
#include <vector>

#include "services/orchestrator/core/next_measurement.h"
#include "services/orchestrator/core/puct.h"
#include "services/orchestrator/core/search_strategy.h"

namespace kernelcast::orchestrator {
namespace {

class SelectionStrategy final : public SearchStrategy {
 public:
  std::string_view name() const override { return kDefaultStrategy; }
  Points points() const override { return Points::kGenerator; }
  Parents ChooseParents(const Archive& archive, uint64_t, uint64_t) const override {
    return {ChooseByPuct(archive, 1)};
  }
  std::optional<size_t> ChooseMeasurement(std::span<const PrunedCandidate> pruned,
                                          double incumbent_speedup) const override {
    std::vector<const Forecast*> forecasts;
    for (const PrunedCandidate& candidate : pruned) {
      const bool may = !candidate.lost || candidate.win_probability >= kReturnAbove;
      forecasts.push_back(may ? candidate.forecast : nullptr);
    }
    return ChooseNext(forecasts, incumbent_speedup);
  }
};

}  // namespace

namespace selection {

StrategyKind Kind() {
  return {kDefaultStrategy,
          "each measurement is chosen from all known points; parents for a model by PUCT",
          {},
          [](const StrategyValues&) -> std::unique_ptr<const SearchStrategy> {
            return std::make_unique<SelectionStrategy>();
          }};
}

}  // namespace selection
}  // namespace kernelcast::orchestrator
