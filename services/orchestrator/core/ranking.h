#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_RANKING_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_RANKING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "services/orchestrator/core/candidate_source.h"

namespace kernelcast::orchestrator {

// Pruned candidates are forecast again by a forecaster that has learnt more, and the best of them
// is measured. Pure functions of the search.

// How long a search waits for the forecaster to learn from its last measurement.
inline constexpr int64_t kLabelPatienceNs = 1'000'000'000;

// While nothing is measured, this many more pruned candidates are awaited before they are ranked.
inline constexpr uint64_t kPrunedPerRanking = 8;

// Whether something was measured since the last ranking that found nothing. Candidates that were
// decided at once return only then.
bool HasLearnt(const Search& search);

// The ranking to make now. `ended`: the search proposes nothing more. Nothing: none is worth
// making, or one is in progress.
std::optional<RankPruned> PlanRanking(const State& state, const Search& search,
                                      const SourceInputs& inputs, bool ended);

// Given the forecasts of a ranking's candidates, the index of the one to measure next. Nothing:
// none is worth a measurement.
std::optional<size_t> ChooseSelection(const Search& search,
                                      const std::vector<std::string>& candidate_ids,
                                      const std::vector<ForecastResult>& forecasts);

// The result of a ranking, given its forecasts, one per candidate. Nothing: rank again, because the
// forecaster has not learnt from the last measurement. `waited_ns` is the time since then.
std::optional<PrunedRanked> Conclude(const Search& search, const RankPruned& ranking,
                                     const std::vector<ForecastResult>& forecasts,
                                     int64_t waited_ns);

// Evaluates the candidate that the last ranking found, until it is accepted.
std::optional<ProposeCandidate> Chosen(const Search& search);

// Whether the last selected candidate waits for its decision.
bool AwaitsSelection(const State& state, const Search& search);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_RANKING_H_
