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

constexpr llm::BreakerState kBreakerStates[] = {
    llm::BreakerState::kClosed, llm::BreakerState::kOpen, llm::BreakerState::kHalfOpen};

std::string_view Name(llm::ErrorKind kind) {
  return kind == llm::ErrorKind::kNone ? "ok" : llm::ErrorKindName(kind);
}

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

std::vector<double> AnswerBounds() {
  return {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300};
}

}  // namespace

LlmMetrics::LlmMetrics(MetricsRegistry& registry, const std::vector<std::string>& endpoints) {
  constexpr const char* kQuestions = "kernelcast_forecaster_llm_questions_total";
  constexpr const char* kQuestionsHelp = "Questions to the llm backend, by how they were settled";
  forecasts_ = &registry.Counter(kQuestions, kQuestionsHelp, {{"result", "forecast"}});
  for (const Abstention::Cause cause : kCauses) {
    abstentions_[cause] =
        &registry.Counter(kQuestions, kQuestionsHelp, {{"result", std::string(Name(cause))}});
  }
  for (const CacheUse use : kCacheUses) {
    cache_[use] = &registry.Counter("kernelcast_forecaster_llm_cache_total",
                                    "Questions, by whether their answer was known or under way",
                                    {{"use", std::string(Name(use))}});
  }
  for (const Rung rung : kRungs) {
    for (const RungOutcome outcome : kRungOutcomes) {
      answers_[{rung, outcome}] = &registry.Counter(
          "kernelcast_forecaster_llm_answers_total",
          "Answers of endpoints, by the form that was asked for",
          {{"rung", std::string(forecaster::Name(rung))}, {"outcome", std::string(Name(outcome))}});
    }
  }
  for (const AnswerFault fault : kAnswerFaults) {
    faults_[fault] = &registry.Counter("kernelcast_forecaster_llm_faults_total",
                                       "Answers that could not be read, by what was wrong",
                                       {{"fault", std::string(forecaster::Name(fault))}});
  }
  probability_sum_ =
      &registry.Histogram("kernelcast_forecaster_llm_probability_sum",
                          "Sum of an answer's probabilities before they were scaled",
                          {0.5, 0.75, 0.9, 0.95, 0.98, 0.999, 1.001, 1.02, 1.05, 1.1, 1.25, 1.5});
  for (int kind = 0; kind < llm::kErrorKindCount; ++kind) {
    calls_[kind] =
        &registry.Counter("kernelcast_forecaster_llm_calls_total",
                          "Calls to the endpoints' client, by how they ended",
                          {{"result", std::string(Name(static_cast<llm::ErrorKind>(kind)))}});
  }
  queue_wait_ = &registry.Histogram("kernelcast_forecaster_llm_queue_wait_seconds",
                                    "Time that a call waited to be sent", AnswerBounds());
  pending_ =
      &registry.Gauge("kernelcast_forecaster_llm_pending_calls", "Calls that have not ended");
  queued_ = &registry.Gauge("kernelcast_forecaster_llm_queued_calls",
                            "Of these, calls without a request under way");
  pending_bytes_ = &registry.Gauge("kernelcast_forecaster_llm_pending_bytes",
                                   "Bytes of prompts of calls that have not ended");
  overloaded_ = &registry.Counter("kernelcast_forecaster_llm_calls_overloaded_total",
                                  "Calls not taken because too many were pending");
  retries_denied_ = &registry.Counter("kernelcast_forecaster_llm_retries_denied_total",
                                      "Retries and hedges that their budget did not allow");
  for (const std::string& name : endpoints) {
    Endpoint endpoint;
    const Labels labels = {{"endpoint", name}};
    const auto with = [&labels](const char* key, std::string_view value) {
      Labels more = labels;
      more[key] = std::string(value);
      return more;
    };
    for (int kind = 0; kind < llm::kErrorKindCount; ++kind) {
      const std::string_view word = Name(static_cast<llm::ErrorKind>(kind));
      endpoint.attempts[kind] = &registry.Counter("kernelcast_forecaster_llm_attempts_total",
                                                  "Requests sent to an endpoint, by how they ended",
                                                  with("result", word));
      if (kind == 0) continue;
      endpoint.retries[kind] =
          &registry.Counter("kernelcast_forecaster_llm_retries_total",
                            "Further attempts, by what had failed", with("reason", word));
    }
    endpoint.hedges = &registry.Counter("kernelcast_forecaster_llm_hedges_total",
                                        "Second requests because the first was slow", labels);
    endpoint.hedges_won = &registry.Counter("kernelcast_forecaster_llm_hedges_won_total",
                                            "Second requests that spoke before the first", labels);
    constexpr const char* kTokens = "kernelcast_forecaster_llm_tokens_total";
    constexpr const char* kTokensHelp =
        "Tokens as the endpoint counts them; cached ones are also input";
    endpoint.input_tokens = &registry.Counter(kTokens, kTokensHelp, with("kind", "input"));
    endpoint.cached_tokens = &registry.Counter(kTokens, kTokensHelp, with("kind", "cached_input"));
    endpoint.output_tokens = &registry.Counter(kTokens, kTokensHelp, with("kind", "output"));
    endpoint.cost = &registry.Counter("kernelcast_forecaster_llm_cost_total",
                                      "Cost by the configured prices, in their currency", labels);
    endpoint.answers_without_usage =
        &registry.Counter("kernelcast_forecaster_llm_answers_without_usage_total",
                          "Answers that did not say how many tokens they took", labels);
    endpoint.in_flight = &registry.Gauge("kernelcast_forecaster_llm_in_flight",
                                         "Requests under way at an endpoint", labels);
    endpoint.limit = &registry.Gauge("kernelcast_forecaster_llm_concurrency_limit",
                                     "Requests that an endpoint is given at once", labels);
    endpoint.breaker = &registry.Gauge("kernelcast_forecaster_llm_breaker_state",
                                       "0 closed, 1 open, 2 trying one request", labels);
    for (const llm::BreakerState state : kBreakerStates) {
      endpoint.breaker_changes[state] = &registry.Counter(
          "kernelcast_forecaster_llm_breaker_changes_total", "Changes of a breaker to a state",
          with("state", llm::BreakerStateName(state)));
    }
    endpoint.latency =
        &registry.Histogram("kernelcast_forecaster_llm_attempt_duration_seconds",
                            "Time of a request from being sent to its end", AnswerBounds(), labels);
    endpoint.first_token = &registry.Histogram(
        "kernelcast_forecaster_llm_first_token_seconds",
        "Time of a request from being sent to its first token", AnswerBounds(), labels);
    endpoints_.push_back(endpoint);
  }
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

void LlmMetrics::ProbabilitySum(double raw_sum) { probability_sum_->Observe(raw_sum); }

void LlmMetrics::OnAttempt(int endpoint, llm::ErrorKind result, int64_t latency_ns) {
  endpoints_[endpoint].attempts[static_cast<int>(result)]->Increment();
  endpoints_[endpoint].latency->Observe(Seconds(latency_ns));
}

void LlmMetrics::OnFirstToken(int endpoint, int64_t since_sent_ns) {
  endpoints_[endpoint].first_token->Observe(Seconds(since_sent_ns));
}

void LlmMetrics::OnRetry(int endpoint, llm::ErrorKind reason) {
  if (reason == llm::ErrorKind::kNone) return;
  endpoints_[endpoint].retries[static_cast<int>(reason)]->Increment();
}

void LlmMetrics::OnHedge(int endpoint) { endpoints_[endpoint].hedges->Increment(); }

void LlmMetrics::OnHedgeWon(int endpoint) { endpoints_[endpoint].hedges_won->Increment(); }

void LlmMetrics::OnUsage(int endpoint, const llm::TokenUsage& usage, double cost) {
  Endpoint& counters = endpoints_[endpoint];
  if (!usage.known) counters.answers_without_usage->Increment();
  counters.input_tokens->Increment(static_cast<double>(usage.prompt_tokens));
  counters.cached_tokens->Increment(static_cast<double>(usage.cached_prompt_tokens));
  counters.output_tokens->Increment(static_cast<double>(usage.completion_tokens));
  counters.cost->Increment(cost);
}

void LlmMetrics::OnBreaker(int endpoint, llm::BreakerState state) {
  endpoints_[endpoint].breaker->Set(static_cast<double>(state));
  endpoints_[endpoint].breaker_changes.at(state)->Increment();
}

void LlmMetrics::OnConcurrency(int endpoint, int in_flight, int limit) {
  endpoints_[endpoint].in_flight->Set(in_flight);
  endpoints_[endpoint].limit->Set(limit);
}

void LlmMetrics::OnCall(const llm::ChatOutcome& outcome) {
  calls_[static_cast<int>(outcome.error.kind)]->Increment();
  queue_wait_->Observe(Seconds(outcome.queued_ns));
}

void LlmMetrics::OnLoad(const llm::ClientLoad& load) {
  pending_->Set(static_cast<double>(load.calls_pending));
  queued_->Set(static_cast<double>(load.calls_queued));
  pending_bytes_->Set(static_cast<double>(load.pending_bytes));
  overloaded_->Increment(static_cast<double>(load.calls_overloaded - load_.calls_overloaded));
  retries_denied_->Increment(static_cast<double>(load.retries_denied - load_.retries_denied));
  load_ = load;
}

}  // namespace kernelcast::forecaster
