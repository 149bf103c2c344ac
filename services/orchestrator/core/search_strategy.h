#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_SEARCH_STRATEGY_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_SEARCH_STRATEGY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/archive_overview.h"
#include "common/domain/forecast.h"
#include "services/orchestrator/core/archive.h"

namespace kernelcast::orchestrator {

// What a candidate is derived from: ids of kernels in the archive, or of the reference.
struct Parents {
  std::string first;
  // Points of a template space may be crossed with this one. Empty or the same: a mutation.
  std::string second = {};
};

// The n candidates derived from one parent in one go, of which the forecasts admit k.
struct BroodLimits {
  uint64_t children = 1;
  uint64_t admit = 1;
  // A brood is started while fewer than this many others compete for measurements.
  uint64_t parents = 1;
};

// A pruned candidate that may be measured.
struct PrunedCandidate {
  const Forecast* forecast = nullptr;
  double win_probability = 0;
  // It has lost against the others of its brood, or was pruned without one.
  bool lost = false;
};

// Chooses what a search's candidates are derived from, and which of its pruned candidates are
// measured. Where candidates come from is the business of CandidateSource. Implementations have no
// state: everything follows from the arguments, and so from the search's events. Thread-safe.
class SearchStrategy {
 public:
  // How points of a template space are proposed.
  enum class Points {
    kGenerator,  // by TemplateGenerator's own rules
    kDerived,    // derived from the parents
    kUniform,    // at random
  };

  // A candidate that has lost returns when its win probability is at least this.
  static constexpr double kReturnAbove = 0.5;

  virtual ~SearchStrategy() = default;

  virtual std::string_view name() const = 0;
  // Parents of the next candidate. `brood` numbers the broods from 0; the first parent of a brood's
  // first candidate is that of all of them. `random` is a state for draws.h.
  virtual Parents ChooseParents(const Archive& archive, uint64_t brood, uint64_t random) const = 0;
  virtual Points points() const { return Points::kDerived; }
  virtual ArchiveLimits archive_limits() const { return {}; }
  // Not set: each candidate is decided when it is known.
  virtual std::optional<BroodLimits> broods() const { return std::nullopt; }
  // Measures every candidate without a forecast.
  virtual bool measures_everything() const { return false; }
  // The candidate to measure next. `incumbent_speedup` is the best measured speedup, or 1. By
  // default the one with the largest expected bin and, where these are about the same, win
  // probability.
  virtual std::optional<size_t> ChooseMeasurement(std::span<const PrunedCandidate> pruned,
                                                  double incumbent_speedup) const;
  // What ChooseParents chooses among, in the order in which people read it. By default every kernel
  // of the archive, best first.
  virtual std::vector<ArchiveEntry> Entries(const Archive& archive) const;
};

ArchiveOverview OverviewOf(const SearchStrategy& strategy, const Archive& archive);

struct StrategyParameter {
  std::string_view name;
  double value = 0;  // the default
  double low = 0;
  double high = 0;
  std::string_view meaning;
  bool whole = true;
};

// Values of all parameters.
using StrategyValues = std::map<std::string, double, std::less<>>;

// A strategy that users can name.
struct StrategyKind {
  std::string_view name;
  std::string_view meaning;
  std::vector<StrategyParameter> parameters;
  std::unique_ptr<const SearchStrategy> (*make)(const StrategyValues& values) = nullptr;
};

inline constexpr std::string_view kDefaultStrategy = "selection";

// The default first.
std::span<const StrategyKind> StrategyKinds();

// An empty name is the default. INVALID_ARGUMENT: unknown name or parameter, or a value out of
// range; the message lists what is allowed.
[[nodiscard]] absl::StatusOr<std::unique_ptr<const SearchStrategy>> MakeStrategy(
    std::string_view name, const std::map<std::string, double>& parameters);

// The parameters `children`, `admit` and `parents` with these defaults, followed by others.
std::vector<StrategyParameter> BroodParameters(const BroodLimits& defaults,
                                               std::vector<StrategyParameter> others);
BroodLimits BroodLimitsOf(const StrategyValues& values);

// The whole-numbered value of a parameter.
uint64_t WholeValue(const StrategyValues& values, std::string_view name);

// The smaller of two draws, so that an early rank is drawn more often.
size_t DrawRank(uint64_t& random, size_t count);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_SEARCH_STRATEGY_H_
