#include "services/orchestrator/core/decision_order.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "services/orchestrator/core/candidate_source.h"
#include "services/orchestrator/core/decide.h"
#include "services/orchestrator/core/next_measurement.h"

namespace kernelcast::orchestrator {
namespace {

// Measurements per device at once: one is running and one is queued.
constexpr uint64_t kAtOnce = 2;
// A worker loads candidates of tasks in Python ahead, which takes seconds.
constexpr uint64_t kTasksAtOnce = 8;
// The same if forecasts compare them, so that most would be pruned after the next result.
constexpr uint64_t kComparedTasksAtOnce = 3;
// A candidate that has waited for this number of results comes before the others.
constexpr uint64_t kPatience = 32;

// The candidates that wait in a search, or for a problem outside searches.
struct Queue {
  const std::set<std::string>& undecided;
  uint64_t measuring = 0;  // decided to be measured and not settled
  uint64_t labels = 0;
};

const ProblemHistory* HistoryOf(const State& state, const Evaluation& evaluation) {
  if (!evaluation.search_id.empty()) return nullptr;
  const Candidate& candidate = evaluation.candidate;
  return state.FindHistory(candidate.problem_id, candidate.target, evaluation.device_model);
}

// Whether the candidate belongs to the start of a search or problem whose forecasts compare
// candidates before any label. The first correct results show how far all forecasts are off. Until
// then nothing is pruned.
bool IsBeforeFirstResult(const State& state, const Evaluation& evaluation) {
  if (!evaluation.forecast || !ComparesLaunches(*evaluation.forecast)) return false;
  // The forecaster knows labels from before.
  if (evaluation.forecast->labels_seen.value_or(0) > LabelsOf(state, evaluation)) return false;
  if (const Search* const search = state.FindSearch(evaluation.search_id)) {
    return search->status == SearchStatus::kRunning && !search->incumbent;
  }
  const ProblemHistory* const history = HistoryOf(state, evaluation);
  return history != nullptr && history->correct() == 0;
}

// Without a worker nothing that waits would be measured soon, so that it need not wait in order.
bool HasRoom(uint64_t measuring, uint64_t at_once, uint64_t slots) {
  return slots == 0 || measuring < at_once * slots;
}

uint64_t AtOnce(const Evaluation& evaluation, bool is_first) {
  if (is_first) return kComparedStart;
  if (!KindInfoOf(evaluation.candidate.kind).takes_tasks) return kAtOnce;
  return evaluation.forecast && ComparesLaunches(*evaluation.forecast) ? kComparedTasksAtOnce
                                                                       : kTasksAtOnce;
}

bool IsEarlier(const Evaluation& a, const Evaluation& b) {
  return std::tie(a.accepted_ns, a.request_id) < std::tie(b.accepted_ns, b.request_id);
}

std::optional<std::string> Next(const State& state, const Queue& queue, const OrderInputs& inputs) {
  if (inputs.forecasts_next || !HasRoom(queue.measuring, kTasksAtOnce, inputs.measure_slots)) {
    return std::nullopt;
  }
  const Evaluation* best = nullptr;
  double most = 0;
  for (const std::string& request_id : queue.undecided) {
    const Evaluation* const evaluation = state.FindEvaluation(request_id);
    if (evaluation == nullptr || !IsDecidedInOrder(state, *evaluation)) continue;
    const Decision decision = Decide(state, *evaluation, inputs.now_ns);
    if (!WaitsForOthers(state, *evaluation, decision)) return request_id;
    const bool overdue = queue.labels >= evaluation->labels_at_first_forecast + kPatience;
    const bool is_first = IsBeforeFirstResult(state, *evaluation);
    // Candidates of callers are sorted at the start only: where forecasts are poor, that found
    // worse kernels.
    const double merit =
        evaluation->generated || is_first ? decision.win_probability + (overdue ? 1 : 0) : 2;
    if (best != nullptr && (merit < most || (merit == most && !IsEarlier(*evaluation, *best)))) {
      continue;
    }
    const uint64_t slots =
        is_first ? std::min<uint64_t>(inputs.measure_slots, 1) : inputs.measure_slots;
    if (!HasRoom(queue.measuring, AtOnce(*evaluation, is_first), slots)) continue;
    best = evaluation;
    most = merit;
  }
  if (best == nullptr) return std::nullopt;
  return best->request_id;
}

}  // namespace

bool IsDecidedInOrder(const State& state, const Evaluation& evaluation) {
  const std::string& request_id = evaluation.request_id;
  if (const Search* const search = state.FindSearch(evaluation.search_id)) {
    return search->undecided.contains(request_id) && !search->spec.measure_everything &&
           !IsSelectedFrom(*search, evaluation);
  }
  const ProblemHistory* const history = HistoryOf(state, evaluation);
  return history != nullptr && history->undecided().contains(request_id);
}

uint64_t LabelsOf(const State& state, const Evaluation& evaluation) {
  if (const Search* const search = state.FindSearch(evaluation.search_id)) return search->labels;
  const ProblemHistory* const history = HistoryOf(state, evaluation);
  return history != nullptr ? history->measured() : 0;
}

bool IsOutdated(const State& state, const Evaluation& evaluation) {
  if (!evaluation.forecast || !evaluation.forecast->labels_seen) return false;
  const Search* const search = state.FindSearch(evaluation.search_id);
  // When a search ends, nothing more is measured.
  const bool ended = search != nullptr && search->status != SearchStatus::kRunning;
  return !ended && evaluation.labels_at_forecast < LabelsOf(state, evaluation);
}

bool WaitsForOthers(const State& state, const Evaluation& evaluation, const Decision& decision) {
  // A draw is not repeated, because its probability changes while the candidate waits.
  const bool unknown = decision.reason == DecisionReason::kNoForecast && evaluation.forecast &&
                       decision.audit_propensity == 1;
  return unknown || decision.reason == DecisionReason::kPromising ||
         decision.reason == DecisionReason::kLowConfidence || IsOutdated(state, evaluation) ||
         IsBeforeFirstResult(state, evaluation);
}

std::optional<std::string> NextToDecide(const State& state, const Search& search,
                                        const OrderInputs& inputs) {
  return Next(state, {search.undecided, search.measuring, search.labels}, inputs);
}

std::optional<std::string> NextToDecide(const State& state, const ProblemHistory& history,
                                        const OrderInputs& inputs) {
  return Next(state, {history.undecided(), history.measuring(), history.measured()}, inputs);
}

}  // namespace kernelcast::orchestrator
