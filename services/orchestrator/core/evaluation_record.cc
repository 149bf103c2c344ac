// Records of settled evaluations, and texts about them.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/orchestrator/core/state.h"

namespace kernelcast::orchestrator {

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
  record.unstable_time = evaluation.unstable_time;
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
    } else if (const auto* repeated = std::get_if<MeasurementRepeated>(&body)) {
      record.unstable_time += repeated->time;
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

}  // namespace kernelcast::orchestrator
