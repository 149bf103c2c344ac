#include "services/orchestrator/core/search_strategy.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/orchestrator/core/draws.h"

namespace kernelcast::orchestrator {

namespace {

// With a failure as bin 0, in halves.
double ExpectedHalfBin(const Forecast& forecast) {
  double expected = 0;
  for (size_t i = 0; i < forecast.bin_probabilities.size(); ++i) {
    expected += static_cast<double>(i + 1) * forecast.bin_probabilities[i];
  }
  return std::round(2 * (1 - forecast.failure_probability) * expected);
}

std::string NamesOf(std::span<const StrategyKind> kinds) {
  return absl::StrJoin(kinds, ", ",
                       [](std::string* out, const StrategyKind& kind) { out->append(kind.name); });
}

absl::StatusOr<StrategyValues> ValuesOf(const StrategyKind& kind,
                                        const std::map<std::string, double>& given) {
  StrategyValues values;
  for (const StrategyParameter& parameter : kind.parameters) {
    values.emplace(parameter.name, parameter.value);
  }
  for (const auto& [name, value] : given) {
    const auto known = std::ranges::find_if(
        kind.parameters,
        [&name = name](const StrategyParameter& each) { return each.name == name; });
    if (known == kind.parameters.end()) {
      const std::string names =
          absl::StrJoin(kind.parameters, ", ", [](std::string* out, const StrategyParameter& each) {
            absl::StrAppend(out, std::string(each.name), " (", std::string(each.meaning), ")");
          });
      return absl::InvalidArgumentError(
          absl::StrCat("strategy_parameters: '", name, "' is not a parameter of strategy ",
                       std::string(kind.name), "; it has ", names.empty() ? "none" : names));
    }
    const bool whole = !known->whole || std::floor(value) == value;
    if (!(value >= known->low && value <= known->high) || !whole) {
      return absl::InvalidArgumentError(
          absl::StrCat("strategy_parameters[", name, "]: ", value, " is not a ",
                       known->whole ? "whole number" : "number", " from ", known->low, " to ",
                       known->high, " (", std::string(known->meaning), ")"));
    }
    values[name] = value;
  }
  return values;
}

}  // namespace

std::optional<size_t> SearchStrategy::ChooseMeasurement(std::span<const PrunedCandidate> pruned,
                                                        double) const {
  std::optional<size_t> best;
  std::pair<double, double> most;
  for (size_t i = 0; i < pruned.size(); ++i) {
    const PrunedCandidate& candidate = pruned[i];
    if (candidate.lost && candidate.win_probability < kReturnAbove) continue;
    const std::pair merit(ExpectedHalfBin(*candidate.forecast), candidate.win_probability);
    if (best.has_value() && merit <= most) continue;
    best = i;
    most = merit;
  }
  return best;
}

std::vector<ArchiveEntry> SearchStrategy::Entries(const Archive& archive) const {
  std::vector<ArchiveEntry> entries;
  for (const Archive::Node* node : archive.BestFirst()) entries.push_back(EntryOf(archive, *node));
  return entries;
}

ArchiveOverview OverviewOf(const SearchStrategy& strategy, const Archive& archive) {
  ArchiveOverview overview;
  overview.strategy = strategy.name();
  overview.entries = strategy.Entries(archive);
  overview.total = overview.entries.size();
  overview.entries.resize(std::min(overview.entries.size(), ArchiveOverview::kMaxEntries));
  for (ArchiveEntry& entry : overview.entries) {
    if (!entry.candidate_id.empty()) entry.children = archive.Children(entry.candidate_id);
  }
  return overview;
}

absl::StatusOr<std::unique_ptr<const SearchStrategy>> MakeStrategy(
    std::string_view name, const std::map<std::string, double>& parameters) {
  if (name.empty()) name = kDefaultStrategy;
  const std::span<const StrategyKind> kinds = StrategyKinds();
  const auto kind =
      std::ranges::find_if(kinds, [&](const StrategyKind& each) { return each.name == name; });
  if (kind == kinds.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("strategy: '", std::string(name), "' is not one of ", NamesOf(kinds)));
  }
  absl::StatusOr<StrategyValues> values = ValuesOf(*kind, parameters);
  if (!values.ok()) return values.status();
  const auto admit = values->find("admit");
  if (admit != values->end() && admit->second > values->find("children")->second) {
    return absl::InvalidArgumentError(absl::StrCat("strategy_parameters: admit ", admit->second,
                                                   " must not exceed children ",
                                                   values->find("children")->second));
  }
  return kind->make(*values);
}

std::vector<StrategyParameter> BatchParameters(const BatchLimits& defaults,
                                               std::vector<StrategyParameter> others) {
  std::vector<StrategyParameter> parameters = {
      {"children", static_cast<double>(defaults.children), 1, 1000,
       "candidates derived from a parent in one go"},
      {"admit", static_cast<double>(defaults.admit), 1, 1000,
       "of these, the number that the forecasts admit to be measured"},
      {"parents", static_cast<double>(defaults.parents), 1, 100,
       "parents whose candidates compete for measurements at a time"}};
  parameters.insert(parameters.end(), others.begin(), others.end());
  return parameters;
}

BatchLimits BatchLimitsOf(const StrategyValues& values) {
  return {WholeValue(values, "children"), WholeValue(values, "admit"),
          WholeValue(values, "parents")};
}

uint64_t WholeValue(const StrategyValues& values, std::string_view name) {
  return static_cast<uint64_t>(values.find(name)->second);
}

size_t DrawRank(uint64_t& random, size_t count) {
  const size_t first = Below(random, count);
  return std::min(first, Below(random, count));
}

}  // namespace kernelcast::orchestrator
