// A baseline without a preference for any parent.

#include <memory>

#include "services/orchestrator/core/draws.h"
#include "services/orchestrator/core/search_strategy.h"

namespace kernelcast::orchestrator {
namespace {

class RandomStrategy final : public SearchStrategy {
 public:
  std::string_view name() const override { return "random"; }
  Points points() const override { return Points::kUniform; }
  ArchiveLimits archive_limits() const override { return {1000, 1000}; }
  Parents ChooseParents(const Archive& archive, uint64_t, uint64_t random) const override {
    const auto nodes = archive.BestFirst();
    return {nodes[Below(random, nodes.size())]->id()};
  }
};

}  // namespace

namespace random {

StrategyKind Kind() {
  return {"random",
          "a baseline: random points, or random parents for a model",
          {},
          [](const StrategyValues&) -> std::unique_ptr<const SearchStrategy> {
            return std::make_unique<RandomStrategy>();
          }};
}

}  // namespace random
}  // namespace kernelcast::orchestrator
