// Keeps the best kernel of each niche, and derives from all niches alike.

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/domain/niche.h"
#include "services/orchestrator/core/draws.h"
#include "services/orchestrator/core/search_strategy.h"

namespace kernelcast::orchestrator {
namespace {

class MapElitesStrategy final : public SearchStrategy {
 public:
  explicit MapElitesStrategy(const StrategyValues& values) : broods_(BroodLimitsOf(values)) {}

  std::string_view name() const override { return "map_elites"; }
  ArchiveLimits archive_limits() const override { return {1000, 1000}; }
  std::optional<BroodLimits> broods() const override { return broods_; }

  // The best kernels of two niches. The reference is a niche of its own, from which new kernels
  // start.
  Parents ChooseParents(const Archive& archive, uint64_t, uint64_t random) const override {
    std::map<Niche, const Archive::Node*> elites;
    const Archive::Node* reference = nullptr;
    for (const Archive::Node* node : archive.BestFirst()) {
      if (node->id() == archive.reference_id()) {
        reference = node;
      } else {
        elites.try_emplace(NicheOf(node->attempt.facts), node);
      }
    }
    std::vector<const Archive::Node*> niches = {reference};
    for (const auto& [niche, elite] : elites) niches.push_back(elite);
    const Archive::Node* first = niches[Below(random, niches.size())];
    return {first->id(), niches[Below(random, niches.size())]->id()};
  }

 private:
  const BroodLimits broods_;
};

}  // namespace

StrategyKind MapElitesKind() {
  return {"map_elites",
          "the best kernel of each niche by bound resource, occupancy, width, tile "
          "and launches",
          BroodParameters({8, 2, 1}, {}),
          [](const StrategyValues& values) -> std::unique_ptr<const SearchStrategy> {
            return std::make_unique<MapElitesStrategy>(values);
          }};
}

}  // namespace kernelcast::orchestrator
