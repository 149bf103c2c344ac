#include "services/orchestrator/convert/convert.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/convert_lesson.h"
#include "services/orchestrator/core/engine_ids.h"

namespace kernelcast::orchestrator {

using ::kernelcast::FromProto;
using ::kernelcast::ToProto;

namespace {

v1::Generator GeneratorToProto(GeneratorKind kind) {
  switch (kind) {
    case GeneratorKind::kTemplate: return v1::GENERATOR_TEMPLATE;
    case GeneratorKind::kExternal: return v1::GENERATOR_EXTERNAL;
    case GeneratorKind::kLlm: return v1::GENERATOR_LLM;
  }
  return v1::GENERATOR_UNSPECIFIED;
}

absl::StatusOr<uint64_t> NonNegative(std::string_view field, int64_t value) {
  if (value < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(field), ": is ", value, "; zero or more is allowed"));
  }
  return static_cast<uint64_t>(value);
}

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

}  // namespace

v1::SearchSpec ToProto(const SearchSpec& spec) {
  v1::SearchSpec message;
  message.set_problem_id(spec.problem_id);
  message.set_target(spec.target);
  message.set_generator(GeneratorToProto(spec.generator));
  auto* budget = message.mutable_budget();
  budget->set_max_candidates(spec.budget.max_candidates);
  budget->set_max_measurements(spec.budget.max_measurements);
  *budget->mutable_max_device_time() = DurationToProto(spec.budget.max_device_time_ns);
  *budget->mutable_max_wall_time() = DurationToProto(spec.budget.max_wall_time_ns);
  message.set_policy(spec.policy);
  for (const auto& [name, value] : spec.policy_parameters) {
    (*message.mutable_policy_parameters())[name] = value;
  }
  message.set_strategy(spec.strategy);
  for (const auto& [name, value] : spec.strategy_parameters) {
    (*message.mutable_strategy_parameters())[name] = value;
  }
  message.set_seed(spec.seed);
  message.set_max_in_flight(spec.max_in_flight);
  message.set_measure_everything(spec.measure_everything);
  message.set_max_forecast_tokens(spec.max_forecast_tokens);
  message.mutable_device_models()->Add(spec.device_models.begin(), spec.device_models.end());
  message.set_gate(ToProto(spec.gate));
  message.set_critic(spec.critic);
  message.set_time_in_full(spec.time_in_full);
  for (const Lesson& lesson : spec.lessons) *message.add_lessons() = ToProto(lesson);
  if (spec.generator == GeneratorKind::kLlm) {
    auto* limits = message.mutable_generator_limits();
    limits->set_max_requests(spec.generator_limits.max_requests);
    limits->set_max_tokens(spec.generator_limits.max_tokens);
    limits->set_max_in_flight(spec.generator_limits.max_in_flight);
  }
  return message;
}

absl::StatusOr<SearchSpec> FromProto(const v1::SearchSpec& message) {
  SearchSpec spec;
  spec.problem_id = message.problem_id();
  spec.target = message.target();
  switch (message.generator()) {
    case v1::GENERATOR_TEMPLATE: spec.generator = GeneratorKind::kTemplate; break;
    case v1::GENERATOR_EXTERNAL: spec.generator = GeneratorKind::kExternal; break;
    case v1::GENERATOR_LLM: spec.generator = GeneratorKind::kLlm; break;
    default:
      return absl::InvalidArgumentError(absl::StrCat("spec.generator: is ",
                                                     static_cast<int>(message.generator()),
                                                     "; template, external or llm is allowed"));
  }
  spec.budget.max_candidates = message.budget().max_candidates();
  spec.budget.max_measurements = message.budget().max_measurements();
  spec.budget.max_device_time_ns = ToNanoseconds(message.budget().max_device_time());
  spec.budget.max_wall_time_ns = ToNanoseconds(message.budget().max_wall_time());
  KC_RETURN_IF_ERROR(
      NonNegative("spec.budget.max_device_time (ns)", spec.budget.max_device_time_ns).status());
  KC_RETURN_IF_ERROR(
      NonNegative("spec.budget.max_wall_time (ns)", spec.budget.max_wall_time_ns).status());
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
  spec.generator_limits = {limits.max_requests(), limits.max_tokens(), limits.max_in_flight()};
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
  spec.policy = message.policy();
  for (const auto& [name, value] : message.policy_parameters()) {
    spec.policy_parameters[name] = value;
  }
  spec.strategy = message.strategy();
  for (const auto& [name, value] : message.strategy_parameters()) {
    spec.strategy_parameters[name] = value;
  }
  spec.seed = message.seed();
  spec.max_in_flight = message.max_in_flight();
  spec.measure_everything = message.measure_everything();
  spec.max_forecast_tokens = message.max_forecast_tokens();
  KC_ASSIGN_OR_RETURN(spec.device_models,
                      DeviceModelsFromProto("spec.device_models", message.device_models()));
  KC_ASSIGN_OR_RETURN(spec.gate, FromProto(message.gate()));
  if (message.critic() && spec.generator != GeneratorKind::kLlm) {
    return absl::InvalidArgumentError("spec.critic: is set, but only generator llm takes it");
  }
  spec.critic = message.critic();
  spec.time_in_full = message.time_in_full();
  KC_ASSIGN_OR_RETURN(spec.lessons, LessonsFromProto(message));
  return spec;
}

