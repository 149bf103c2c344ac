#include "services/orchestrator/convert/event.h"

#include <utility>
#include <variant>

#include "common/base/status.h"
#include "common/convert/convert.h"
#include "services/orchestrator/convert/convert.h"

namespace kernelcast::orchestrator {

using ::kernelcast::FromProto;
using ::kernelcast::ToProto;

namespace {

Rejection RejectionFromProto(const v1::Rejection& message, absl::Status& status) {
  Rejection rejection;
  switch (message.cause_case()) {
    case v1::Rejection::kCompileError: {
      rejection.cause = Rejection::Cause::kCompileError;
      auto error = FromProto(message.compile_error());
      if (error.ok()) {
        rejection.compile_error = *std::move(error);
      } else {
        status = error.status();
      }
      break;
    }
    case v1::Rejection::kDuplicateOfRequestId:
      rejection.cause = Rejection::Cause::kDuplicate;
      rejection.detail = message.duplicate_of_request_id();
      break;
    case v1::Rejection::kBudget:
      rejection.cause = Rejection::Cause::kBudget;
      rejection.detail = message.budget();
      break;
    case v1::Rejection::kUnavailable:
      rejection.cause = Rejection::Cause::kUnavailable;
      rejection.detail = message.unavailable();
      break;
    case v1::Rejection::kCancelled:
      rejection.cause = Rejection::Cause::kCancelled;
      rejection.detail = message.cancelled();
      break;
    case v1::Rejection::CAUSE_NOT_SET: status = absl::DataLossError("rejected: no cause"); break;
  }
  return rejection;
}

// One overload per event. Each fills its arm of the oneof.
struct EventWriter {
  v1::Event& out;

