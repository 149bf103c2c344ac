#include "services/orchestrator/convert/convert.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/convert_lesson.h"
#include "common/convert/fields.h"
#include "services/orchestrator/core/engine_ids.h"

namespace kernelcast {

KC_FIELDS(ArchiveEntry, v1::ArchiveEntry) {
  KC_SAME(place, candidate_id, name, origin, speedup, kernels, children, expansions, value);
}

KC_FIELDS(ArchiveOverview, v1::SearchArchive) { KC_SAME(strategy, total, entries); }

KC_FIELDS(ProblemFile, v1::SourceFile) {
  KC_SAME(path);
  KC_BYTES(content);
}

}  // namespace kernelcast

namespace kernelcast::orchestrator {

using ::kernelcast::FromProto;
using ::kernelcast::ToProto;

constexpr auto Pairs(GeneratorKind) {
  return std::to_array<std::pair<GeneratorKind, v1::Generator>>({
      {GeneratorKind::kTemplate, v1::GENERATOR_TEMPLATE},
      {GeneratorKind::kExternal, v1::GENERATOR_EXTERNAL},
      {GeneratorKind::kLlm, v1::GENERATOR_LLM},
  });
}

constexpr auto Pairs(GateMode) {
  return std::to_array<std::pair<GateMode, v1::GateMode>>({
      {GateMode::kDeclared, v1::GATE_MODE_DECLARED},
      {GateMode::kDrawn, v1::GATE_MODE_DRAWN},
      {GateMode::kOff, v1::GATE_MODE_OFF},
      {GateMode::kDeclared, v1::GATE_MODE_UNSPECIFIED},
  });
}

constexpr auto Pairs(EvaluateMode) {
  return std::to_array<std::pair<EvaluateMode, v1::EvaluateMode>>({
      {EvaluateMode::kRoute, v1::EVALUATE_MODE_ROUTE},
      {EvaluateMode::kMeasure, v1::EVALUATE_MODE_MEASURE},
      {EvaluateMode::kFinal, v1::EVALUATE_MODE_FINAL},
      {EvaluateMode::kForecast, v1::EVALUATE_MODE_FORECAST},
      {EvaluateMode::kCheck, v1::EVALUATE_MODE_CHECK},
      {EvaluateMode::kProfile, v1::EVALUATE_MODE_PROFILE},
      {EvaluateMode::kRoute, v1::EVALUATE_MODE_UNSPECIFIED},
  });
}

constexpr auto Pairs(SearchStatus) {
  return std::to_array<std::pair<SearchStatus, v1::SearchStatus>>({
      {SearchStatus::kRunning, v1::SEARCH_STATUS_RUNNING},
      {SearchStatus::kFinishing, v1::SEARCH_STATUS_FINISHING},
      {SearchStatus::kDone, v1::SEARCH_STATUS_DONE},
      {SearchStatus::kFailed, v1::SEARCH_STATUS_FAILED},
  });
}

constexpr auto Pairs(GenerationOutcome) {
  return std::to_array<std::pair<GenerationOutcome, v1::GenerationOutcome>>({
      {GenerationOutcome::kWritten, v1::GENERATION_OUTCOME_WRITTEN},
      {GenerationOutcome::kDuplicate, v1::GENERATION_OUTCOME_DUPLICATE},
      {GenerationOutcome::kUnusable, v1::GENERATION_OUTCOME_UNUSABLE},
      {GenerationOutcome::kUnanswered, v1::GENERATION_OUTCOME_UNANSWERED},
  });
}

constexpr auto Pairs(Gate) {
  return std::to_array<std::pair<Gate, v1::Finalist::Gate>>({
      {Gate::kNotMeasured, v1::Finalist::GATE_UNSPECIFIED},
      {Gate::kCarriesOver, v1::Finalist::GATE_CARRIES_OVER},
      {Gate::kDoesNotCarryOver, v1::Finalist::GATE_DOES_NOT_CARRY_OVER},
      {Gate::kFailed, v1::Finalist::GATE_FAILED},
  });
}

KC_FIELDS(Budget, v1::Budget) {
  KC_SAME(max_candidates, max_measurements);
  KC_FIELD(max_device_time_ns, max_device_time);
  KC_FIELD(max_wall_time_ns, max_wall_time);
}

KC_FIELDS(GeneratorLimits, v1::GeneratorLimits) {
  KC_SAME(max_requests, max_tokens, max_in_flight);
}

KC_FIELDS(SearchSpec, v1::SearchSpec) {
  KC_SAME(problem_id, target, generator, budget, policy, policy_parameters, strategy,
          strategy_parameters, seed, max_in_flight, measure_everything, max_forecast_tokens,
          device_models, gate, critic, time_in_full);
  if (Io::kReads || d.generator == GeneratorKind::kLlm) KC_SAME(generator_limits);
  if constexpr (!Io::kReads) {
    for (const Lesson& lesson : d.lessons) *m.add_lessons() = ToProto(lesson);
  }
}

KC_FIELDS(GenerationCounts, v1::GenerationCounts) {
  KC_SAME(requested, written, duplicates, unusable, unanswered, given_up, input_tokens,
          output_tokens, cost, advised, repairs);
  if constexpr (!Io::kReads) ToProto(d.unusable_kinds, *m.mutable_unusable_kinds());
}

KC_FIELDS(SearchCounts, v1::SearchCounts) {
  KC_SAME(proposed, considered, live, measured, bootstrap, selected, deferred, promoted, audited,
          requested, unforecast, pruned, rejected, failures, unstable, compile_errors, duplicates,
          reused, measurements, confirmations);
  m.set_decided(d.decided());
  KC_FIELD(device_time_spent_ns, device_time_spent);
  KC_FIELD(device_time_preparing_ns, device_time_preparing);
  KC_FIELD(device_time_confirming_ns, device_time_confirming);
  KC_FIELD(device_time_avoided_ns, device_time_avoided);
  if (d.generation.requested > 0) KC_SAME(generation);
  if (!d.model_use.empty()) KC_NESTED(model_use);
  if (d.unpriced_tokens != TokenUsage()) KC_NESTED(unpriced_tokens);
}

// Fields of a Generation and of an Advice about the call of the model.
template <class Io, class D, class M>
void MapModelCall(Io& io, D& d, M& m) {
  KC_SAME(prompt_version, endpoint);
  KC_BYTES(model);
  KC_FIELD(usage.input_tokens, input_tokens);
  KC_FIELD(usage.cached_input_tokens, cached_input_tokens);
  KC_FIELD(usage.output_tokens, output_tokens);
  KC_FIELD(usage.estimated, tokens_estimated);
  KC_FIELD(usage.cost, cost);
  KC_FIELD(latency_ns, latency);
}

KC_FIELDS(GenerationAdvised, v1::Advice) {
  KC_SAME(number);
  KC_FIELD(advice, text);
  KC_BYTES(detail);
  MapModelCall(io, d, m);
}

KC_FIELDS(GenerationSettled, v1::Generation) {
  KC_SAME(number, outcome, parent_candidate_id, fault, repairs);
  KC_BYTES(detail);
  MapModelCall(io, d, m);
}

KC_FIELDS(Rejection, v1::Rejection) {
  using Cause = Rejection::Cause;
  const auto text = [&](Cause cause, auto get, auto set, auto, auto has) {
    if constexpr (Io::kReads) {
      if (!has(m)) return;
      d.cause = cause;
      d.detail = get(m);
    } else if (d.cause == cause) {
      set(m, convert_internal::Utf8(d.detail));
    }
  };
  text(Cause::kDuplicate, KC_ACCESS(duplicate_of_request_id));
  text(Cause::kBudget, KC_ACCESS(budget));
  text(Cause::kUnavailable, KC_ACCESS(unavailable));
  text(Cause::kCancelled, KC_ACCESS(cancelled));
  if constexpr (Io::kReads) {
    if (m.has_compile_error()) d.cause = Cause::kCompileError;
    if (m.cause_case() == v1::Rejection::CAUSE_NOT_SET) io.Fail("", "no cause");
  }
  if (d.cause == Cause::kCompileError) KC_NESTED(compile_error);
}

KC_FIELDS(Incumbent, v1::Incumbent) {
  KC_NESTED(candidate);
  KC_NESTED(measurement);
  KC_SAME(request_id);
}

KC_FIELDS(Finalist, v1::Finalist) {
  KC_SAME(candidate_id, measurements, tied, failed, gate);
  if (d.measurements > 0) KC_NESTED(speedup);
  KC_NESTED(screening);
  if (d.gate == Gate::kNotMeasured) return;
  if (d.gate != Gate::kFailed) *m.mutable_held_out_speedup() = ToProto(d.held_out->speedup);
  m.set_held_out_outcome(d.held_out->outcome);
  m.set_held_out_request_id(d.held_out->request_id);
}

KC_FIELDS(RiskReport, v1::SelectiveRisk) {
  KC_FIELD(selective_risk.estimate, estimate);
  KC_FIELD(selective_risk.low, low);
  KC_FIELD(selective_risk.high, high);
  KC_FIELD(selective_risk.pruned, candidates);
  KC_FIELD(selective_risk.labels, measured);
  KC_FIELD(options.alpha, alpha);
  KC_FIELD(options.delta, delta);
  KC_FIELD(options.certifies, certifies);
  KC_SAME(informative, alarms);
  if (d.options.certifies) KC_FIELD(threshold, certified_threshold);
}

KC_FIELDS(SearchSnapshot, v1::Search) {
  KC_SAME(search_id, problem_name, spec, status, end_reason, counts, incumbent, last_sequence,
          finalists, archive, device_model);
  KC_FIELD(confirmed, confirmed_best);
  KC_FIELD(started_ns, started_at);
  if (d.ended_ns != 0) KC_FIELD(ended_ns, ended_at);
  KC_FIELD(risk, selective_risk);
  if (!d.wait_reason.empty()) {
    m.mutable_waiting()->set_reason(d.wait_reason);
    *m.mutable_waiting()->mutable_since() = TimestampToProto(d.waiting_since_ns);
  }
}

KC_FIELDS(EvaluationRecord, v1::Evaluation) {
  KC_SAME(request_id, search_id, reused, device_model);
  m.set_candidate_id(d.candidate.candidate_id);
  KC_NESTED(decision);
  KC_NESTED_ARM(result, Measurement, measured);
  KC_ARM(result, Rejection, rejected);
  if (d.decided_on) {
    if (std::holds_alternative<Pruned>(d.result)) *m.mutable_forecast() = ToProto(*d.decided_on);
    *m.mutable_decided_on() = ToProto(*d.decided_on);
  }
  if (d.unstable_time != DeviceTime()) {
    KC_FIELD(unstable_time.device_time_ns, unstable_device_time);
    KC_FIELD(unstable_time.preparation_time_ns, unstable_preparation_time);
  }
  KC_FIELD(accepted_ns, accepted_at);
  KC_FIELD(settled_ns, settled_at);
}

// Events

KC_FIELDS(ProblemPut, v1::Problem) { KC_SAME(files); }

KC_FIELDS(ProblemPut, v1::ProblemPut) { io.Field("problem", d, m, KC_ACCESS(problem)); }

KC_FIELDS(ReferenceDescribed, v1::ReferenceDescribed) {
  KC_SAME(problem_id, target, toolchain, device_model);
  KC_NESTED(facts);
}

KC_FIELDS(DeviceChosen, v1::DeviceChosen) { KC_SAME(search_id, request_id, device_model); }

KC_FIELDS(MeasurementRepeated, v1::MeasurementRepeated) {
  KC_SAME(request_id);
  KC_FIELD(time.device_time_ns, device_time);
  KC_FIELD(time.preparation_time_ns, preparation_time);
}

KC_FIELDS(PrunedRanked, v1::PrunedRanked) {
  KC_SAME(search_id, measurements, pruned, labels_seen, candidate_id);
}

KC_FIELDS(EvaluationAccepted, v1::EvaluationAccepted) {
  KC_SAME(request_id, search_id, mode, generated, wanted_device_model, device_model);
  KC_NESTED(candidate);
}

KC_FIELDS(EvaluationCompiled, v1::EvaluationCompiled) {
  KC_SAME(request_id);
  KC_NESTED_ARM(result, CompileFacts, facts);
  KC_NESTED_ARM(result, CompileError, error);
  if constexpr (Io::kReads) {
    if (m.has_artifact()) KC_NESTED(artifact);
  } else if (std::holds_alternative<CompileFacts>(d.result)) {
    KC_NESTED(artifact);
  }
}

KC_FIELDS(EvaluationForecast, v1::EvaluationForecast) {
  KC_SAME(request_id);
  KC_NESTED_ARM(result, Forecast, forecast);
  KC_NESTED_ARM(result, Abstention, abstention);
}

KC_FIELDS(EvaluationDecided, v1::EvaluationDecided) {
  KC_SAME(request_id);
  KC_NESTED(decision);
}

KC_FIELDS(EvaluationSettled, v1::EvaluationSettled) {
  KC_SAME(request_id, reused);
  KC_NESTED_ARM(result, Measurement, measured);
  KC_ARM(result, Rejection, rejected);
  if constexpr (Io::kReads) {
    if (!m.has_measured() && !m.has_rejected()) d.result = Pruned{};
  } else if (std::holds_alternative<Pruned>(d.result)) {
    m.set_pruned(true);
  }
}

KC_FIELDS(GenerationRequested, v1::GenerationRequested) {
  KC_SAME(search_id, number, parent_candidate_id);
}

KC_FIELDS(GenerationAdvised, v1::GenerationAdvised) {
  KC_SAME(search_id);
  io.Field("advice", d, m, KC_ACCESS(advice));
}

KC_FIELDS(GenerationSettled, v1::GenerationSettled) {
  KC_SAME(search_id);
  io.Field("generation", d, m, KC_ACCESS(generation));
}

KC_FIELDS(LabelsObserved, v1::LabelsObserved) { KC_SAME(request_ids); }

KC_FIELDS(SearchFinishing, v1::SearchFinishing) { KC_SAME(search_id, reason); }

KC_FIELDS(SearchClosed, v1::SearchClosed) {
  KC_SAME(search_id, confirmed_request_id, failed, reason);
}

KC_FIELDS(SearchCreated, v1::SearchCreated) {
  KC_SAME(search_id, device_model);
  if constexpr (Io::kReads) {
    absl::StatusOr<SearchSpec> spec = FromProto(m.spec());
    if (!spec.ok()) return io.Fail("spec", std::string(spec.status().message()));
    d.spec = *std::move(spec);
  } else {
    KC_SAME(spec);
  }
}

KC_FIELDS(Event, v1::Event) {
  KC_SAME(time_ns);
  KC_ARM(body, ProblemPut, problem_put);
  KC_ARM(body, ReferenceDescribed, reference_described);
  KC_ARM(body, SearchCreated, search_created);
  KC_ARM(body, EvaluationAccepted, evaluation_accepted);
  KC_ARM(body, EvaluationCompiled, evaluation_compiled);
  KC_ARM(body, EvaluationForecast, evaluation_forecast);
  KC_ARM(body, EvaluationDecided, evaluation_decided);
  KC_ARM(body, EvaluationSettled, evaluation_settled);
  KC_ARM(body, LabelsObserved, labels_observed);
  KC_ARM(body, SearchFinishing, search_finishing);
  KC_ARM(body, SearchClosed, search_closed);
  KC_ARM(body, GenerationRequested, generation_requested);
  KC_ARM(body, GenerationSettled, generation_settled);
  KC_ARM(body, DeviceChosen, device_chosen);
  KC_ARM(body, MeasurementRepeated, measurement_repeated);
  KC_ARM(body, PrunedRanked, pruned_ranked);
  KC_ARM(body, GenerationAdvised, generation_advised);
  if constexpr (Io::kReads) {
    if (m.event_case() == v1::Event::EVENT_NOT_SET) {
      io.Fail("event", "of a kind that this version does not know");
    }
  }
}

namespace {

absl::StatusOr<std::vector<Lesson>> LessonsFromProto(const v1::SearchSpec& spec) {
  if (static_cast<size_t>(spec.lessons_size()) > kMaxLessons) {
    return absl::InvalidArgumentError(absl::StrCat("spec.lessons: are ", spec.lessons_size(),
                                                   "; at most ", kMaxLessons, " are allowed"));
  }
  std::vector<Lesson> lessons;
  for (const v1::Lesson& lesson : spec.lessons()) {
    lessons.push_back(FromProto(lesson));
    const absl::Status valid = ValidateLesson(lessons.back());
    if (!valid.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("spec.lessons[", lessons.size() - 1, "].", std::string(valid.message())));
    }
  }
  return lessons;
}

absl::Status CheckNotNegative(std::string_view field, int64_t value) {
  if (value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(field), ": is ", value, "; zero or more is allowed"));
}

}  // namespace

