#include "services/orchestrator/core/state.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "services/orchestrator/core/novelty.h"

namespace kernelcast::orchestrator {
namespace {

absl::Status DoesNotFit(std::string_view what, const std::string& id) {
  return absl::FailedPreconditionError(absl::StrCat(std::string(what), ": ", id));
}

// Per attempt in the archive. The first errors of a compiler are the most useful.
constexpr size_t kMaxAttemptFeedbackBytes = 3000;

bool IsVerdict(const Measurement& measurement) {
  return !std::holds_alternative<EnvironmentUnstable>(measurement.outcome);
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
void AddLeader(Search& search, const std::string& candidate_id, const Ratio& speedup) {
  std::vector<Screened>& leaders = search.leaders;
  const bool known = std::any_of(leaders.begin(), leaders.end(), [&](const Screened& leader) {
    return leader.candidate_id == candidate_id;
  });
  if (known) return;
  const auto position = std::find_if(leaders.begin(), leaders.end(), [&](const Screened& leader) {
    return leader.speedup.value < speedup.value;
  });
  leaders.insert(position, {speedup, candidate_id});
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
    attempt.outcome = OutcomeName(measurement->outcome);
    if (const Ratio* speedup = MeasuredSpeedup(*measurement)) attempt.speedup = speedup->value;
    attempt.times = MedianTimes(*measurement);
  } else if (std::holds_alternative<Pruned>(settled.result)) {
    attempt.outcome = "pruned";
  } else if (std::get<Rejection>(settled.result).cause == Rejection::Cause::kCompileError) {
    attempt.outcome = "compile_error";
  } else {
    return std::nullopt;
  }
  attempt.candidate = evaluation.candidate;
  attempt.facts = evaluation.facts;
  attempt.feedback = TruncateUtf8(EvaluationFeedback(*evaluation.decision, settled.result),
                                  kMaxAttemptFeedbackBytes);
  return attempt;
}

}  // namespace

std::string_view Name(GenerationOutcome outcome) {
  switch (outcome) {
    case GenerationOutcome::kWritten: return "written";
    case GenerationOutcome::kDuplicate: return "duplicate";
    case GenerationOutcome::kUnusable: return "unusable";
    case GenerationOutcome::kUnanswered: return "unanswered";
  }
  return "unanswered";
}

std::string EvaluationFeedback(const Decision& decision,
                               const std::variant<Measurement, Pruned, Rejection>& result) {
  if (const auto* measurement = std::get_if<Measurement>(&result)) {
    return MeasurementFeedback(*measurement);
  }
  if (const auto* rejection = std::get_if<Rejection>(&result)) {
    switch (rejection->cause) {
      case Rejection::Cause::kCompileError:
        return absl::StrCat("Does not compile:\n", rejection->compile_error.log);
      case Rejection::Cause::kDuplicate:
        return absl::StrCat("The same candidate is being evaluated as ", rejection->detail, ".");
      case Rejection::Cause::kBudget:
        return absl::StrCat("The budget is spent: ", rejection->detail, ".");
      case Rejection::Cause::kUnavailable:
        return absl::StrCat("Not evaluated: ", rejection->detail, ".");
      case Rejection::Cause::kCancelled: return absl::StrCat("Cancelled: ", rejection->detail, ".");
    }
  }
  return absl::StrCat("Settled on the forecast, not measured: probability ",
                      decision.win_probability, " of beating the best measured (",
                      decision.incumbent_speedup, "x).");
}

EvaluationRecord MakeRecord(const Evaluation& evaluation, const EvaluationSettled& settled,
                            int64_t settled_ns, uint64_t sequence) {
  EvaluationRecord record;
  record.request_id = evaluation.request_id;
  record.search_id = evaluation.search_id;
  record.mode = evaluation.mode;
  record.candidate = evaluation.candidate;
  record.generated = evaluation.generated;
  if (!evaluation.facts.schema.empty()) record.facts = evaluation.facts;
  record.decided_on = evaluation.forecast;
  record.decision = *evaluation.decision;
  record.result = settled.result;
  record.reused = settled.reused;
  record.accepted_ns = evaluation.accepted_ns;
  record.settled_ns = settled_ns;
  record.settled_sequence = sequence;
  record.wanted_device_model = evaluation.wanted_device_model;
  record.device_model = evaluation.device_model;
  return record;
}

std::optional<EvaluationRecord> FoldEvaluation(const std::vector<StoredEvent>& events) {
  EvaluationRecord record;
  bool settled = false;
  for (const StoredEvent& stored : events) {
    const EventBody& body = stored.event.body;
    if (const auto* accepted = std::get_if<EvaluationAccepted>(&body)) {
      record.request_id = accepted->request_id;
      record.search_id = accepted->search_id;
      record.mode = accepted->mode;
      record.candidate = accepted->candidate;
      record.generated = accepted->generated;
      record.wanted_device_model = accepted->wanted_device_model;
      record.device_model = accepted->device_model;
      record.accepted_ns = stored.event.time_ns;
    } else if (const auto* chosen = std::get_if<DeviceChosen>(&body)) {
      record.device_model = chosen->device_model;
    } else if (const auto* compiled = std::get_if<EvaluationCompiled>(&body)) {
      if (const auto* facts = std::get_if<CompileFacts>(&compiled->result)) {
        record.facts = *facts;
      }
    } else if (const auto* forecast = std::get_if<EvaluationForecast>(&body)) {
      if (const auto* value = std::get_if<Forecast>(&forecast->result)) {
        record.decided_on = *value;
      }
    } else if (const auto* decided = std::get_if<EvaluationDecided>(&body)) {
      record.decision = decided->decision;
    } else if (const auto* settlement = std::get_if<EvaluationSettled>(&body)) {
      record.result = settlement->result;
      record.reused = settlement->reused;
      record.settled_ns = stored.event.time_ns;
      record.settled_sequence = stored.sequence;
      const auto* measurement = std::get_if<Measurement>(&settlement->result);
      if (measurement != nullptr && record.device_model.empty()) {
        record.device_model = measurement->device.model;
      }
      settled = true;
    }
  }
  if (!settled || record.request_id.empty()) {
    return std::nullopt;
  }
  return record;
}

absl::Status State::Apply(uint64_t sequence, const Event& event) {
  if (sequence <= last_sequence_) {
    return absl::FailedPreconditionError(
        absl::StrCat("event ", sequence, " comes after event ", last_sequence_));
  }
  KC_RETURN_IF_ERROR(std::visit(
      [&](const auto& body) { return ApplyBody(sequence, event.time_ns, body); }, event.body));
  last_sequence_ = sequence;
  return absl::OkStatus();
}

std::shared_ptr<const Problem> State::FindProblem(std::string_view problem_id) const {
  auto found = problems_.find(problem_id);
  return found == problems_.end() ? nullptr : found->second;
}

const ReferenceDescribed* State::FindReference(std::string_view problem_id, std::string_view target,
                                               std::string_view device_model) const {
  auto found = references_.find(DeviceKey(problem_id, target, device_model));
  return found == references_.end() ? nullptr : &found->second;
}

const ProblemHistory* State::FindHistory(std::string_view problem_id, std::string_view target,
                                         std::string_view device_model) const {
  auto found = histories_.find(DeviceKey(problem_id, target, device_model));
  return found == histories_.end() ? nullptr : &found->second;
}

std::vector<const Search*> State::FindSeveral(std::string_view id) const {
  std::vector<const Search*> found;
  const std::string prefix = absl::StrCat(std::string(id), "@");
  for (auto it = searches_.lower_bound(prefix);
       it != searches_.end() && it->first.starts_with(prefix); ++it) {
    found.push_back(&it->second);
  }
  return found;
}

std::vector<std::string> State::EvaluationIds() const {
  std::vector<std::string> ids;
  ids.reserve(evaluations_.size());
  for (const auto& [id, evaluation] : evaluations_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

const Evaluation* State::FindEvaluation(std::string_view request_id) const {
  const auto found = evaluations_.find(absl::string_view(request_id.data(), request_id.size()));
  return found == evaluations_.end() ? nullptr : &found->second;
}

const Search* State::FindSearch(std::string_view search_id) const {
  auto found = searches_.find(search_id);
  return found == searches_.end() ? nullptr : &found->second;
}

absl::Status State::ApplyBody(uint64_t, int64_t, const ProblemPut& event) {
  KC_ASSIGN_OR_RETURN(Problem problem, ParseProblem(event.files));
  std::string id = problem.problem_id;
  problems_.emplace(std::move(id), std::make_shared<const Problem>(std::move(problem)));
  return absl::OkStatus();
}

absl::Status State::ApplyBody(uint64_t, int64_t, const ReferenceDescribed& event) {
  references_[{event.problem_id, event.target, event.device_model}] = event;
  return absl::OkStatus();
}

absl::Status State::ApplyBody(uint64_t sequence, int64_t time_ns, const SearchCreated& event) {
  if (searches_.contains(event.search_id)) {
    return DoesNotFit("search created twice", event.search_id);
  }
  Search search;
  search.search_id = event.search_id;
  search.spec = event.spec;
  search.device_model = event.device_model;
  search.started_ns = time_ns;
  search.last_sequence = sequence;
  KC_ASSIGN_OR_RETURN(search.policy, MakePolicy(event.spec.policy, event.spec.policy_parameters));
  search.routes = RouteHistory(search.policy->risk_options());
  // A reader that replays a single search has no problems and needs no generator.
  const auto problem = FindProblem(event.spec.problem_id);
  const bool has_space = problem != nullptr && problem->targets.contains(event.spec.target) &&
                         problem->targets.find(event.spec.target)->second.space.has_value();
  if (has_space && event.spec.generator != GeneratorKind::kExternal) {
    search.generator =
        std::make_unique<TemplateGenerator>(problem, event.spec.target, event.spec.seed);
  }
  if (event.spec.generator == GeneratorKind::kLlm) {
    absl::StatusOr<Candidate> reference = absl::NotFoundError("");
    if (problem != nullptr) reference = ReferenceCandidate(*problem, event.spec.target);
    search.generation =
        std::make_unique<Generation>(reference.ok() ? reference->candidate_id : std::string());
    if (reference.ok()) {
      search.generation->known.emplace(NoveltyKey(*reference), reference->candidate_id);
    }
  }
  searches_.emplace(event.search_id, std::move(search));
  open_searches_.insert(event.search_id);
  return absl::OkStatus();
}

absl::Status State::ApplyBody(uint64_t sequence, int64_t time_ns, const EvaluationAccepted& event) {
  if (evaluations_.contains(event.request_id)) {
    return DoesNotFit("evaluation accepted twice", event.request_id);
  }
  Evaluation evaluation;
  evaluation.request_id = event.request_id;
  evaluation.search_id = event.search_id;
  evaluation.mode = event.mode;
  evaluation.candidate = event.candidate;
  evaluation.generated = event.generated;
  evaluation.wanted_device_model = event.wanted_device_model;
  evaluation.device_model = event.device_model;
  evaluation.accepted_ns = time_ns;
  if (!event.search_id.empty()) {
    auto found = searches_.find(event.search_id);
    if (found == searches_.end()) {
      return DoesNotFit("evaluation of an unknown search", event.search_id);
    }
    Search& search = found->second;
    search.last_sequence = sequence;
    ++search.in_flight;
    if (event.mode == EvaluateMode::kFinal && event.generated) {
      search.confirmation_requests.insert(event.request_id);
      search.finals.push_back({event.candidate.candidate_id, event.request_id, false, {}, false});
    } else {
      auto [entry, inserted] = search.history.try_emplace(event.candidate.candidate_id);
      CandidateHistory& history = entry->second;
      history.counted.Accept(search.counts);
      evaluation.repeated = !inserted;
      evaluation.reconsidered =
          !inserted && history.standing == CandidateHistory::Standing::kPruned;
      if (inserted || history.standing != CandidateHistory::Standing::kInFlight) {
        history.standing = CandidateHistory::Standing::kInFlight;
        history.request_id = event.request_id;
      }
      if (search.generator != nullptr) {
        search.generator->Accept(event.candidate.candidate_id);
      }
      if (search.generation != nullptr && inserted) {
        search.generation->known.emplace(NoveltyKey(event.candidate), event.candidate.candidate_id);
      }
    }
  }
  evaluations_.emplace(event.request_id, std::move(evaluation));
  accepted_ids_.Add(event.request_id);
  return absl::OkStatus();
}

absl::Status State::ApplyBody(uint64_t sequence, int64_t, const EvaluationCompiled& event) {
  auto found = evaluations_.find(event.request_id);
  if (found == evaluations_.end() || found->second.stage != Stage::kCompile) {
    return DoesNotFit("compiled, but not waiting for it", event.request_id);
  }
  Evaluation& evaluation = found->second;
  if (const auto* facts = std::get_if<CompileFacts>(&event.result)) {
    evaluation.facts = *facts;
    evaluation.stage = Stage::kForecast;
  } else {
    evaluation.stage = Stage::kDecide;
  }
  if (auto search = searches_.find(evaluation.search_id); search != searches_.end()) {
    search->second.last_sequence = sequence;
  }
  return absl::OkStatus();
}

absl::Status State::ApplyBody(uint64_t sequence, int64_t, const EvaluationForecast& event) {
  auto found = evaluations_.find(event.request_id);
  if (found == evaluations_.end() || found->second.stage != Stage::kForecast) {
    return DoesNotFit("forecast, but not waiting for it", event.request_id);
  }
  Evaluation& evaluation = found->second;
  const std::optional<ModelAnswer>* model = nullptr;
  if (const auto* forecast = std::get_if<Forecast>(&event.result)) {
    evaluation.forecast = *forecast;
    model = &forecast->model;
  } else {
    model = &std::get<Abstention>(event.result).model;
  }
  const auto* abstention = std::get_if<Abstention>(&event.result);
  evaluation.declined =
      model->has_value()
          ? (*model)->outcome == ModelOutcome::kDeclined
          : abstention != nullptr && abstention->cause == Abstention::Cause::kModelDeferred;
  evaluation.stage = Stage::kDecide;
  if (auto search = searches_.find(evaluation.search_id); search != searches_.end()) {
    search->second.last_sequence = sequence;
    if (model->has_value()) search->second.counts.model_use.Add(**model);
  }
  return absl::OkStatus();
}

absl::Status State::ApplyBody(uint64_t sequence, int64_t, const EvaluationDecided& event) {
  auto found = evaluations_.find(event.request_id);
  if (found == evaluations_.end() || found->second.decision.has_value()) {
    return DoesNotFit("decided, but not waiting for it", event.request_id);
  }
  Evaluation& evaluation = found->second;
  evaluation.decision = event.decision;
  evaluation.stage = Stage::kMeasure;
  if (auto entry = searches_.find(evaluation.search_id); entry != searches_.end()) {
    Search& search = entry->second;
    search.last_sequence = sequence;
    if (!search.confirmation_requests.contains(event.request_id)) {
      if (event.decision.kind == DecisionKind::kMeasure) ++search.measuring;
      search.routes.Decide(event.request_id, event.decision,
                           evaluation.forecast ? &*evaluation.forecast : nullptr);
    }
  } else if (evaluation.search_id.empty()) {
    const Candidate& candidate = evaluation.candidate;
    histories_[{candidate.problem_id, candidate.target, evaluation.device_model}].Decide(
        event.request_id, event.decision, evaluation.forecast ? &*evaluation.forecast : nullptr);
  }
  return absl::OkStatus();
}

absl::Status State::ApplyBody(uint64_t sequence, int64_t, const EvaluationSettled& event) {
  auto found = evaluations_.find(event.request_id);
  if (found == evaluations_.end()) {
    return DoesNotFit("settled, but not live", event.request_id);
  }
  if (!found->second.decision.has_value()) {
    return DoesNotFit("settled before a decision", event.request_id);
  }
  const Evaluation evaluation = std::move(found->second);
  evaluations_.erase(found);
  if (auto entry = searches_.find(evaluation.search_id); entry != searches_.end()) {
    entry->second.last_sequence = sequence;
    SettleInSearch(entry->second, evaluation, event);
  }
  SettleInHistory(evaluation, event);
  AddPendingLabel(evaluation, event);
  return absl::OkStatus();
}

void State::SettleInSearch(Search& search, const Evaluation& evaluation,
                           const EvaluationSettled& event) {
  --search.in_flight;
  const auto* measurement = std::get_if<Measurement>(&event.result);
  const bool confirmation = search.confirmation_requests.contains(event.request_id);
  // A search from before device models.
  if (measurement != nullptr && search.device_model.empty()) {
    search.device_model = measurement->device.model;
  }
  if (measurement != nullptr && !event.reused) {
    SearchCounts& counts = search.counts;
    ++(confirmation ? counts.confirmations : counts.measurements);
    counts.device_time_spent_ns += measurement->device_time_ns;
    counts.device_time_preparing_ns += measurement->preparation_time_ns;
    if (confirmation) {
      counts.device_time_confirming_ns +=
          measurement->device_time_ns - measurement->preparation_time_ns;
    }
  }
  if (confirmation) {
    const auto final_one = std::find_if(
        search.finals.begin(), search.finals.end(),
        [&](const FinalMeasurement& one) { return one.request_id == event.request_id; });
    final_one->settled = true;
    final_one->failed = OutcomeOf(event.result) == EvaluationOutcome::kFailed;
    if (measurement != nullptr && MeasuredSpeedup(*measurement) != nullptr) {
      final_one->speedup = *MeasuredSpeedup(*measurement);
    }
    if (measurement != nullptr && MeasuredSpeedup(*measurement) != nullptr) {
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
  if (search.generation != nullptr && !event.reused) {
    if (std::optional<Attempt> attempt = AttemptOf(evaluation, event)) {
      search.generation->archive.Add(*std::move(attempt));
    }
  }

  auto entry = search.history.find(evaluation.candidate.candidate_id);
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
    }
    const Ratio* speedup = MeasuredSpeedup(*measurement);
    if (speedup == nullptr) return;
    if (history != nullptr) history->speedup = speedup->value;
    if (event.reused) return;
    if (search.generator != nullptr) {
      search.generator->Reward(evaluation.candidate.candidate_id, speedup->value);
    }
    AddLeader(search, evaluation.candidate.candidate_id, *speedup);
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
    }
  } else if (history != nullptr) {
    history->standing = CandidateHistory::Standing::kRejected;
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
  if (measurement == nullptr || event.reused || !IsVerdict(*measurement)) {
    return;
  }
  PendingLabel pending;
  pending.problem_id = evaluation.candidate.problem_id;
  LabelRecord& label = pending.label;
  label.label_id = event.request_id;
  label.candidate = evaluation.candidate;
  label.facts = evaluation.facts;
  if (const auto* reference = FindReference(evaluation.candidate.problem_id,
                                            evaluation.candidate.target, evaluation.device_model)) {
    label.reference_facts = reference->facts;
  }
  if (const Ratio* speedup = MeasuredSpeedup(*measurement)) {
    label.truth = *speedup;
  } else {
    label.truth = std::string(OutcomeName(measurement->outcome));
  }
  label.propensity = evaluation.decision->audit_propensity;
  label.reason = evaluation.decision->reason;
  label.forecast = evaluation.forecast;
  label.device_model = measurement->device.model;
  pending_labels_[event.request_id] = std::move(pending);
}

absl::Status State::ApplyBody(uint64_t sequence, int64_t time_ns,
                              const GenerationRequested& event) {
  auto found = searches_.find(event.search_id);
  if (found == searches_.end() || found->second.generation == nullptr ||
      found->second.status != SearchStatus::kRunning) {
    return DoesNotFit("a kernel asked for by a search that asks for none", event.search_id);
  }
  Search& search = found->second;
  if (event.number != search.counts.generation.requested + 1) {
    return DoesNotFit("a kernel asked for out of turn", event.search_id);
  }
  ++search.counts.generation.requested;
  search.generation->in_flight.emplace(event.number,
                                       Generation::Request{event.parent_candidate_id, time_ns});
  search.generation->archive.Expand(event.parent_candidate_id);
  search.last_sequence = sequence;
  return absl::OkStatus();
}

absl::Status State::ApplyBody(uint64_t sequence, int64_t time_ns, const GenerationSettled& event) {
  auto found = searches_.find(event.search_id);
  if (found == searches_.end() || found->second.generation == nullptr ||
      !found->second.generation->in_flight.contains(event.number)) {
    return DoesNotFit("an answer that was not asked for", event.search_id);
  }
  Search& search = found->second;
  Generation& generation = *search.generation;
  const int64_t requested_ns = generation.in_flight.at(event.number).requested_ns;
  generation.in_flight.erase(event.number);
  GenerationCounts& counts = search.counts.generation;
  counts.input_tokens += event.usage.input_tokens;
  counts.output_tokens += event.usage.output_tokens;
  counts.cost += event.usage.cost;
  search.last_sequence = sequence;
  if (event.outcome == GenerationOutcome::kUnanswered) {
    ++counts.unanswered;
    if (generation.outages == 0) generation.away_since_ns = time_ns;
    if (generation.outages == 0 || requested_ns >= generation.last_outage_ns) {
      ++generation.outages;
    }
    generation.last_outage_ns = time_ns;
    generation.outage = event.detail;
    return absl::OkStatus();
  }
  generation.outages = 0;
  generation.outage.clear();
  if (event.outcome == GenerationOutcome::kWritten) {
    ++counts.written;
    generation.useless_answers = 0;
    return absl::OkStatus();
  }
  ++(event.outcome == GenerationOutcome::kDuplicate ? counts.duplicates : counts.unusable);
  ++generation.useless_answers;
  generation.reasons.push_back(event.outcome == GenerationOutcome::kDuplicate
                                   ? "the same kernel as an earlier one"
                                   : event.detail);
  if (generation.reasons.size() > Generation::kMaxReasons) generation.reasons.pop_front();
  return absl::OkStatus();
}

absl::Status State::ApplyBody(uint64_t, int64_t, const LabelsObserved& event) {
  for (const std::string& request_id : event.request_ids) {
    pending_labels_.erase(request_id);
  }
  return absl::OkStatus();
}

absl::Status State::ApplyBody(uint64_t sequence, int64_t, const SearchFinishing& event) {
  auto found = searches_.find(event.search_id);
  if (found == searches_.end() || found->second.ended_ns != 0) {
    return DoesNotFit("finishing, but not running", event.search_id);
  }
  const bool stopped = event.reason == kStoppedReason;
  if (found->second.status == SearchStatus::kFinishing) {
    if (!stopped) return DoesNotFit("finishing twice", event.search_id);
    found->second.stopped = true;
    found->second.last_sequence = sequence;
    return absl::OkStatus();
  }
  found->second.stopped = stopped;
  found->second.status = SearchStatus::kFinishing;
  found->second.end_reason = event.reason;
  found->second.last_sequence = sequence;
  if (Generation* generation = found->second.generation.get()) {
    found->second.counts.generation.given_up += generation->in_flight.size();
    generation->in_flight.clear();
  }
  return absl::OkStatus();
}

absl::Status State::ApplyBody(uint64_t sequence, int64_t time_ns, const SearchClosed& event) {
  auto found = searches_.find(event.search_id);
  if (found == searches_.end() || found->second.ended_ns != 0) {
    return DoesNotFit("closed, but not open", event.search_id);
  }
  Search& search = found->second;
  search.finalists = RankFinalists(search.leaders, search.finals);
  for (Incumbent& confirmation : search.confirmations) {
    if (confirmation.request_id == event.confirmed_request_id) {
      search.confirmed = std::move(confirmation);
      break;
    }
  }
  search.anchor.reset();
  search.status = event.failed ? SearchStatus::kFailed : SearchStatus::kDone;
  if (!event.reason.empty()) search.end_reason = event.reason;
  search.ended_ns = time_ns;
  open_searches_.erase(event.search_id);
  search.last_sequence = sequence;
  search.history.clear();
  search.leaders.clear();
  search.finals.clear();
  search.confirmations.clear();
  search.confirmation_requests.clear();
  search.policy.reset();
  search.generator.reset();
  if (search.generation != nullptr) {
    search.counts.generation.given_up += search.generation->in_flight.size();
    search.generation.reset();
  }
  return absl::OkStatus();
}

absl::Status State::ApplyBody(uint64_t sequence, int64_t, const DeviceChosen& event) {
  if (!event.request_id.empty()) {
    auto found = evaluations_.find(event.request_id);
    if (found == evaluations_.end() || !found->second.device_model.empty()) {
      return DoesNotFit("a device chosen for an evaluation that waits for none", event.request_id);
    }
    found->second.device_model = event.device_model;
    if (auto search = searches_.find(found->second.search_id); search != searches_.end()) {
      search->second.last_sequence = sequence;
    }
    return absl::OkStatus();
  }
  auto found = searches_.find(event.search_id);
  if (found == searches_.end() || !found->second.device_model.empty()) {
    return DoesNotFit("a device chosen for a search that waits for none", event.search_id);
  }
  found->second.device_model = event.device_model;
  found->second.last_sequence = sequence;
  return absl::OkStatus();
}

std::string State::Digest() const {
  std::string text = absl::StrCat("sequence ", last_sequence_, "\n");
  for (const auto& [id, problem] : problems_) absl::StrAppend(&text, "problem ", id, "\n");
  for (const auto& [key, reference] : references_) {
    absl::StrAppend(&text, "reference ", std::get<0>(key), " ", std::get<1>(key), " on ",
                    std::get<2>(key), " ", reference.facts.values.size(), " ", reference.toolchain,
                    "\n");
  }
  for (const std::string& id : EvaluationIds()) {
    const Evaluation& e = evaluations_.at(id);
    absl::StrAppend(&text, "evaluation ", id, " search ", e.search_id, " candidate ",
                    e.candidate.candidate_id, " stage ", static_cast<int>(e.stage), " mode ",
                    static_cast<int>(e.mode), " facts ", e.facts.values.size(), " forecast ",
                    e.forecast ? e.forecast->expected_log2_speedup : -99, " decision ",
                    e.decision ? static_cast<int>(e.decision->reason) : -1, " reconsidered ",
                    e.reconsidered, " on ", e.device_model, "\n");
  }
  for (const auto& [key, history] : histories_) {
    absl::StrAppend(&text, "history ", std::get<0>(key), " ", std::get<1>(key), " on ",
                    std::get<2>(key), " ", history.Digest(), "\n");
  }
  for (const auto& [id, s] : searches_) {
    const SearchCounts& c = s.counts;
    absl::StrAppend(&text, "search ", id, " on ", s.device_model, s.stopped ? " stopped" : "",
                    " models ", c.model_use.asked, "/", c.model_use.used, " status ",
                    static_cast<int>(s.status), " reason '", s.end_reason, "' last ",
                    s.last_sequence, " in flight ", s.in_flight, " measuring ", s.measuring,
                    " counts");
    for (uint64_t count :
         {c.proposed,       c.considered, c.live,     c.measured,     c.bootstrap,
          c.selected,       c.deferred,   c.promoted, c.audited,      c.requested,
          c.unforecast,     c.pruned,     c.rejected, c.failures,     c.unstable,
          c.compile_errors, c.duplicates, c.reused,   c.measurements, c.confirmations}) {
      absl::StrAppend(&text, " ", count);
    }
    absl::StrAppend(&text, " device ", c.device_time_spent_ns, " ", c.device_time_preparing_ns, " ",
                    c.device_time_confirming_ns, " ", c.device_time_avoided_ns, " incumbent ",
                    s.incumbent ? s.incumbent->request_id : "-", " confirmed ",
                    s.confirmed ? s.confirmed->request_id : "-", " ", s.routes.Digest(), "\n");
    if (const GenerationCounts& g = c.generation; g.requested > 0) {
      text += "  generation";
      for (uint64_t count : {g.requested, g.written, g.duplicates, g.unusable, g.unanswered,
                             g.given_up, g.input_tokens, g.output_tokens}) {
        absl::StrAppend(&text, " ", count);
      }
      absl::StrAppend(&text, " cost ", g.cost, "\n");
    }
    if (s.generation != nullptr) {
      const Generation& g = *s.generation;
      absl::StrAppend(&text, "  known ", g.known.size(), " useless ", g.useless_answers,
                      " reasons ", g.reasons.size(), " outages ", g.outages, " since ",
                      g.outages > 0 ? g.away_since_ns : 0, "\n", g.archive.Digest());
      for (const auto& [number, request] : g.in_flight) {
        absl::StrAppend(&text, "  writing ", number, " from ", request.parent_candidate_id, "\n");
      }
    }
    for (const auto& [candidate_id, h] : s.history) {
      absl::StrAppend(&text, "  ", candidate_id, " ", static_cast<int>(h.standing), " ",
                      h.request_id, " ", h.facts.values.size(), " ", h.speedup, "\n");
    }
    for (const Screened& leader : s.leaders) {
      absl::StrAppend(&text, "  leader ", leader.candidate_id, " ", leader.speedup.value, "\n");
    }
    for (const FinalMeasurement& one : s.finals) {
      absl::StrAppend(&text, "  final ", one.request_id, " of ", one.candidate_id, " ", one.settled,
                      " ", one.speedup ? one.speedup->value : 0, " ", one.failed, "\n");
    }
    for (const Finalist& one : s.finalists) {
      absl::StrAppend(&text, "  finalist ", one.candidate_id, " ", one.speedup.value, " ",
                      one.measurements, " ", one.tied, " ", one.failed, "\n");
    }
    if (s.generator != nullptr) {
      const auto next = s.generator->Next();
      absl::StrAppend(&text, "  proposed ", s.generator->proposed(), " next ",
                      next ? next->candidate_id : "-", "\n");
    }
  }
  for (const auto& [id, label] : pending_labels_) absl::StrAppend(&text, "label ", id, "\n");
  return text;
}

std::string State::DigestHash() const { return ContentHasher().Add(Digest()).Hex128(); }

std::string IdForDevice(std::string_view id, std::string_view device_model) {
  std::string name = absl::StrCat(std::string(id), "@");
  for (const char c : device_model) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c));
    if (plain || !name.ends_with('-')) name += plain ? absl::ascii_tolower(c) : '-';
  }
  return name;
}