  void operator()(const ProblemPut& event) const {
    auto* files = out.mutable_problem_put()->mutable_problem();
    for (const ProblemFile& file : event.files) {
      auto* added = files->add_files();
      added->set_path(file.path);
      added->set_content(file.content);
    }
  }
  void operator()(const ReferenceDescribed& event) const {
    auto* message = out.mutable_reference_described();
    message->set_problem_id(event.problem_id);
    message->set_target(event.target);
    *message->mutable_facts() = ToProto(event.facts);
    message->set_toolchain(event.toolchain);
    message->set_device_model(event.device_model);
  }
  void operator()(const SearchCreated& event) const {
    out.mutable_search_created()->set_search_id(event.search_id);
    *out.mutable_search_created()->mutable_spec() = ToProto(event.spec);
    out.mutable_search_created()->set_device_model(event.device_model);
  }
  void operator()(const DeviceChosen& event) const {
    out.mutable_device_chosen()->set_search_id(event.search_id);
    out.mutable_device_chosen()->set_request_id(event.request_id);
    out.mutable_device_chosen()->set_device_model(event.device_model);
  }
  void operator()(const MeasurementRepeated& event) const {
    auto* message = out.mutable_measurement_repeated();
    message->set_request_id(event.request_id);
    *message->mutable_device_time() = DurationToProto(event.time.device_time_ns);
    *message->mutable_preparation_time() = DurationToProto(event.time.preparation_time_ns);
  }
  void operator()(const PrunedRanked& event) const {
    auto* message = out.mutable_pruned_ranked();
    message->set_search_id(event.search_id);
    message->set_measurements(event.measurements);
    message->set_pruned(event.pruned);
    message->set_labels_seen(event.labels_seen);
    message->set_candidate_id(event.candidate_id);
  }
  void operator()(const EvaluationAccepted& event) const {
    auto* message = out.mutable_evaluation_accepted();
    message->set_request_id(event.request_id);
    message->set_search_id(event.search_id);
    message->set_mode(ToProto(event.mode));
    *message->mutable_candidate() = ToProto(event.candidate);
    message->set_generated(event.generated);
    message->set_wanted_device_model(event.wanted_device_model);
    message->set_device_model(event.device_model);
  }
  void operator()(const EvaluationCompiled& event) const {
    auto* message = out.mutable_evaluation_compiled();
    message->set_request_id(event.request_id);
    if (const auto* facts = std::get_if<CompileFacts>(&event.result)) {
      *message->mutable_facts() = ToProto(*facts);
      *message->mutable_artifact() = ToProto(event.artifact);
    } else {
      *message->mutable_error() = ToProto(std::get<CompileError>(event.result));
    }
  }
  void operator()(const EvaluationForecast& event) const {
    auto* message = out.mutable_evaluation_forecast();
    message->set_request_id(event.request_id);
    if (const auto* forecast = std::get_if<Forecast>(&event.result)) {
      *message->mutable_forecast() = ToProto(*forecast);
    } else {
      *message->mutable_abstention() = ToProto(std::get<Abstention>(event.result));
    }
  }
  void operator()(const EvaluationDecided& event) const {
    out.mutable_evaluation_decided()->set_request_id(event.request_id);
    *out.mutable_evaluation_decided()->mutable_decision() = ToProto(event.decision);
  }
  void operator()(const EvaluationSettled& event) const {
    auto* message = out.mutable_evaluation_settled();
    message->set_request_id(event.request_id);
    message->set_reused(event.reused);
    if (const auto* measurement = std::get_if<Measurement>(&event.result)) {
      *message->mutable_measured() = ToProto(*measurement);
    } else if (const auto* rejection = std::get_if<Rejection>(&event.result)) {
      *message->mutable_rejected() = ToProto(*rejection);
    } else {
      message->set_pruned(true);
    }
  }
  void operator()(const GenerationRequested& event) const {
    auto* message = out.mutable_generation_requested();
    message->set_search_id(event.search_id);
    message->set_number(event.number);
    message->set_parent_candidate_id(event.parent_candidate_id);
  }
  void operator()(const GenerationAdvised& event) const {
    out.mutable_generation_advised()->set_search_id(event.search_id);
    *out.mutable_generation_advised()->mutable_advice() = orchestrator::ToProto(event);
  }
  void operator()(const GenerationSettled& event) const {
    out.mutable_generation_settled()->set_search_id(event.search_id);
    *out.mutable_generation_settled()->mutable_generation() = orchestrator::ToProto(event);
  }
  void operator()(const LabelsObserved& event) const {
    for (const std::string& id : event.request_ids) {
      out.mutable_labels_observed()->add_request_ids(id);
    }
  }
  void operator()(const SearchFinishing& event) const {
    out.mutable_search_finishing()->set_search_id(event.search_id);
    out.mutable_search_finishing()->set_reason(event.reason);
  }
  void operator()(const SearchClosed& event) const {
    auto* message = out.mutable_search_closed();
    message->set_search_id(event.search_id);
    message->set_confirmed_request_id(event.confirmed_request_id);
    message->set_failed(event.failed);
    message->set_reason(event.reason);
  }
};

// Fields of a Generation and of an Advice about the call of the model.
template <class Message, class Body>
void ReadModelCall(const Message& message, Body& body) {
  body.prompt_version = message.prompt_version();
  body.model = message.model();
  body.endpoint = message.endpoint();
  body.usage.input_tokens = message.input_tokens();
  body.usage.cached_input_tokens = message.cached_input_tokens();
  body.usage.output_tokens = message.output_tokens();
  body.usage.estimated = message.tokens_estimated();
  body.usage.cost = message.cost();
  body.latency_ns = ToNanoseconds(message.latency());
}

GenerationAdvised AdviceFromProto(const v1::Advice& message) {
  GenerationAdvised advised;
  advised.number = message.number();
  advised.advice = message.text();
  advised.detail = message.detail();
  ReadModelCall(message, advised);
  return advised;
}

absl::StatusOr<GenerationSettled> GenerationFromProto(const v1::Generation& message) {
  GenerationSettled settled;
  switch (message.outcome()) {
    case v1::GENERATION_OUTCOME_WRITTEN: settled.outcome = GenerationOutcome::kWritten; break;
    case v1::GENERATION_OUTCOME_DUPLICATE: settled.outcome = GenerationOutcome::kDuplicate; break;
    case v1::GENERATION_OUTCOME_UNUSABLE: settled.outcome = GenerationOutcome::kUnusable; break;
    case v1::GENERATION_OUTCOME_UNANSWERED: settled.outcome = GenerationOutcome::kUnanswered; break;
    default: return absl::DataLossError("generation: no outcome");
  }
  settled.number = message.number();
  settled.detail = message.detail();
  settled.parent_candidate_id = message.parent_candidate_id();
  ReadModelCall(message, settled);
  return settled;
}

absl::StatusOr<EventBody> BodyFromProto(const v1::Event& event) {
  switch (event.event_case()) {
    case v1::Event::kProblemPut: {
      ProblemPut body;
      for (const auto& file : event.problem_put().problem().files()) {
        body.files.push_back(ProblemFile{file.path(), file.content()});
      }
      return body;
    }
    case v1::Event::kReferenceDescribed: {
      const auto& message = event.reference_described();
      return ReferenceDescribed{message.problem_id(), message.target(), FromProto(message.facts()),
                                message.toolchain(), message.device_model()};
    }
    case v1::Event::kSearchCreated: {
      KC_ASSIGN_OR_RETURN(SearchSpec spec, FromProto(event.search_created().spec()));
      return SearchCreated{event.search_created().search_id(), std::move(spec),
                           event.search_created().device_model()};
    }
    case v1::Event::kDeviceChosen: {
      const auto& message = event.device_chosen();
      return DeviceChosen{message.search_id(), message.request_id(), message.device_model()};
    }
    case v1::Event::kMeasurementRepeated: {
      const auto& message = event.measurement_repeated();
      return MeasurementRepeated{
          message.request_id(),
          {ToNanoseconds(message.device_time()), ToNanoseconds(message.preparation_time())}};
    }
    case v1::Event::kPrunedRanked: {
      const auto& message = event.pruned_ranked();
      return PrunedRanked{message.search_id(), message.measurements(), message.pruned(),
                          message.labels_seen(), message.candidate_id()};
    }
    case v1::Event::kEvaluationAccepted: {
      const auto& message = event.evaluation_accepted();
      EvaluationAccepted body;
      body.request_id = message.request_id();
      body.search_id = message.search_id();
      KC_ASSIGN_OR_RETURN(body.mode, FromProto(message.mode()));
      KC_ASSIGN_OR_RETURN(body.candidate, FromProto(message.candidate()));
      body.generated = message.generated();
      body.wanted_device_model = message.wanted_device_model();
      body.device_model = message.device_model();
      return body;
    }
    case v1::Event::kEvaluationCompiled: {
      const auto& message = event.evaluation_compiled();
      EvaluationCompiled body;
      body.request_id = message.request_id();
      if (message.has_error()) {
        KC_ASSIGN_OR_RETURN(body.result, FromProto(message.error()));
      } else {
        body.result = FromProto(message.facts());
        if (message.has_artifact()) {
          KC_ASSIGN_OR_RETURN(body.artifact, FromProto(message.artifact()));
        }
      }
      return body;
    }
    case v1::Event::kEvaluationForecast: {
      const auto& message = event.evaluation_forecast();
      EvaluationForecast body;
      body.request_id = message.request_id();
      if (message.has_abstention()) {
        KC_ASSIGN_OR_RETURN(body.result, FromProto(message.abstention()));
      } else {
        body.result = FromProto(message.forecast());
      }
      return body;
    }
    case v1::Event::kEvaluationDecided: {
      const auto& message = event.evaluation_decided();
      KC_ASSIGN_OR_RETURN(Decision decision, FromProto(message.decision()));
      return EvaluationDecided{message.request_id(), std::move(decision)};
    }
    case v1::Event::kEvaluationSettled: {
      const auto& message = event.evaluation_settled();
      EvaluationSettled body;
      body.request_id = message.request_id();
      body.reused = message.reused();
      if (message.has_measured()) {
        KC_ASSIGN_OR_RETURN(body.result, FromProto(message.measured()));
      } else if (message.has_rejected()) {
        absl::Status status;
        body.result = RejectionFromProto(message.rejected(), status);
        KC_RETURN_IF_ERROR(status);
      } else {
        body.result = Pruned{};
      }
      return body;
    }
    case v1::Event::kGenerationRequested: {
      const auto& message = event.generation_requested();
      return GenerationRequested{message.search_id(), message.number(),
                                 message.parent_candidate_id()};
    }
    case v1::Event::kGenerationAdvised: {
      GenerationAdvised body = AdviceFromProto(event.generation_advised().advice());
      body.search_id = event.generation_advised().search_id();
      return body;
    }
    case v1::Event::kGenerationSettled: {
      KC_ASSIGN_OR_RETURN(GenerationSettled body,
                          GenerationFromProto(event.generation_settled().generation()));
      body.search_id = event.generation_settled().search_id();
      return body;
    }
    case v1::Event::kLabelsObserved: {
      const auto& ids = event.labels_observed().request_ids();
      return LabelsObserved{{ids.begin(), ids.end()}};
    }
    case v1::Event::kSearchFinishing:
      return SearchFinishing{event.search_finishing().search_id(),
                             event.search_finishing().reason()};
    case v1::Event::kSearchClosed: {
      const auto& message = event.search_closed();
      return SearchClosed{message.search_id(), message.confirmed_request_id(), message.failed(),
                          message.reason()};
    }
    case v1::Event::EVENT_NOT_SET: break;
  }
  return absl::DataLossError("an event of a kind that this version does not know");
}

}  // namespace

v1::Event ToProto(const Event& event) {
  v1::Event message;
  message.set_time_ns(event.time_ns);
  std::visit(EventWriter{message}, event.body);
  return message;
}

absl::StatusOr<Event> FromProto(const v1::Event& event) {
  absl::StatusOr<EventBody> body = BodyFromProto(event);
  if (!body.ok()) {
    return absl::DataLossError(body.status().message());
  }
  return Event{event.time_ns(), *std::move(body)};
}

}  // namespace kernelcast::orchestrator
