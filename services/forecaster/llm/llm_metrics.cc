#include "services/forecaster/llm/llm_metrics.h"

#include <utility>

namespace kernelcast::forecaster {
namespace {

std::string_view Name(CacheUse use) {
  switch (use) {
    case CacheUse::kHit: return "hit";
    case CacheUse::kMiss: return "miss";
    case CacheUse::kCoalesced: return "coalesced";
  }
  return "miss";
}

std::string_view Name(RungOutcome outcome) {
  switch (outcome) {
    case RungOutcome::kAnswered: return "answered";
    case RungOutcome::kUnparsable: return "unparsable";
    case RungOutcome::kRefused: return "refused";
    case RungOutcome::kNoVerdict: return "no_verdict";
  }
  return "no_verdict";
}

std::string_view Name(Abstention::Cause cause) {
  switch (cause) {
    case Abstention::Cause::kModelDeferred: return "deferred";
    case Abstention::Cause::kUnparsable: return "unparsable";
    case Abstention::Cause::kEndpointUnavailable: return "unavailable";
    case Abstention::Cause::kBudget: return "budget";
    case Abstention::Cause::kNotCovered: return "not_covered";
  }
  return "unavailable";
}

constexpr CacheUse kCacheUses[] = {CacheUse::kHit, CacheUse::kMiss, CacheUse::kCoalesced};
constexpr RungOutcome kRungOutcomes[] = {RungOutcome::kAnswered, RungOutcome::kUnparsable,
                                         RungOutcome::kRefused};
constexpr Abstention::Cause kCauses[] = {
    Abstention::Cause::kModelDeferred, Abstention::Cause::kUnparsable,
    Abstention::Cause::kEndpointUnavailable, Abstention::Cause::kBudget,
    Abstention::Cause::kNotCovered};

constexpr llm::EndpointMetricNames kEndpointNames = {
    .calls = "kernelcast_forecaster_llm_calls_total",
    .queue_wait = "kernelcast_forecaster_llm_queue_wait_seconds",
    .pending = "kernelcast_forecaster_llm_pending_calls",
    .queued = "kernelcast_forecaster_llm_queued_calls",
    .pending_bytes = "kernelcast_forecaster_llm_pending_bytes",
    .overloaded = "kernelcast_forecaster_llm_calls_overloaded_total",
    .retries_denied = "kernelcast_forecaster_llm_retries_denied_total",
    .attempts = "kernelcast_forecaster_llm_attempts_total",
    .retries = "kernelcast_forecaster_llm_retries_total",
    .hedges = "kernelcast_forecaster_llm_hedges_total",
    .hedges_won = "kernelcast_forecaster_llm_hedges_won_total",
    .tokens = "kernelcast_forecaster_llm_tokens_total",
    .answers_without_usage = "kernelcast_forecaster_llm_answers_without_usage_total",
    .cost = "kernelcast_forecaster_llm_cost_total",
    .in_flight = "kernelcast_forecaster_llm_in_flight",
    .limit = "kernelcast_forecaster_llm_concurrency_limit",
    .breaker = "kernelcast_forecaster_llm_breaker_state",
    .breaker_changes = "kernelcast_forecaster_llm_breaker_changes_total",
    .latency = "kernelcast_forecaster_llm_attempt_duration_seconds",
    .first_token = "kernelcast_forecaster_llm_first_token_seconds",
};

}  // namespace

LlmMetrics::LlmMetrics(MetricsRegistry& registry, const std::vector<std::string>& endpoints)
    : EndpointMetrics(registry, kEndpointNames, endpoints) {
  constexpr const char* kQuestions = "kernelcast_forecaster_llm_questions_total";
  constexpr const char* kQuestionsHelp = "Questions to the llm backend, by result";
  forecasts_ = &registry.Counter(kQuestions, kQuestionsHelp, {{"result", "forecast"}});
  for (const Abstention::Cause cause : kCauses) {
    abstentions_[cause] =
        &registry.Counter(kQuestions, kQuestionsHelp, {{"result", std::string(Name(cause))}});
  }
  for (const CacheUse use : kCacheUses) {
    cache_[use] = &registry.Counter("kernelcast_forecaster_llm_cache_total",
                                    "Questions, by whether the answer was cached or in progress",
                                    {{"use", std::string(Name(use))}});
  }
  for (const Rung rung : kRungs) {
    for (const RungOutcome outcome : kRungOutcomes) {
      answers_[{rung, outcome}] = &registry.Counter(
          "kernelcast_forecaster_llm_answers_total", "Answers of endpoints, by requested format",
          {{"rung", std::string(forecaster::Name(rung))}, {"outcome", std::string(Name(outcome))}});
    }
  }
  for (const AnswerFault fault : kAnswerFaults) {
    faults_[fault] =
        &registry.Counter("kernelcast_forecaster_llm_faults_total", "Unreadable answers, by fault",
                          {{"fault", std::string(forecaster::Name(fault))}});
  }
  for (const Repair repair : kRepairs) {
    repairs_[repair] = &registry.Counter("kernelcast_forecaster_llm_repairs_total",
                                         "Readable answers that had to be mended, by repair",
                                         {{"repair", std::string(kernelcast::Name(repair))}});
  }
  probability_sum_ =
      &registry.Histogram("kernelcast_forecaster_llm_probability_sum",
                          "Sum of an answer's probabilities before they were scaled",
                          {0.5, 0.75, 0.9, 0.95, 0.98, 0.999, 1.001, 1.02, 1.05, 1.1, 1.25, 1.5});
}

void LlmMetrics::Forecasted() { forecasts_->Increment(); }

void LlmMetrics::Abstained(Abstention::Cause cause) { abstentions_.at(cause)->Increment(); }

void LlmMetrics::Cache(CacheUse use) { cache_.at(use)->Increment(); }

void LlmMetrics::Answered(Rung rung, RungOutcome outcome) {
  if (const auto found = answers_.find({rung, outcome}); found != answers_.end()) {
    found->second->Increment();
  }
}

void LlmMetrics::Faulted(AnswerFault fault) {
  if (const auto found = faults_.find(fault); found != faults_.end()) found->second->Increment();
}

void LlmMetrics::Mended(Repair repair) { repairs_.at(repair)->Increment(); }

void LlmMetrics::ProbabilitySum(double raw_sum) { probability_sum_->Observe(raw_sum); }

}  // namespace kernelcast::forecaster
