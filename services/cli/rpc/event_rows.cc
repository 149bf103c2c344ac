#include "services/cli/rpc/event_rows.h"

#include <string>
#include <utility>

#include "common/convert/convert.h"
#include "common/domain/decision.h"

namespace kernelcast::cli {
namespace {

RowJson ForecastPayload(const v1::CandidateForecast& event) {
  const v1::Forecast& forecast = event.forecast();
  RowJson payload = {{"candidate_id", event.candidate_id()},
                     {"request_id", event.request_id()},
                     {"surrogate_label", forecast.backend() + " " + forecast.backend_version()},
                     {"calibrator_version", forecast.calibrator_version()},
                     {"bin_scheme_id", forecast.bin_scheme_id()},
                     {"predicted_bin", forecast.predicted_bin()}};
  RowJson& list = payload["bin_probabilities"] = RowJson::array();
  for (int i = 0; i < forecast.bin_probabilities_size(); ++i) {
    list.push_back({{"bin", i + 1}, {"p", forecast.bin_probabilities(i)}});
  }
  payload["failure_probability"] = forecast.failure_probability();
  payload["expected_log2_speedup"] = forecast.expected_log2_speedup();
  payload["basis"] = std::string(Name(FromProto(forecast).basis));
  payload["baseline_candidate_id"] = forecast.baseline_candidate_id();
  return payload;
}

// Returns e.g. "low_confidence", or "" for an invalid decision.
std::string ReasonName(const v1::Decision& decision) {
  const auto converted = FromProto(decision);
  return converted.ok() ? std::string(Name(converted->reason)) : std::string();
}

}  // namespace

SearchEventRow& EventRowMaker::Add(const char* kind, RowJson payload,
                                   std::vector<SearchEventRow>& rows) {
  SearchEventRow& row = rows.emplace_back();
  row.event_index = next_index_++;
  row.event_kind = kind;
  row.payload = std::move(payload);
  return row;
}

void EventRowMaker::AddSettled(const v1::Evaluation& evaluation,
                               std::vector<SearchEventRow>& rows) {
  RowJson payload = {{"candidate_id", evaluation.candidate_id()},
                     {"request_id", evaluation.request_id()}};
  if (evaluation.has_measured()) {
    // The format has no event for a check.
    if (evaluation.measured().level() == v1::MEASURE_LEVEL_CHECK) return;
    const auto measurement = FromProto(evaluation.measured());
    payload["hardware"] = evaluation.measured().device().model();
    payload["reused"] = evaluation.reused();
    if (evaluation.measured().has_ok()) {
      const v1::Ratio& speedup = evaluation.measured().ok().speedup();
      payload["aggregated_speedup"] = speedup.value();
      payload["speedup_low"] = speedup.low();
      payload["speedup_high"] = speedup.high();
      if (measurement.ok()) {
        for (const MeasurementNote note : std::get<MeasuredOk>(measurement->outcome).notes) {
          payload["notes"].push_back(std::string(Name(note)));
        }
      }
      Add("evaluation_completed", std::move(payload), rows);
      return;
    }
    payload["outcome"] =
        measurement.ok() ? std::string(OutcomeName(measurement->outcome)) : std::string("unknown");
    payload["candidate_failed"] = !evaluation.measured().has_environment_unstable();
  } else if (evaluation.has_rejected()) {
    payload["outcome"] = ReasonName(evaluation.decision());
    payload["candidate_failed"] = evaluation.rejected().has_compile_error();
  } else {
    // Settled on the forecast: already reported by the decision.
    return;
  }
  Add("evaluation_failed", std::move(payload), rows);
}

std::vector<SearchEventRow> EventRowMaker::Rows(const v1::SearchEvent& event) {
  std::vector<SearchEventRow> rows;
  switch (event.event_case()) {
    case v1::SearchEvent::kStarted: {
      const v1::SearchSpec& spec = event.started().spec();
      Add("search_initialized",
          {{"search_id", search_.search_id()},
           {"problem", search_.problem_name()},
           {"problem_id", spec.problem_id()},
           {"target", spec.target()},
           {"policy", spec.policy()},
           {"seed", spec.seed()}},
          rows);
      break;
    }
    case v1::SearchEvent::kProposed:
      Add("mutation_completed",
          {{"candidate_id", event.proposed().candidate_id()},
           {"request_id", event.proposed().request_id()},
           {"origin", event.proposed().origin()}},
          rows);
      break;
    case v1::SearchEvent::kGeneration:
      // A written kernel has an event of its own when it is proposed.
      if (event.generation().outcome() != v1::GENERATION_OUTCOME_WRITTEN) {
        Add("mutation_failed",
            {{"number", event.generation().number()},
             {"outcome", v1::GenerationOutcome_Name(event.generation().outcome())},
             {"detail", event.generation().detail()},
             {"parent_candidate_id", event.generation().parent_candidate_id()}},
            rows);
      }
      break;
    case v1::SearchEvent::kForecast:
      Add("forecast_completed", ForecastPayload(event.forecast()), rows);
      break;
    case v1::SearchEvent::kDecided: {
      const v1::Decision& decision = event.decided().decision();
      if (decision.kind() == v1::DECISION_KIND_REJECT) break;
      const bool measured = decision.kind() == v1::DECISION_KIND_MEASURE;
      Add(measured ? "candidate_selected" : "candidate_deferred",
          {{"candidate_id", event.decided().candidate_id()},
           {"request_id", event.decided().request_id()},
           {"decision", measured ? "measure" : "prune"},
           {"reason", ReasonName(decision)},
           {"win_probability", decision.win_probability()},
           {"threshold", decision.threshold()},
           {"audit_propensity", decision.audit_propensity()}},
          rows);
      break;
    }
    case v1::SearchEvent::kSettled: AddSettled(event.settled(), rows); break;
    case v1::SearchEvent::kEnded: {
      const RowJson payload = {{"reason", event.ended().reason()},
                               {"best_candidate_id", event.ended().best_candidate_id()},
                               {"best_speedup", event.ended().best_speedup().value()}};
      // Sent once when nothing more is proposed, and again when everything is settled.
      if (event.status() == v1::SEARCH_STATUS_FINISHING) {
        Add("mutations_drained", payload, rows);
        Add("forecasts_drained", payload, rows);
      } else {
        Add("evaluations_drained", payload, rows);
      }
      break;
    }
    default: break;
  }
  return rows;
}

}  // namespace kernelcast::cli
