#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_TEMPLATE_STRATEGY_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_TEMPLATE_STRATEGY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "services/orchestrator/core/search_strategy.h"

namespace kernelcast::orchestrator {

// Candidates are points of the problem's template space. A search first explores part of it, then
// measures the best of the candidates that it has pruned, one after the other, and explores a
// little further with each measurement, or where nothing else is worth measuring.
class TemplateStrategy final : public SearchStrategy {
 public:
  // A search explores this much of a space before it selects, and this much more with each
  // measurement, so that variations of the best are among the candidates. Smaller spaces are
  // explored completely.
  static constexpr uint64_t kLookAhead = 512;
  static constexpr uint64_t kLookAheadPerMeasurement = 8;

  absl::Status Check(const SearchSpec& spec, const Problem& problem,
                     bool has_writer) const override;
  bool ProposesByItself() const override { return true; }
  uint64_t ExpectedDecisions(const Search& search) const override;
  std::optional<StrategyAction> Next(const State& state, const Search& search,
                                     const StrategyInputs& inputs) const override;

  // The same for a strategy that uses the space among other sources. `finish` is the step after the
  // space is exhausted. The search must have a generator.
  std::optional<StrategyAction> NextOfSpace(
      const State& state, const Search& search, const StrategyInputs& inputs,
      const std::function<std::optional<StrategyAction>(const char* reason)>& finish) const;

  // How long a search waits for the forecaster to learn from its last measurement.
  static constexpr int64_t kLabelPatienceNs = 1'000'000'000;

  // Given the forecasts of a search's pruned candidates, the index of the one to measure next.
  // Nothing: none is worth a measurement.
  static std::optional<size_t> ChooseSelection(const Search& search,
                                               const std::vector<ForecastResult>& forecasts);

  // What a ranking found, given its forecasts, one per candidate. Nothing: rank again, because the
  // forecaster has not learnt from the last measurement. `waited_ns` is the time since then.
  static std::optional<PrunedRanked> Conclude(const Search& search, const RankPruned& ranking,
                                              const std::vector<ForecastResult>& forecasts,
                                              int64_t waited_ns);

  // Evaluates the candidate that the last ranking found, until it is accepted.
  static std::optional<ProposeCandidate> Chosen(const Search& search);

  // The number of candidates that a search considers before it waits for measurements to guide it.
  // Includes those beyond, which were considered because nothing else was worth measuring.
  static uint64_t LookAhead(const Search& search);

 private:
  // The step of a search that proposes no further candidates of its look-ahead now.
  std::optional<StrategyAction> Select(
      const State& state, const Search& search, const StrategyInputs& inputs, bool has_room,
      const std::function<std::optional<StrategyAction>(const char* reason)>& finish) const;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_TEMPLATE_STRATEGY_H_
