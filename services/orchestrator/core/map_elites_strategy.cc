// Keeps the best kernel of each niche, and derives from all niches alike.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/domain/niche.h"
#include "services/orchestrator/core/draws.h"
#include "services/orchestrator/core/search_strategy.h"

namespace kernelcast::orchestrator {
namespace {

class MapElitesStrategy final : public SearchStrategy {
 public:
  explicit MapElitesStrategy(const StrategyValues& values) : batches_(BatchLimitsOf(values)) {}

  std::string_view name() const override { return "map_elites"; }
  ArchiveLimits archive_limits() const override { return {1000, 1000}; }
  std::optional<BatchLimits> batches() const override { return batches_; }

  // The best kernels of two niches. The reference is a niche of its own, from which new kernels
  // start.
  Parents ChooseParents(const Archive& archive, uint64_t, uint64_t random) const override {
    std::vector<const std::string*> niches = {&archive.reference_id()};
    for (const auto& [niche, elite] : Elites(archive)) niches.push_back(&elite.best->id());
    const std::string& first = *niches[Below(random, niches.size())];
    return {first, *niches[Below(random, niches.size())]};
  }

  std::vector<ArchiveEntry> Entries(const Archive& archive) const override {
    std::vector<ArchiveEntry> entries;
    for (const auto& [niche, elite] : Elites(archive)) {
      entries.push_back(
          EntryOf(archive, *elite.best, NicheText(elite.best->attempt.facts), elite.kernels));
    }
    std::ranges::stable_sort(entries, std::greater(), &ArchiveEntry::speedup);
    return entries;
  }

 private:
  struct Elite {
    const Archive::Node* best = nullptr;
    uint64_t kernels = 0;
  };

  // Without the reference.
  static std::map<Niche, Elite> Elites(const Archive& archive) {
    std::map<Niche, Elite> elites;
    for (const Archive::Node* node : archive.BestFirst()) {
      if (node->id() == archive.reference_id()) continue;
      Elite& elite = elites[NicheOf(node->attempt.facts)];
      if (elite.kernels++ == 0) elite.best = node;
    }
    return elites;
  }

  const BatchLimits batches_;
};

}  // namespace

namespace map_elites {

StrategyKind Kind() {
  return {"map_elites", "the best kernel of each niche is a parent", BatchParameters({8, 2, 1}, {}),
          [](const StrategyValues& values) -> std::unique_ptr<const SearchStrategy> {
            return std::make_unique<MapElitesStrategy>(values);
          }};
}

}  // namespace map_elites
}  // namespace kernelcast::orchestrator
