// Populations that evolve separately and exchange their best from time to time.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/orchestrator/core/draws.h"
#include "services/orchestrator/core/search_strategy.h"

namespace kernelcast::orchestrator {
namespace {

// Batches take turns: batch b is of island b mod `islands`.
class IslandsStrategy final : public SearchStrategy {
 public:
  explicit IslandsStrategy(const StrategyValues& values)
      : islands_(WholeValue(values, "islands")),
        migrate_every_(WholeValue(values, "migrate_every")),
        batches_(BatchLimitsOf(values)) {}

  std::string_view name() const override { return "islands"; }
  ArchiveLimits archive_limits() const override { return {1000, 1000}; }
  std::optional<BatchLimits> batches() const override { return batches_; }

  // Every `migrate_every`-th batch of an island derives from the best kernel of the island before
  // it. Its children belong to their own island. An island without kernels starts from the
  // reference.
  Parents ChooseParents(const Archive& archive, uint64_t batch, uint64_t random) const override {
    const uint64_t island = batch % islands_;
    const uint64_t generation = batch / islands_;
    const std::vector<const Archive::Node*> own = Members(archive, island);
    const std::vector<const Archive::Node*> neighbours =
        Members(archive, (island + islands_ - 1) % islands_);
    const bool migrates = generation > 0 && generation % migrate_every_ == 0;
    Parents parents{archive.reference_id()};
    if (migrates && !neighbours.empty()) {
      parents.first = neighbours.front()->id();
    } else if (!own.empty()) {
      parents.first = own[DrawRank(random, own.size())]->id();
    }
    if (!own.empty()) parents.second = own[DrawRank(random, own.size())]->id();
    return parents;
  }

  std::vector<ArchiveEntry> Entries(const Archive& archive) const override {
    std::vector<ArchiveEntry> entries;
    for (uint64_t island = 0; island < islands_; ++island) {
      const std::vector<const Archive::Node*> members = Members(archive, island);
      const std::string place = absl::StrCat("island ", island + 1);
      if (members.empty()) {
        entries.emplace_back().place = place;
      } else {
        entries.push_back(EntryOf(archive, *members.front(), place, members.size()));
      }
    }
    return entries;
  }

 private:
  // Best first, without the reference.
  std::vector<const Archive::Node*> Members(const Archive& archive, uint64_t island) const {
    std::vector<const Archive::Node*> members = archive.BestFirst();
    std::erase_if(members, [&](const Archive::Node* node) {
      return node->id() == archive.reference_id() || node->batch % islands_ != island;
    });
    return members;
  }

  const uint64_t islands_;
  const uint64_t migrate_every_;
  const BatchLimits batches_;
};

}  // namespace

namespace islands {

StrategyKind Kind() {
  return {"islands", "populations that evolve separately, with migration",
          BatchParameters({8, 2, 1},
                          {{"islands", 4, 1, 100, "number of populations"},
                           {"migrate_every", 3, 1, 1000,
                            "generations of an island between migrations from its neighbour"}}),
          [](const StrategyValues& values) -> std::unique_ptr<const SearchStrategy> {
            return std::make_unique<IslandsStrategy>(values);
          }};
}

}  // namespace islands
}  // namespace kernelcast::orchestrator