std::string_view IdOfSeveral(std::string_view search_id) {
  return search_id.substr(0, search_id.rfind('@'));
}

AppendEntry EntryFor(const Event& event, const State& state) {
  AppendEntry entry;
  entry.event = &event;
  auto of_evaluation = [&](const std::string& request_id) {
    entry.request_id = request_id;
    if (const Evaluation* evaluation = state.FindEvaluation(request_id)) {
      entry.search_id = evaluation->search_id;
    }
  };
  std::visit(
      [&](const auto& body) {
        using Body = std::decay_t<decltype(body)>;
        if constexpr (std::is_same_v<Body, EvaluationAccepted>) {
          entry.request_id = body.request_id;
          entry.search_id = body.search_id;
        } else if constexpr (std::is_same_v<Body, EvaluationCompiled> ||
                             std::is_same_v<Body, EvaluationForecast> ||
                             std::is_same_v<Body, EvaluationDecided> ||
                             std::is_same_v<Body, EvaluationSettled>) {
          of_evaluation(body.request_id);
        } else if constexpr (std::is_same_v<Body, SearchCreated> ||
                             std::is_same_v<Body, GenerationRequested> ||
                             std::is_same_v<Body, GenerationSettled> ||
                             std::is_same_v<Body, SearchFinishing> ||
                             std::is_same_v<Body, SearchClosed>) {
          entry.search_id = body.search_id;
        } else if constexpr (std::is_same_v<Body, DeviceChosen>) {
          if (body.request_id.empty()) {
            entry.search_id = body.search_id;
          } else {
            of_evaluation(body.request_id);
          }
        }
      },
      event.body);
  return entry;
}

}  // namespace kernelcast::orchestrator
