#include "services/orchestrator/rpc/metrics.h"

#include "common/domain/decision.h"
#include "common/domain/measurement.h"

namespace kernelcast::orchestrator {
namespace {

constexpr const char* kTargets[] = {"cpu", "cuda", "a100", "l40s", "h100", "h200", "other"};
constexpr const char* kOutcomes[] = {"ok",      "wrong_result",         "crash",  "timeout",
                                     "exploit", "environment_unstable", "pruned", "rejected"};
constexpr DecisionReason kReasons[] = {
    DecisionReason::kLowConfidence, DecisionReason::kPromising,    DecisionReason::kAudit,
    DecisionReason::kNoForecast,    DecisionReason::kRequested,    DecisionReason::kBootstrap,
    DecisionReason::kReused,        DecisionReason::kUnpromising,  DecisionReason::kBudgetPace,
    DecisionReason::kLikelyFailure, DecisionReason::kForecastOnly, DecisionReason::kCompileError,
    DecisionReason::kDuplicate,     DecisionReason::kBudget,       DecisionReason::kCancelled,
    DecisionReason::kUnavailable,
};

}  // namespace

OrchestratorMetrics::OrchestratorMetrics(MetricsRegistry* registry)
    : in_flight_(registry->Gauge("kernelcast_orchestrator_candidates_in_flight",
                                 "Evaluations accepted and not settled.")),
      events_(registry->Gauge("kernelcast_orchestrator_log_events", "Events in the log.")),
      running_searches_(registry->Gauge("kernelcast_orchestrator_running_searches",
                                        "Searches that have not ended.")),
      pending_labels_(registry->Gauge("kernelcast_orchestrator_pending_labels",
                                      "Labels that the forecaster has not acknowledged.")),
      generations_in_flight_(registry->Gauge("kernelcast_orchestrator_generations_in_flight",
                                             "Kernels that a model is being asked for.")) {
  for (const GenerationOutcome outcome : kGenerationOutcomes) {
    generations_[outcome] =
        &registry->Counter("kernelcast_orchestrator_generations_total",
                           "Requests to a model for a kernel, by what came of them.",
                           {{"outcome", std::string(orchestrator::Name(outcome))}});
  }
  for (const char* kind : {"input", "cached_input", "output"}) {
    generation_tokens_[kind] = &registry->Counter(
        "kernelcast_orchestrator_generation_tokens_total",
        "Tokens of those requests; cached ones are also input.", {{"kind", kind}});
  }
  for (const char* target : kTargets) {
    PerTarget& series = targets_[target];
    for (DecisionReason reason : kReasons) {
      series.decisions[reason] = &registry->Counter(
          "kernelcast_orchestrator_decisions_total", "Decisions by kind and reason.",
          {{"gpu_model", target},
           {"decision", std::string(Name(KindOf(reason)))},
           {"reason", std::string(Name(reason))}});
    }
    for (const char* outcome : kOutcomes) {
      series.settled[outcome] = &registry->Counter("kernelcast_orchestrator_candidates_total",
                                                   "Evaluations settled, by outcome.",
                                                   {{"gpu_model", target}, {"outcome", outcome}});
    }
    const Labels labels = {{"gpu_model", target}};
    series.device_seconds_spent =
        &registry->Counter("kernelcast_orchestrator_gpu_seconds_spent_total",
                           "Time that timing leases were held.", labels);
    series.device_seconds_avoided = &registry->Counter(
        "kernelcast_orchestrator_gpu_seconds_avoided_total",
        "Pruned evaluations times the mean cost of a measured one so far.", labels);
    series.prunable =
        &registry->Counter("kernelcast_orchestrator_prunable_total",
                           "Candidates that were pruned, or audited instead.", labels);
    series.prunable_winners = &registry->Counter(
        "kernelcast_orchestrator_prunable_winners_total",
        "Those of them that were faster than the incumbent, estimated from audits.", labels);
    series.audits =
        &registry->Counter("kernelcast_orchestrator_audits_total",
                           "Candidates measured although they would be pruned.", labels);
  }
}

OrchestratorMetrics::PerTarget& OrchestratorMetrics::For(const std::string& target) {
  auto found = targets_.find(target);
  return found != targets_.end() ? found->second : targets_.find("other")->second;
}

void OrchestratorMetrics::OnDecided(const Evaluation& evaluation, const Decision& decision) {
  PerTarget& series = For(evaluation.candidate.target);
  series.decisions.at(decision.reason)->Increment();
  if (decision.reason == DecisionReason::kAudit) series.audits->Increment();
  if (decision.reason == DecisionReason::kAudit ||
      decision.reason == DecisionReason::kUnpromising ||
      decision.reason == DecisionReason::kLikelyFailure) {
    series.prunable->Increment();
  }
}

void OrchestratorMetrics::OnSettled(const Evaluation& evaluation,
                                    const EvaluationSettled& settled) {
  PerTarget& series = For(evaluation.candidate.target);
  if (const auto* measurement = std::get_if<Measurement>(&settled.result)) {
    series.settled.at(std::string(OutcomeName(measurement->outcome)))->Increment();
    if (settled.reused) return;
    const double seconds = static_cast<double>(measurement->device_time_ns) * 1e-9;
    series.device_seconds_spent->Increment(seconds);
    series.measured += 1;
    series.device_seconds += seconds;
    const Decision& decision = *evaluation.decision;
    const Ratio* const speedup = MeasuredSpeedup(*measurement);
    if (decision.reason == DecisionReason::kAudit && speedup != nullptr &&
        speedup->value > decision.incumbent_speedup) {
      series.prunable_winners->Increment(1 / decision.audit_propensity);
    }
  } else if (std::holds_alternative<Pruned>(settled.result)) {
    series.settled.at("pruned")->Increment();
    if (series.measured > 0) {
      series.device_seconds_avoided->Increment(series.device_seconds / series.measured);
    }
  } else {
    series.settled.at("rejected")->Increment();
  }
}

void OrchestratorMetrics::OnGenerated(const GenerationSettled& settled) {
  generations_.at(settled.outcome)->Increment();
  const GenerationUsage& usage = settled.usage;
  generation_tokens_.at("input")->Increment(static_cast<double>(usage.input_tokens));
  generation_tokens_.at("cached_input")->Increment(static_cast<double>(usage.cached_input_tokens));
  generation_tokens_.at("output")->Increment(static_cast<double>(usage.output_tokens));
}

void OrchestratorMetrics::OnFigures(const EngineFigures& figures) {
  in_flight_.Set(static_cast<double>(figures.live_evaluations));
  events_.Set(static_cast<double>(figures.events));
  running_searches_.Set(static_cast<double>(figures.running_searches));
  pending_labels_.Set(static_cast<double>(figures.pending_labels));
  generations_in_flight_.Set(static_cast<double>(figures.live_generations));
}

}  // namespace kernelcast::orchestrator
