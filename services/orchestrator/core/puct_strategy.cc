// The search of the paper (arXiv 2605.31464): parents by PUCT with the best child's reward as a
// parent's value, n children for each, of which the forecasts admit k. Without its steps: a
// straggler delays nobody.

#include <cmath>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "services/orchestrator/core/draws.h"
#include "services/orchestrator/core/puct.h"
#include "services/orchestrator/core/search_strategy.h"

namespace kernelcast::orchestrator {

const std::string& ChooseByPuct(const Archive& archive, double exploration) {
  const std::vector<const Archive::Node*> order = archive.BestFirst();
  const double spread = order.front()->reward - order.back()->reward;
  const double scale = exploration * (spread > 0 ? spread : 1);
  const auto count = static_cast<double>(order.size());
  const double all = std::sqrt(1 + static_cast<double>(archive.expansions()));
  const Archive::Node* best = nullptr;
  double best_score = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const Archive::Node& node = *order[rank];
    const double prior = (count - static_cast<double>(rank)) / (count * (count + 1) / 2);
    const double score = (node.has_children ? node.best_child : node.reward) +
                         scale * prior * all / (1 + static_cast<double>(node.expansions));
    if (best == nullptr || score > best_score) {
      best = &node;
      best_score = score;
    }
  }
  return best->id();
}

namespace {

class PuctStrategy final : public SearchStrategy {
 public:
  explicit PuctStrategy(const StrategyValues& values)
      : exploration_(values.find("exploration")->second),
        limits_{WholeValue(values, "archive"), WholeValue(values, "kept")},
        batches_(BatchLimitsOf(values)) {}

  std::string_view name() const override { return "puct"; }
  ArchiveLimits archive_limits() const override { return limits_; }
  std::optional<BatchLimits> batches() const override { return batches_; }
  Parents ChooseParents(const Archive& archive, uint64_t, uint64_t random) const override {
    const std::vector<const Archive::Node*> order = archive.BestFirst();
    return {ChooseByPuct(archive, exploration_), order[DrawRank(random, order.size())]->id()};
  }

 private:
  const double exploration_;
  const ArchiveLimits limits_;
  const BatchLimits batches_;
};

}  // namespace

namespace puct {

StrategyKind Kind() {
  return {"puct", "the search of the paper: parents by PUCT",
          BatchParameters({16, 4, 2},
                          {{"exploration", 1, 0, 100, "weight of untried parents", /*whole=*/false},
                           {"archive", 1000, 1, 100'000, "number of kernels that are kept"},
                           {"kept", 8, 1, 100'000, "children of a parent that are kept"}}),
          [](const StrategyValues& values) -> std::unique_ptr<const SearchStrategy> {
            return std::make_unique<PuctStrategy>(values);
          }};
}

}  // namespace puct
}  // namespace kernelcast::orchestrator
