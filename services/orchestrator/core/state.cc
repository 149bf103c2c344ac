#include "services/orchestrator/core/state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "services/orchestrator/core/decision_order.h"
#include "services/orchestrator/core/novelty.h"
#include "services/orchestrator/core/search_budget.h"
#include "services/orchestrator/core/template_source.h"

namespace kernelcast::orchestrator {
namespace {

absl::Status DoesNotFit(std::string_view what, const std::string& id) {
  return absl::FailedPreconditionError(absl::StrCat(std::string(what), ": ", id));
}

// The search proposes this candidate. A point of the space beyond the look-ahead shows that the
// search has looked further.
void CountLookAhead(Search& search, const std::string& candidate_id) {
  if (search.spec.measure_everything || search.generator == nullptr ||
      search.strategy->points() != SearchStrategy::Points::kGenerator ||
      search.history.contains(candidate_id) || !search.generator->Has(candidate_id)) {
    return;
  }
  const uint64_t look_ahead = TemplateSource::LookAhead(search);
  if (search.counts.considered < look_ahead) return;
  constexpr uint64_t kStep = TemplateSource::kLookAheadPerMeasurement;
  search.looked_further += ((search.counts.considered - look_ahead) / kStep + 1) * kStep;
}

// Prepares the archive and the batches from which the search derives candidates.
void PrepareDerivation(Search& search, const Problem* problem) {
  const SearchStrategy& strategy = *search.strategy;
  const bool derives_points =
      search.generator != nullptr && strategy.points() == SearchStrategy::Points::kDerived;
  if (search.spec.generator != GeneratorKind::kLlm && !derives_points) return;
  absl::StatusOr<Candidate> reference = absl::NotFoundError("");
  if (problem != nullptr) reference = ReferenceCandidate(*problem, search.spec.target);
  search.archive = std::make_unique<Archive>(
      reference.ok() ? reference->candidate_id : std::string(), strategy.archive_limits());
  if (const std::optional<BatchLimits> limits = strategy.batches()) {
    // Without forecasts all children are measured.
    search.batches = Batches(search.spec.measure_everything ? limits->admit : limits->children);
  }
  if (search.spec.generator != GeneratorKind::kLlm) return;
  search.generation = std::make_unique<Generation>();
  if (reference.ok()) {
    search.generation->known.emplace(NoveltyKey(*reference), reference->candidate_id);
  }
}

TokenUsage ToTokens(const GenerationUsage& usage) {
  return {usage.input_tokens, usage.cached_input_tokens, usage.output_tokens, usage.cost};
}

void CountUnpriced(const TokenUsage& usage, SearchCounts& counts) {
  if (usage.cost_dollars == 0) counts.unpriced_tokens += usage;
}

void CountUsage(const GenerationUsage& usage, SearchCounts& counts) {
  counts.generation.input_tokens += usage.input_tokens;
  counts.generation.output_tokens += usage.output_tokens;
  counts.generation.cost += usage.cost;
  CountUnpriced(ToTokens(usage), counts);
}

// The turn of a new candidate of the search, which it has taken before or takes now. Nothing: the
// candidate is not derived.
std::optional<uint64_t> TakeTurn(Search& search, const EvaluationAccepted& event) {
  if (search.archive == nullptr || !event.generated) return std::nullopt;
  if (search.generation != nullptr) {
    auto written = search.generation->written.extract(event.request_id);
    if (!written.empty()) return written.mapped();
  }
  if (search.strategy->points() != SearchStrategy::Points::kDerived) return std::nullopt;
  const std::string& parent = event.candidate.parent_candidate_id;
  if (search.batches.Starts()) search.archive->Expand(parent);
  return search.batches.Take(parent);
}

}  // namespace

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
  const auto found = evaluations_.find(AbslView(request_id));
  return found == evaluations_.end() ? nullptr : &found->second;
}

const Search* State::FindSearch(std::string_view search_id) const {
  auto found = searches_.find(search_id);
  return found == searches_.end() ? nullptr : &found->second;
}

