// A baseline without forecasts.

#include <memory>

#include "services/orchestrator/core/puct.h"
#include "services/orchestrator/core/search_strategy.h"

namespace kernelcast::orchestrator {
namespace {

class MeasureAllStrategy final : public SearchStrategy {
 public:
  std::string_view name() const override { return "measure_all"; }
  Points points() const override { return Points::kGenerator; }
  bool measures_everything() const override { return true; }
  Parents ChooseParents(const Archive& archive, uint64_t, uint64_t) const override {
    return {ChooseByPuct(archive, 1)};
  }
};

}  // namespace

namespace measure_all {

StrategyKind Kind() {
  return {"measure_all",
          "a baseline: the proposals of `selection`, all measured",
          {},
          [](const StrategyValues&) -> std::unique_ptr<const SearchStrategy> {
            return std::make_unique<MeasureAllStrategy>();
          }};
}

}  // namespace measure_all
}  // namespace kernelcast::orchestrator