v1::SearchCounts ToProto(const SearchCounts& counts) {
  v1::SearchCounts message;
  message.set_proposed(counts.proposed);
  message.set_considered(counts.considered);
  message.set_live(counts.live);
  message.set_decided(counts.decided());
  message.set_measured(counts.measured);
  message.set_bootstrap(counts.bootstrap);
  message.set_selected(counts.selected);
  message.set_deferred(counts.deferred);
  message.set_promoted(counts.promoted);
  message.set_audited(counts.audited);
  message.set_requested(counts.requested);
  message.set_unforecast(counts.unforecast);
  message.set_pruned(counts.pruned);
  message.set_rejected(counts.rejected);
  message.set_failures(counts.failures);
  message.set_unstable(counts.unstable);
  message.set_compile_errors(counts.compile_errors);
  message.set_duplicates(counts.duplicates);
  message.set_reused(counts.reused);
  message.set_measurements(counts.measurements);
  message.set_confirmations(counts.confirmations);
  *message.mutable_device_time_spent() = DurationToProto(counts.device_time_spent_ns);
  *message.mutable_device_time_preparing() = DurationToProto(counts.device_time_preparing_ns);
  *message.mutable_device_time_confirming() = DurationToProto(counts.device_time_confirming_ns);
  *message.mutable_device_time_avoided() = DurationToProto(counts.device_time_avoided_ns);
  if (const GenerationCounts& generation = counts.generation; generation.requested > 0) {
    auto* written = message.mutable_generation();
    written->set_requested(generation.requested);
    written->set_written(generation.written);
    written->set_duplicates(generation.duplicates);
    written->set_unusable(generation.unusable);
    written->set_unanswered(generation.unanswered);
    written->set_given_up(generation.given_up);
    written->set_input_tokens(generation.input_tokens);
    written->set_output_tokens(generation.output_tokens);
    written->set_cost(generation.cost);
    written->set_advised(generation.advised);
  }
  if (!counts.model_use.empty()) *message.mutable_model_use() = ToProto(counts.model_use);
  if (const TokenUsage& unpriced = counts.unpriced_tokens; unpriced != TokenUsage()) {
    message.mutable_unpriced_tokens()->set_input_tokens(unpriced.input_tokens);
    message.mutable_unpriced_tokens()->set_cached_input_tokens(unpriced.cached_input_tokens);
    message.mutable_unpriced_tokens()->set_output_tokens(unpriced.output_tokens);
  }
  return message;
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

namespace {

// Fields of a Generation and of an Advice about the call of the model.
template <class Event, class Message>
void SetModelCall(const Event& event, Message& message) {
  message.set_prompt_version(event.prompt_version);
  message.set_model(event.model);
  message.set_endpoint(event.endpoint);
  message.set_input_tokens(event.usage.input_tokens);
  message.set_cached_input_tokens(event.usage.cached_input_tokens);
  message.set_output_tokens(event.usage.output_tokens);
  message.set_tokens_estimated(event.usage.estimated);
  message.set_cost(event.usage.cost);
  *message.mutable_latency() = DurationToProto(event.latency_ns);
}

}  // namespace

v1::Advice ToProto(const GenerationAdvised& advised) {
  v1::Advice message;
  message.set_number(advised.number);
  message.set_text(advised.advice);
  message.set_detail(advised.detail);
  SetModelCall(advised, message);
  return message;
}

v1::Generation ToProto(const GenerationSettled& settled) {
  v1::Generation message;
  message.set_number(settled.number);
  switch (settled.outcome) {
    case GenerationOutcome::kWritten: message.set_outcome(v1::GENERATION_OUTCOME_WRITTEN); break;
    case GenerationOutcome::kDuplicate:
      message.set_outcome(v1::GENERATION_OUTCOME_DUPLICATE);
      break;
    case GenerationOutcome::kUnusable: message.set_outcome(v1::GENERATION_OUTCOME_UNUSABLE); break;
    case GenerationOutcome::kUnanswered:
      message.set_outcome(v1::GENERATION_OUTCOME_UNANSWERED);
      break;
  }
  message.set_detail(settled.detail);
  message.set_parent_candidate_id(settled.parent_candidate_id);
  SetModelCall(settled, message);
  return message;
}

v1::SearchStatus ToProto(SearchStatus status) {
  switch (status) {
    case SearchStatus::kRunning: return v1::SEARCH_STATUS_RUNNING;
    case SearchStatus::kFinishing: return v1::SEARCH_STATUS_FINISHING;
    case SearchStatus::kDone: return v1::SEARCH_STATUS_DONE;
    case SearchStatus::kFailed: return v1::SEARCH_STATUS_FAILED;
  }
  return v1::SEARCH_STATUS_UNSPECIFIED;
}

v1::Rejection ToProto(const Rejection& rejection) {
  v1::Rejection message;
  switch (rejection.cause) {
    case Rejection::Cause::kCompileError:
      *message.mutable_compile_error() = ToProto(rejection.compile_error);
      break;
    case Rejection::Cause::kDuplicate: message.set_duplicate_of_request_id(rejection.detail); break;
    case Rejection::Cause::kBudget: message.set_budget(rejection.detail); break;
    case Rejection::Cause::kUnavailable: message.set_unavailable(rejection.detail); break;
    case Rejection::Cause::kCancelled: message.set_cancelled(rejection.detail); break;
  }
  return message;
}

v1::SelectiveRisk ToProto(const RiskReport& report) {
  const SelectiveRisk& risk = report.selective_risk;
  v1::SelectiveRisk message;
  message.set_estimate(risk.estimate);
  message.set_low(risk.low);
  message.set_high(risk.high);
  message.set_candidates(risk.pruned);
  message.set_measured(risk.labels);
  message.set_certified_threshold(report.options.certifies ? report.threshold : 0);
  message.set_alpha(report.options.alpha);
  message.set_delta(report.options.delta);
  message.set_informative(report.informative);
  message.set_alarms(report.alarms);
  message.set_certifies(report.options.certifies);
  return message;
}

namespace {

v1::SearchArchive ToProto(const ArchiveOverview& overview) {
  v1::SearchArchive message;
  message.set_strategy(overview.strategy);
  message.set_total(overview.total);
  for (const ArchiveEntry& entry : overview.entries) {
    v1::ArchiveEntry* to = message.add_entries();
    to->set_place(entry.place);
    to->set_candidate_id(entry.candidate_id);
    to->set_name(entry.name);
    to->set_origin(entry.origin);
    to->set_speedup(entry.speedup);
    to->set_kernels(entry.kernels);
    to->set_children(entry.children);
    to->set_expansions(entry.expansions);
    to->set_value(entry.value);
  }
  return message;
}

}  // namespace

v1::Search ToProto(const SearchSnapshot& snapshot) {
  v1::Search message;
  message.set_search_id(snapshot.search_id);
  message.set_problem_name(snapshot.problem_name);
  *message.mutable_spec() = ToProto(snapshot.spec);
  message.set_status(ToProto(snapshot.status));
  message.set_end_reason(snapshot.end_reason);
  *message.mutable_counts() = ToProto(snapshot.counts);
  auto incumbent = [](const Incumbent& from, v1::Incumbent* to) {
    *to->mutable_candidate() = ToProto(from.candidate);
    *to->mutable_measurement() = ToProto(from.measurement);
    to->set_request_id(from.request_id);
  };
  if (snapshot.incumbent) incumbent(*snapshot.incumbent, message.mutable_incumbent());
  if (snapshot.confirmed) incumbent(*snapshot.confirmed, message.mutable_confirmed_best());
  *message.mutable_started_at() = TimestampToProto(snapshot.started_ns);
  if (snapshot.ended_ns != 0) *message.mutable_ended_at() = TimestampToProto(snapshot.ended_ns);
  message.set_last_sequence(snapshot.last_sequence);
  *message.mutable_selective_risk() = ToProto(snapshot.risk);
  for (const Finalist& finalist : snapshot.finalists) {
    *message.add_finalists() = ToProto(finalist);
  }
  if (snapshot.archive) *message.mutable_archive() = ToProto(*snapshot.archive);
  message.set_device_model(snapshot.device_model);
  if (!snapshot.wait_reason.empty()) {
    message.mutable_waiting()->set_reason(snapshot.wait_reason);
    *message.mutable_waiting()->mutable_since() = TimestampToProto(snapshot.waiting_since_ns);
  }
  return message;
}

v1::Evaluation ToProto(const EvaluationRecord& record, bool with_feedback) {
  v1::Evaluation message;
  message.set_request_id(record.request_id);
  message.set_search_id(record.search_id);
  message.set_candidate_id(record.candidate.candidate_id);
  *message.mutable_decision() = ToProto(record.decision);
  if (const auto* measurement = std::get_if<Measurement>(&record.result)) {
    *message.mutable_measured() = ToProto(*measurement);
  } else if (const auto* rejection = std::get_if<Rejection>(&record.result)) {
    *message.mutable_rejected() = ToProto(*rejection);
  } else if (record.decided_on) {
    *message.mutable_forecast() = ToProto(*record.decided_on);
  }
  if (record.decided_on) *message.mutable_decided_on() = ToProto(*record.decided_on);
  message.set_reused(record.reused);
  if (const DeviceTime& time = record.unstable_time; time != DeviceTime()) {
    *message.mutable_unstable_device_time() = DurationToProto(time.device_time_ns);
    *message.mutable_unstable_preparation_time() = DurationToProto(time.preparation_time_ns);
  }
  if (with_feedback) message.set_text_feedback(EvaluationFeedback(record.decision, record.result));
  *message.mutable_accepted_at() = TimestampToProto(record.accepted_ns);
  *message.mutable_settled_at() = TimestampToProto(record.settled_ns);
  message.set_device_model(record.device_model);
  return message;
}

v1::EvaluateMode ToProto(EvaluateMode mode) {
  switch (mode) {
    case EvaluateMode::kRoute: return v1::EVALUATE_MODE_ROUTE;
    case EvaluateMode::kMeasure: return v1::EVALUATE_MODE_MEASURE;
    case EvaluateMode::kFinal: return v1::EVALUATE_MODE_FINAL;
    case EvaluateMode::kForecast: return v1::EVALUATE_MODE_FORECAST;
  }
  return v1::EVALUATE_MODE_UNSPECIFIED;
}

absl::StatusOr<EvaluateMode> FromProto(v1::EvaluateMode mode) {
  switch (mode) {
    case v1::EVALUATE_MODE_UNSPECIFIED:
    case v1::EVALUATE_MODE_ROUTE: return EvaluateMode::kRoute;
    case v1::EVALUATE_MODE_MEASURE: return EvaluateMode::kMeasure;
    case v1::EVALUATE_MODE_FINAL: return EvaluateMode::kFinal;
    case v1::EVALUATE_MODE_FORECAST: return EvaluateMode::kForecast;
    default: break;
  }
  return absl::InvalidArgumentError(absl::StrCat("mode: is ", static_cast<int>(mode),
                                                 "; route, measure, final or forecast is "
                                                 "allowed"));
}

}  // namespace kernelcast::orchestrator