absl::Status State::ApplyBody(uint64_t, int64_t, const ProblemPut& event) {
  std::shared_ptr<const Problem> problem = event.parsed;
  if (problem == nullptr) {
    KC_ASSIGN_OR_RETURN(Problem parsed, ParseProblem(event.files));
    problem = std::make_shared<const Problem>(std::move(parsed));
  }
  problems_.emplace(problem->problem_id, problem);
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
  KC_ASSIGN_OR_RETURN(search.strategy,
                      MakeStrategy(event.spec.strategy, event.spec.strategy_parameters));
  // Empty in logs from before strategies.
  search.spec.strategy = std::string(search.strategy->name());
  search.routes = RouteHistory(search.policy->risk_options());
  // A reader that replays a single search has no problems and needs no generator.
  const auto problem = FindProblem(event.spec.problem_id);
  const bool has_space = problem != nullptr && problem->targets.contains(event.spec.target) &&
                         problem->targets.find(event.spec.target)->second.space.has_value();
  if (has_space && event.spec.generator != GeneratorKind::kExternal) {
    search.generator =
        std::make_unique<TemplateGenerator>(problem, event.spec.target, event.spec.seed);
  }
  PrepareDerivation(search, problem.get());
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
    if (!event.generated) {
      const std::string limit = ExhaustedBudget(search, time_ns);
      if (!limit.empty() && !GoesOnAfter(search, limit)) evaluation.over_budget = limit;
    }
    search.last_sequence = sequence;
    ++search.in_flight;
    if (event.mode == EvaluateMode::kFinal && event.generated) {
      search.confirmation_requests.insert(event.request_id);
      const bool held_out = search.IsHeldOut(event.candidate);
      if (held_out) search.held_out_problem_id = event.candidate.problem_id;
      const Candidate& own =
          held_out ? ForProblem(event.candidate, search.spec.problem_id) : event.candidate;
      (held_out ? search.gates : search.finals)
          .push_back({own.candidate_id, event.request_id, false, {}, false});
    } else {
      if (event.generated) CountLookAhead(search, event.candidate.candidate_id);
      auto [entry, inserted] = search.history.try_emplace(event.candidate.candidate_id);
      CandidateHistory& history = entry->second;
      history.counted.Accept(search.counts);
      evaluation.repeated = !inserted;
      evaluation.reconsidered =
          !inserted && history.standing == CandidateHistory::Standing::kPruned;
      const bool live = !inserted && history.standing == CandidateHistory::Standing::kInFlight;
      if (!event.generated && event.mode != EvaluateMode::kFinal &&
          event.mode != EvaluateMode::kProfile) {
        const Evaluation* const other = live ? FindEvaluation(history.request_id) : nullptr;
        if (history.standing == CandidateHistory::Standing::kMeasured) {
          evaluation.measured_by = history.request_id;
        } else if (other != nullptr && !other->measured_by.empty()) {
          evaluation.measured_by = other->measured_by;
        } else if (live) {
          evaluation.duplicate_of = history.request_id;
        }
        const bool decides = !evaluation.measured_by.empty() || !evaluation.duplicate_of.empty();
        if (decides) evaluation.over_budget.clear();
      }
      if (inserted) {
        history.parent_candidate_id = event.candidate.parent_candidate_id;
        history.turn = TakeTurn(search, event);
        evaluation.turn = history.turn;
      } else if (evaluation.reconsidered && history.turn) {
        search.batches.Reconsider(*history.turn);
        evaluation.turn = history.turn;
      }
      if (search.rankings.chosen == event.candidate.candidate_id) search.rankings.chosen.clear();
      if (evaluation.reconsidered && event.generated) {
        search.selection = event.request_id;
        history.selected_after = search.counts.measurements;
      }
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
  if (evaluation.device_model.empty()) without_device_.insert(event.request_id);
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
    evaluation.compile_error = std::get<CompileError>(event.result);
    evaluation.stage = Stage::kDecide;
  }
  if (auto search = searches_.find(evaluation.search_id); search != searches_.end()) {
    search->second.last_sequence = sequence;
  }
  return absl::OkStatus();
}