v1::SearchSpec ToProto(const SearchSpec& spec) { return WriteFields<v1::SearchSpec>(spec); }

absl::StatusOr<SearchSpec> FromProto(const v1::SearchSpec& message) {
  KC_ASSIGN_OR_RETURN(SearchSpec spec, WithPrefix("spec.", ReadFields<SearchSpec>(message)));
  KC_RETURN_IF_ERROR(
      CheckNotNegative("spec.budget.max_device_time (ns)", spec.budget.max_device_time_ns));
  KC_RETURN_IF_ERROR(
      CheckNotNegative("spec.budget.max_wall_time (ns)", spec.budget.max_wall_time_ns));
  if (message.has_generator_limits() && spec.generator != GeneratorKind::kLlm) {
    return absl::InvalidArgumentError(
        "spec.generator_limits: is set, but only generator llm takes it");
  }
  const v1::GeneratorLimits& limits = message.generator_limits();
  if (limits.max_in_flight() > kMaxGenerationsInFlight) {
    return absl::InvalidArgumentError(absl::StrCat("spec.generator_limits.max_in_flight: is ",
                                                   limits.max_in_flight(), "; at most ",
                                                   kMaxGenerationsInFlight, " is allowed"));
  }
  // A client's negative count arrives as a huge unsigned one.
  for (const auto& [field, value] :
       {std::pair<const char*, uint64_t>{"spec.budget.max_candidates", spec.budget.max_candidates},
        {"spec.budget.max_measurements", spec.budget.max_measurements},
        {"spec.generator_limits.max_requests", spec.generator_limits.max_requests},
        {"spec.generator_limits.max_tokens", spec.generator_limits.max_tokens}}) {
    if (value > (uint64_t{1} << 40)) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ": is ", value, "; at most 2^40 is allowed"));
    }
  }
  KC_RETURN_IF_ERROR(DeviceModelsFromProto("spec.device_models", message.device_models()).status());
  if (message.critic() && spec.generator != GeneratorKind::kLlm) {
    return absl::InvalidArgumentError("spec.critic: is set, but only generator llm takes it");
  }
  KC_ASSIGN_OR_RETURN(spec.lessons, LessonsFromProto(message));
  return spec;
}

