// Applies settlements to searches, histories and pending labels.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/utf8.h"
#include "services/orchestrator/core/gate.h"
#include "services/orchestrator/core/state.h"

namespace kernelcast::orchestrator {
namespace {

// Per attempt in the archive. The first errors of a compiler are the most useful.
constexpr size_t kMaxAttemptFeedbackBytes = 3000;

// Whether it counts as a measurement of the candidate's speed, as a failure does. Of checks, only
// failures could count, and a share of failures among them alone would be 1.
bool IsVerdict(const Measurement& measurement) {
  return measurement.level != MeasureLevel::kCheck &&
         !std::holds_alternative<EnvironmentUnstable>(measurement.outcome);
}

EvaluationOutcome OutcomeOf(const std::variant<Measurement, Pruned, Rejection>& result) {
  if (const auto* measurement = std::get_if<Measurement>(&result)) {
    return kernelcast::OutcomeOf(*measurement);
  }
  if (std::holds_alternative<Pruned>(result)) return EvaluationOutcome::kPruned;
  return std::get<Rejection>(result).cause == Rejection::Cause::kCompileError
             ? EvaluationOutcome::kCompileError
             : EvaluationOutcome::kRefused;
}

// If a candidate has several measurements, the first one counts.
void AddLeader(Search& search, const std::string& candidate_id, const Ratio& speedup, bool behind) {
  std::vector<Screened>& leaders = search.leaders;
  const bool known = std::any_of(leaders.begin(), leaders.end(), [&](const Screened& leader) {
    return leader.candidate_id == candidate_id;
  });
  if (known) return;
  const auto position = std::find_if(leaders.begin(), leaders.end(), [&](const Screened& leader) {
    return leader.speedup.value < speedup.value;
  });
  leaders.insert(position, {speedup, candidate_id, behind});
  if (leaders.size() > Search::kMaxLeaders) leaders.pop_back();
}

// Updates the search's estimate of measuring costs. Only screenings count.
void CountCost(Search& search, const Evaluation& evaluation, const EvaluationSettled& event) {
  const auto entry = search.history.find(evaluation.candidate.candidate_id);
  if (entry == search.history.end()) return;
  std::optional<double>& pruned = entry->second.pruned_failure_probability;
  if (const auto* measurement = std::get_if<Measurement>(&event.result)) {
    if (pruned) search.cost.Unpruned(*std::exchange(pruned, std::nullopt));
    if (!event.reused && measurement->level == MeasureLevel::kScreen && IsVerdict(*measurement)) {
      search.cost.Measured(measurement->device_time_ns - measurement->preparation_time_ns,
                           MeasuredSpeedup(*measurement) != nullptr,
                           evaluation.forecast
                               ? std::optional(evaluation.forecast->failure_probability)
                               : std::nullopt);
    }
  } else if (std::holds_alternative<Pruned>(event.result) && evaluation.forecast) {
    if (pruned) search.cost.Unpruned(*pruned);
    pruned = evaluation.forecast->failure_probability;
    search.cost.Pruned(*pruned);
  }
  search.counts.device_time_avoided_ns = search.cost.AvoidedNs();
}

// In the form that RouteHistory expects: 0 for a failure, negative without a verdict.
double VerdictSpeedup(const Measurement* measurement) {
  if (measurement == nullptr || !IsVerdict(*measurement)) return -1;
  const Ratio* const speedup = MeasuredSpeedup(*measurement);
  return speedup == nullptr ? 0 : speedup->value;
}

// The archive's record of a settled evaluation. Empty if it says nothing about the candidate.
std::optional<Attempt> AttemptOf(const Evaluation& evaluation, const EvaluationSettled& settled) {
  Attempt attempt;
  if (const auto* measurement = std::get_if<Measurement>(&settled.result)) {
    if (!IsVerdict(*measurement)) return std::nullopt;
    const std::optional<Truth> truth = TruthOf(measurement->outcome);
    if (!truth) return std::nullopt;
    if (const auto* failure = std::get_if<FailureKind>(&*truth)) attempt.failure = *failure;
    if (const Ratio* speedup = MeasuredSpeedup(*measurement)) attempt.speedup = speedup->value;
    attempt.times = MedianTimes(*measurement);
  } else if (const auto* rejected = std::get_if<Rejection>(&settled.result)) {
    if (rejected->cause != Rejection::Cause::kCompileError) return std::nullopt;
    attempt.failure = FailureKind::kCompileError;
  }
  attempt.candidate = evaluation.candidate;
  attempt.facts = evaluation.facts;
  attempt.feedback = TruncateUtf8(EvaluationFeedback(*evaluation.decision, settled.result),
                                  kMaxAttemptFeedbackBytes);
  return attempt;
}

}  // namespace

std::vector<Finalist> Search::RankedFinalists() const {
  return ApplyGate(RankFinalists(leaders, finals), gates);
}

void Search::CountDeviceTime(const std::string& request_id, const DeviceTime& time) {
  counts.device_time_spent_ns += time.device_time_ns;
  counts.device_time_preparing_ns += time.preparation_time_ns;
  if (confirmation_requests.contains(request_id)) {
    counts.device_time_confirming_ns += time.device_time_ns - time.preparation_time_ns;
  }
}

std::optional<ArchiveOverview> Search::Overview() const {
  if (archive == nullptr) return final_archive;
  return OverviewOf(*strategy, *archive);
}

Candidate ForProblem(Candidate candidate, const std::string& problem_id) {
  candidate.problem_id = problem_id;
  candidate.candidate_id = CandidateId(candidate);
  return candidate;
}

void State::SettleInSearch(Search& search, int64_t time_ns, const Evaluation& evaluation,
                           const EvaluationSettled& event) {
  --search.in_flight;
  const auto* measurement = std::get_if<Measurement>(&event.result);
  const bool confirmation = search.confirmation_requests.contains(event.request_id);
  // A search from before device models.
  if (measurement != nullptr && search.device_model.empty()) {
    search.device_model = measurement->device.model;
  }
  if (measurement != nullptr && !event.reused) {
    ++(confirmation ? search.counts.confirmations : search.counts.measurements);
    if (!confirmation && IsVerdict(*measurement)) {
      ++search.labels;
      search.measured_ns = time_ns;
    }
    search.CountDeviceTime(event.request_id,
                           {measurement->device_time_ns, measurement->preparation_time_ns});
  }
  if (confirmation) {
    const bool held_out = search.IsHeldOut(evaluation.candidate);
    std::vector<FinalMeasurement>& finals = held_out ? search.gates : search.finals;
    const auto final_one = std::find_if(
        finals.begin(), finals.end(),
        [&](const FinalMeasurement& one) { return one.request_id == event.request_id; });
    final_one->settled = true;
    final_one->failed = OutcomeOf(event.result) == EvaluationOutcome::kFailed;
    if (final_one->failed) final_one->outcome = OutcomeName(measurement->outcome);
    if (measurement != nullptr && MeasuredSpeedup(*measurement) != nullptr) {
      final_one->speedup = *MeasuredSpeedup(*measurement);
    }
    if (!held_out && final_one->speedup) {
      search.confirmations.push_back(
          Incumbent{evaluation.candidate, *measurement, event.request_id});
    }
    return;
  }
  if (evaluation.decision->kind == DecisionKind::kMeasure) {
    --search.measuring;
    if (search.policy != nullptr) {
      search.routes.Settle(event.request_id, *evaluation.decision, VerdictSpeedup(measurement),
                           search.policy->win_margin());
    }
  }
  auto entry = search.history.find(evaluation.candidate.candidate_id);
  // A candidate that waits for others is no failure.
  const bool waits = evaluation.turn &&
                     evaluation.decision->reason == DecisionReason::kBudgetPace &&
                     search.strategy != nullptr && search.strategy->batches().has_value();
  if (search.archive != nullptr && !event.reused && !waits) {
    if (std::optional<Attempt> attempt = AttemptOf(evaluation, event)) {
      const uint64_t turn = entry != search.history.end() ? entry->second.turn.value_or(0) : 0;
      const auto* ok =
          measurement == nullptr ? nullptr : std::get_if<MeasuredOk>(&measurement->outcome);
      // Only prompts need it.
      if (ok != nullptr && search.generation != nullptr) {
        attempt->measured = std::make_shared<const MeasuredOk>(*ok);
      }
      search.archive->Add(*std::move(attempt), search.batches.BatchOf(turn));
    }
  }
  if (evaluation.turn && search.archive != nullptr &&
      std::holds_alternative<Pruned>(event.result)) {
    search.batches.Prune(*evaluation.turn);
  }
  if (entry != search.history.end()) {
    entry->second.counted.Settle(evaluation.decision->reason, OutcomeOf(event.result),
                                 search.counts);
  }
  CountCost(search, evaluation, event);
  // A duplicate in flight must not overwrite the result of the candidate's first evaluation.
  CandidateHistory* history =
      entry != search.history.end() && entry->second.request_id == event.request_id ? &entry->second
                                                                                    : nullptr;
  if (measurement != nullptr) {
    if (history != nullptr) {
      history->standing = CandidateHistory::Standing::kMeasured;
      history->facts = {};
      history->source.reset();
    }
    const Ratio* speedup = MeasuredSpeedup(*measurement);
    if (speedup == nullptr) return;
    if (history != nullptr) history->speedup = speedup->value;
    if (event.reused) return;
    if (search.generator != nullptr) {
      search.generator->Reward(evaluation.candidate.candidate_id, speedup->value);
    }
    AddLeader(search, evaluation.candidate.candidate_id, *speedup, StoppedBehind(*measurement));
    const Ratio* best =
        search.incumbent.has_value() ? MeasuredSpeedup(search.incumbent->measurement) : nullptr;
    if (best == nullptr || speedup->value > best->value) {
      search.incumbent = Incumbent{evaluation.candidate, *measurement, event.request_id};
      search.anchor = std::make_shared<const AnchorKernel>(
          MakeAnchor(evaluation.candidate, evaluation.facts, *measurement));
    }
  } else if (std::holds_alternative<Pruned>(event.result)) {
    if (history != nullptr) {
      history->standing = CandidateHistory::Standing::kPruned;
      history->facts = evaluation.facts;
      const bool in_space =
          search.generator != nullptr && search.generator->Has(evaluation.candidate.candidate_id);
      if (search.archive != nullptr && evaluation.generated && !in_space) {
        history->source = std::make_shared<const Candidate>(evaluation.candidate);
      }
    }
  } else if (history != nullptr) {
    history->standing = CandidateHistory::Standing::kRejected;
    history->source.reset();
  }
}

void State::SettleInHistory(const Evaluation& evaluation, const EvaluationSettled& event) {
  const Candidate& candidate = evaluation.candidate;
  const auto* measurement = std::get_if<Measurement>(&event.result);
  const DeviceKey key(candidate.problem_id, candidate.target, evaluation.device_model);
  if (evaluation.search_id.empty()) {
    histories_[key].Settle(event.request_id, *evaluation.decision, VerdictSpeedup(measurement),
                           DefaultPolicy().win_margin());
  }
  const bool confirmation = evaluation.mode == EvaluateMode::kFinal && evaluation.generated;
  if (measurement == nullptr || event.reused || confirmation || !IsVerdict(*measurement)) return;
  // Logs of releases before device models have only the device that measured it.
  const std::string& measured_on =
      evaluation.device_model.empty() ? measurement->device.model : evaluation.device_model;
  histories_[{candidate.problem_id, candidate.target, measured_on}].Measured(
      candidate, evaluation.facts, *measurement);
}

void State::AddPendingLabel(const Evaluation& evaluation, const EvaluationSettled& event) {
  const auto* measurement = std::get_if<Measurement>(&event.result);
  if (measurement == nullptr || event.reused || !IsVerdict(*measurement)) return;
  const std::optional<Truth> truth = TruthOf(measurement->outcome);
  if (!truth) return;
  // Forecasters do not know the held-out problem.
  const Search* const search = FindSearch(evaluation.search_id);
  if (search != nullptr && search->IsHeldOut(evaluation.candidate)) return;
  PendingLabel pending;
  pending.problem_id = evaluation.candidate.problem_id;
  Label& label = pending.label;
  label.label_id = event.request_id;
  label.candidate = evaluation.candidate;
  label.facts = evaluation.facts;
  if (const auto* reference = FindReference(evaluation.candidate.problem_id,
                                            evaluation.candidate.target, evaluation.device_model)) {
    label.reference_facts = reference->facts;
  }
  label.truth = *truth;
  label.propensity = evaluation.decision->audit_propensity;
  label.decision_reason = evaluation.decision->reason;
  label.forecast = evaluation.forecast;
  label.device_model = DeviceModelOrUnknown(measurement->device.model);
  pending_labels_[event.request_id] = std::move(pending);
}

}  // namespace kernelcast::orchestrator