absl::Status State::ApplyBody(uint64_t sequence, int64_t, const EvaluationForecast& event) {
  auto found = evaluations_.find(event.request_id);
  if (found == evaluations_.end() ||
      (found->second.stage != Stage::kForecast && !IsDecidedInOrder(*this, found->second))) {
    return DoesNotFit("forecast, but not waiting for it", event.request_id);
  }
  Evaluation& evaluation = found->second;
  const bool first = evaluation.stage == Stage::kForecast;
  const std::optional<ModelAnswer>* model = nullptr;
  if (const auto* forecast = std::get_if<Forecast>(&event.result)) {
    evaluation.forecast = *forecast;
    model = &forecast->model;
  } else {
    model = &std::get<Abstention>(event.result).model;
  }
  const auto* abstention = std::get_if<Abstention>(&event.result);
  if (abstention != nullptr && !evaluation.forecast) evaluation.forecast_error = abstention->reason;
  evaluation.declined =
      model->has_value()
          ? (*model)->outcome == ModelOutcome::kDeclined
          : abstention != nullptr && abstention->cause == Abstention::Cause::kModelDeferred;
  evaluation.stage = Stage::kDecide;
  const bool is_routed = evaluation.forecast && evaluation.mode == EvaluateMode::kRoute;
  if (auto search = searches_.find(evaluation.search_id); search != searches_.end()) {
    search->second.last_sequence = sequence;
    evaluation.labels_at_forecast = search->second.labels;
    if (first) evaluation.labels_at_first_forecast = search->second.labels;
    if (is_routed) {
      search->second.undecided.insert(event.request_id);
      search->second.routes.Forecast(evaluation.candidate.candidate_id, *evaluation.forecast);
    }
    if (model->has_value()) {
      search->second.counts.model_use.Add(**model);
      CountUnpriced((*model)->token_usage, search->second.counts);
    }
  } else if (evaluation.search_id.empty() && is_routed && !evaluation.device_model.empty()) {
    const Candidate& candidate = evaluation.candidate;
    ProblemHistory& history =
        histories_[{candidate.problem_id, candidate.target, evaluation.device_model}];
    history.Forecast(event.request_id, candidate.candidate_id, *evaluation.forecast);
    evaluation.labels_at_forecast = history.measured();
    if (first) evaluation.labels_at_first_forecast = history.measured();
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
    search.undecided.erase(event.request_id);
    if (!search.confirmation_requests.contains(event.request_id)) {
      const bool measured = event.decision.kind == DecisionKind::kMeasure;
      if (measured) ++search.measuring;
      if (evaluation.turn && search.archive != nullptr)
        search.batches.Decide(*evaluation.turn, measured);
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

absl::Status State::ApplyBody(uint64_t sequence, int64_t time_ns, const EvaluationSettled& event) {
  auto found = evaluations_.find(event.request_id);
  if (found == evaluations_.end()) {
    return DoesNotFit("settled, but not live", event.request_id);
  }
  if (!found->second.decision.has_value()) {
    return DoesNotFit("settled before a decision", event.request_id);
  }
  const Evaluation evaluation = std::move(found->second);
  evaluations_.erase(found);
  if (evaluation.device_model.empty()) without_device_.erase(event.request_id);
  if (auto entry = searches_.find(evaluation.search_id); entry != searches_.end()) {
    entry->second.last_sequence = sequence;
    SettleInSearch(entry->second, time_ns, evaluation, event);
  }
  SettleInHistory(evaluation, event);
  AddPendingLabel(evaluation, event);
  return absl::OkStatus();
}

absl::Status State::ApplyBody(uint64_t sequence, int64_t, const MeasurementRepeated& event) {
  auto found = evaluations_.find(event.request_id);
  if (found == evaluations_.end() || !found->second.decision.has_value() ||
      found->second.decision->kind != DecisionKind::kMeasure) {
    return DoesNotFit("measured again, but not measured", event.request_id);
  }
  ++found->second.repeats;
  found->second.unstable_time += event.time;
  if (auto search = searches_.find(found->second.search_id); search != searches_.end()) {
    search->second.last_sequence = sequence;
    search->second.CountDeviceTime(event.request_id, event.time);
  }
  return absl::OkStatus();
}

absl::Status State::ApplyBody(uint64_t sequence, int64_t, const PrunedRanked& event) {
  auto found = searches_.find(event.search_id);
  if (found == searches_.end() || found->second.status != SearchStatus::kRunning) {
    return DoesNotFit("ranked, but not running", event.search_id);
  }
  Search& search = found->second;
  Rankings& rankings = search.rankings;
  if (event.labels_seen > rankings.labels_seen) {
    rankings.learns = true;
  } else if (event.labels_seen < rankings.ExpectedLabels(search.labels)) {
    rankings.learns = false;
  }
  rankings.labels_seen = event.labels_seen;
  rankings.labels_made = search.labels;
  rankings.chosen = event.candidate_id;
  rankings.nothing_left_after.reset();
  rankings.nothing_left_among = 0;
  if (event.candidate_id.empty()) {
    rankings.nothing_left_after = event.measurements;
    rankings.nothing_left_among = event.pruned;
  }
  search.last_sequence = sequence;
  return absl::OkStatus();
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
  if (search.batches.Starts()) search.archive->Expand(event.parent_candidate_id);
  const uint64_t turn = search.batches.Take(event.parent_candidate_id);
  search.generation->in_flight.emplace(
      event.number, Generation::Request{event.parent_candidate_id, time_ns, turn});
  search.last_sequence = sequence;
  return absl::OkStatus();
}

absl::Status State::ApplyBody(uint64_t sequence, int64_t, const GenerationAdvised& event) {
  auto found = searches_.find(event.search_id);
  if (found == searches_.end() || found->second.generation == nullptr) {
    return DoesNotFit("advice for a search that asks for none", event.search_id);
  }
  Search& search = found->second;
  const auto request = search.generation->in_flight.find(event.number);
  if (request == search.generation->in_flight.end() || request->second.advice) {
    return DoesNotFit("advice that was not asked for", event.search_id);
  }
  request->second.advice = event.advice;
  GenerationCounts& counts = search.counts.generation;
  counts.advised += event.advice.empty() ? 0 : 1;
  CountUsage(event.usage, search.counts);
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
  const Generation::Request request = generation.in_flight.at(event.number);
  generation.in_flight.erase(event.number);
  if (event.outcome == GenerationOutcome::kWritten) {
    generation.written[event.detail] = request.turn;
  } else {
    search.batches.Drop(request.turn);
  }
  GenerationCounts& counts = search.counts.generation;
  CountUsage(event.usage, search.counts);
  CountRepairs(event.repairs, counts.repairs);
  if (event.outcome == GenerationOutcome::kUnusable) {
    CountUnreadable(event.fault, event.detail, counts.unusable_kinds);
  }
  search.last_sequence = sequence;
  if (event.outcome == GenerationOutcome::kUnanswered) {
    ++counts.unanswered;
    if (generation.outages == 0) generation.away_since_ns = time_ns;
    if (generation.outages == 0 || request.requested_ns >= generation.last_outage_ns) {
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
  search.finalists = search.RankedFinalists();
  for (Incumbent& confirmation : search.confirmations) {
    if (confirmation.request_id == event.confirmed_request_id) {
      search.confirmed = std::move(confirmation);
      break;
    }
  }
  search.final_archive = search.Overview();
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
  search.gates.clear();
  search.confirmation_requests.clear();
  search.selection.clear();
  search.rankings = {};
  search.policy.reset();
  search.strategy.reset();
  search.archive.reset();
  search.batches = Batches();
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
    without_device_.erase(event.request_id);
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

}  // namespace kernelcast::orchestrator
