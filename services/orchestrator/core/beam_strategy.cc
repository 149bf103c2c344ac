// Derives from the few best kernels only.

#include <algorithm>
#include <memory>
#include <vector>

#include "services/orchestrator/core/draws.h"
#include "services/orchestrator/core/search_strategy.h"

namespace kernelcast::orchestrator {
namespace {

class BeamStrategy final : public SearchStrategy {
 public:
  explicit BeamStrategy(const StrategyValues& values)
      : width_(WholeValue(values, "width")), batches_(BatchLimitsOf(values)) {}

  std::string_view name() const override { return "beam"; }
  ArchiveLimits archive_limits() const override { return {1000, 1000}; }
  std::optional<BatchLimits> batches() const override { return batches_; }

  // The least expanded of the `width` best kernels; the better one where equal. The reference is
  // among them until there are enough.
  Parents ChooseParents(const Archive& archive, uint64_t, uint64_t random) const override {
    const std::vector<const Archive::Node*> beam = Beam(archive);
    const auto first = std::ranges::min_element(
        beam, [](const auto* a, const auto* b) { return a->expansions < b->expansions; });
    return {(*first)->id(), beam[Below(random, beam.size())]->id()};
  }

  std::vector<ArchiveEntry> Entries(const Archive& archive) const override {
    std::vector<ArchiveEntry> entries;
    for (const Archive::Node* node : Beam(archive)) entries.push_back(EntryOf(archive, *node));
    return entries;
  }

 private:
  std::vector<const Archive::Node*> Beam(const Archive& archive) const {
    std::vector<const Archive::Node*> beam = archive.BestFirst();
    if (beam.size() > width_) {
      std::erase_if(beam, [&](const auto* node) { return node->id() == archive.reference_id(); });
    }
    beam.resize(std::min<size_t>(beam.size(), width_));
    return beam;
  }

  const uint64_t width_;
  const BatchLimits batches_;
};

}  // namespace

namespace beam {

StrategyKind Kind() {
  return {"beam", "only the best kernels are parents",
          BatchParameters({8, 2, 1}, {{"width", 4, 1, 1000, "number of kernels that are parents"}}),
          [](const StrategyValues& values) -> std::unique_ptr<const SearchStrategy> {
            return std::make_unique<BeamStrategy>(values);
          }};
}

}  // namespace beam
}  // namespace kernelcast::orchestrator
