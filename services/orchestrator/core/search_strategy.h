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

// The kernels from which a candidate is derived: ids of kernels in the archive, or of the
// reference.
struct Parents {
  std::string first;
  // Points of a template space may be crossed with this one. Empty or the same: a mutation.
  std::string second = {};
};

// A batch has `children` candidates of one parent. Forecasts choose `admit` of them to be measured.
struct BatchLimits {
  uint64_t children = 1;
  uint64_t admit = 1;
  // A batch is started while fewer than this many others compete for measurements.
  uint64_t parents = 1;
};

// A pruned candidate that may be measured.
struct PrunedCandidate {
  const Forecast* forecast = nullptr;
  double win_probability = 0;
  // Others of its batch were admitted instead, or it was pruned without a batch.
  bool lost = false;
};

// Chooses the parents of a search's candidates, and which of its pruned candidates are measured. A
// CandidateSource makes the candidates. Implementations have no state: results follow from the
// arguments, and so from the search's events. Thread-safe.
class SearchStrategy {
 public:
  // How points of a template space are proposed.
  enum class Points {
    kGenerator,  // by TemplateGenerator's own rules
    kDerived,    // derived from the parents
    kUniform,    // at random
  };

  // A candidate that has lost is considered again when its win probability is at least this.
  static constexpr double kReturnAbove = 0.5;

  virtual ~SearchStrategy() = default;

  virtual std::string_view name() const = 0;
  // The parents of the next candidate. `batch` numbers the batches from 0. The first parent that is
  // chosen for a batch's first candidate holds for the whole batch. `random`: a state for draws.h.
  virtual Parents ChooseParents(const Archive& archive, uint64_t batch, uint64_t random) const = 0;
  virtual Points points() const { return Points::kDerived; }
  virtual ArchiveLimits archive_limits() const { return {}; }
  // Not set: candidates are decided one by one.
  virtual std::optional<BatchLimits> batches() const { return std::nullopt; }
  // Measures every candidate without a forecast.
  virtual bool measures_everything() const { return false; }
  // The index of the candidate to measure next. `incumbent_speedup`: the best measured speedup; 1
  // if there is none. By default the candidate with the largest expected bin or, among about equal
  // ones, the largest win probability.
  virtual std::optional<size_t> ChooseMeasurement(std::span<const PrunedCandidate> pruned,
                                                  double incumbent_speedup) const;
  // The kernels among which ChooseParents chooses, in the order in which reports show them. By
  // default every kernel of the archive, best first.
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
std::vector<StrategyParameter> BatchParameters(const BatchLimits& defaults,
                                               std::vector<StrategyParameter> others);
BatchLimits BatchLimitsOf(const StrategyValues& values);

// The value of a parameter that is a whole number.
uint64_t WholeValue(const StrategyValues& values, std::string_view name);

// The smaller of two draws, so that an early rank is drawn more often.
size_t DrawRank(uint64_t& random, size_t count);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_SEARCH_STRATEGY_H_
