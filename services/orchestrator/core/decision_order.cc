#include "services/orchestrator/core/decision_order.h"

#include <algorithm>
#include <cstdint>

#include "services/orchestrator/core/decide.h"

namespace kernelcast::orchestrator {
namespace {

// Measurements per device at once: one is running and one is queued.
constexpr uint64_t kAtOnce = 2;
// A worker loads Python candidates ahead, which takes seconds.
constexpr uint64_t kPythonAtOnce = 8;
// A candidate that has waited for this number of results comes before the others.
constexpr uint64_t kPatience = 32;

bool HasRoom(const Search& search, const Candidate& candidate, const SourceInputs& inputs) {
  const uint64_t at_once = candidate.kind == CandidateKind::kPython ? kPythonAtOnce : kAtOnce;
  return search.measuring < at_once * std::max<uint64_t>(1, inputs.capacity.measure_slots);
}

}  // namespace

bool IsDecidedInOrder(const State& state, const Evaluation& evaluation) {
  const Search* const search = state.FindSearch(evaluation.search_id);
  return search != nullptr && search->undecided.contains(evaluation.request_id) &&
         !search->spec.measure_everything && !IsSelectedFrom(*search, evaluation);
}

bool IsOutdated(const Search& search, const Evaluation& evaluation) {
  return evaluation.forecast && evaluation.forecast->labels_seen &&
         evaluation.labels_at_forecast < search.labels;
}

std::optional<std::string> NextToDecide(const State& state, const Search& search,
                                        const SourceInputs& inputs) {
  if (inputs.next_is_forecast) return std::nullopt;
  std::optional<std::string> best;
  double most = 0;
  for (const std::string& request_id : search.undecided) {
    const Evaluation* const evaluation = state.FindEvaluation(request_id);
    if (evaluation == nullptr || !IsDecidedInOrder(state, *evaluation)) continue;
    const Decision decision = Decide(state, *evaluation, inputs.now_ns);
    const bool waits = decision.reason == DecisionReason::kPromising ||
                       decision.reason == DecisionReason::kLowConfidence ||
                       IsOutdated(search, *evaluation);
    if (!waits) return request_id;
    const bool overdue = search.labels >= evaluation->labels_at_first_forecast + kPatience;
    const double merit = decision.win_probability + (overdue ? 1 : 0);
    if (best && merit <= most) continue;
    if (!HasRoom(search, evaluation->candidate, inputs)) continue;
    best = request_id;
    most = merit;
  }
  return best;
}

}  // namespace kernelcast::orchestrator