absl::StatusOr<std::vector<std::string>> DeviceModelsFromProto(
    std::string_view field, const google::protobuf::RepeatedPtrField<std::string>& models) {
  if (models.size() > static_cast<int>(kMaxDeviceModels)) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(field), ": has ", models.size(),
                                                   " models; at most ", kMaxDeviceModels,
                                                   " are allowed"));
  }
  std::set<std::string> names;
  for (const std::string& model : models) {
    if (model.empty() || model.size() > kMaxDeviceModelBytes) {
      return absl::InvalidArgumentError(absl::StrCat(std::string(field), ": a model has ",
                                                     model.size(), " bytes; 1 to ",
                                                     kMaxDeviceModelBytes, " are allowed"));
    }
    if (!names.insert(IdForDevice("", model)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(std::string(field), ": '", model, "' is named twice"));
    }
  }
  return std::vector<std::string>(models.begin(), models.end());
}

v1::SearchCounts ToProto(const SearchCounts& counts) {
  return WriteFields<v1::SearchCounts>(counts);
}

v1::Advice ToProto(const GenerationAdvised& advised) { return WriteFields<v1::Advice>(advised); }

v1::Generation ToProto(const GenerationSettled& settled) {
  return WriteFields<v1::Generation>(settled);
}

v1::SearchStatus ToProto(SearchStatus status) { return convert_internal::EnumToProto(status); }

v1::Search ToProto(const SearchSnapshot& snapshot) { return WriteFields<v1::Search>(snapshot); }

v1::Evaluation ToProto(const EvaluationRecord& record, bool with_feedback) {
  v1::Evaluation message = WriteFields<v1::Evaluation>(record);
  if (with_feedback) message.set_text_feedback(EvaluationFeedback(record.decision, record.result));
  return message;
}

v1::EvaluateMode ToProto(EvaluateMode mode) { return convert_internal::EnumToProto(mode); }

absl::StatusOr<EvaluateMode> FromProto(v1::EvaluateMode mode) {
  return convert_internal::EnumFromProto<EvaluateMode>(mode, "mode");
}

v1::Event ToProto(const Event& event) { return WriteFields<v1::Event>(event); }

absl::StatusOr<Event> FromProto(const v1::Event& message) {
  absl::StatusOr<Event> event = ReadFields<Event>(message);
  if (!event.ok()) return absl::DataLossError(event.status().message());
  return event;
}

}  // namespace kernelcast::orchestrator
