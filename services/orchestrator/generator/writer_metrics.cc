#include "services/orchestrator/generator/writer_metrics.h"

namespace kernelcast::orchestrator {
namespace {

constexpr llm::EndpointMetricNames kEndpointNames = {
    .calls = "kernelcast_orchestrator_llm_calls_total",
    .queue_wait = "kernelcast_orchestrator_llm_queue_wait_seconds",
    .pending = "kernelcast_orchestrator_llm_pending_calls",
    .queued = "kernelcast_orchestrator_llm_queued_calls",
    .pending_bytes = "kernelcast_orchestrator_llm_pending_bytes",
    .overloaded = "kernelcast_orchestrator_llm_calls_overloaded_total",
    .retries_denied = "kernelcast_orchestrator_llm_retries_denied_total",
    .attempts = "kernelcast_orchestrator_llm_attempts_total",
    .retries = "kernelcast_orchestrator_llm_retries_total",
    .hedges = "kernelcast_orchestrator_llm_hedges_total",
    .hedges_won = "kernelcast_orchestrator_llm_hedges_won_total",
    .tokens = "kernelcast_orchestrator_llm_tokens_total",
    .answers_without_usage = "kernelcast_orchestrator_llm_answers_without_usage_total",
    .cost = "kernelcast_orchestrator_llm_cost_total",
    .in_flight = "kernelcast_orchestrator_llm_in_flight",
    .limit = "kernelcast_orchestrator_llm_concurrency_limit",
    .breaker = "kernelcast_orchestrator_llm_breaker_state",
    .breaker_changes = "kernelcast_orchestrator_llm_breaker_changes_total",
    .latency = "kernelcast_orchestrator_llm_attempt_duration_seconds",
    .first_token = "kernelcast_orchestrator_llm_first_token_seconds",
};

}  // namespace

WriterMetrics::WriterMetrics(MetricsRegistry& registry, const std::vector<std::string>& endpoints)
    : EndpointMetrics(registry, kEndpointNames, endpoints) {
  for (const ReadFault fault : kReadFaults) {
    faults_[fault] = &registry.Counter("kernelcast_orchestrator_generation_faults_total",
                                       "Answers from which no kernel could be read.",
                                       {{"fault", std::string(Name(fault))}});
  }
  for (const Repair repair : kRepairs) {
    repairs_[repair] =
        &registry.Counter("kernelcast_orchestrator_generation_repairs_total",
                          "Answers that had to be mended to read a kernel, by repair",
                          {{"repair", std::string(kernelcast::Name(repair))}});
  }
}

void WriterMetrics::Mended(Repair repair) { repairs_.at(repair)->Increment(); }

void WriterMetrics::Faulted(ReadFault fault) {
  if (const auto found = faults_.find(fault); found != faults_.end()) found->second->Increment();
}

}  // namespace kernelcast::orchestrator
