#include "common/llm_metrics/endpoint_metrics.h"

#include <utility>

namespace kernelcast::llm {
namespace {

constexpr BreakerState kBreakerStates[] = {BreakerState::kClosed, BreakerState::kOpen,
                                           BreakerState::kHalfOpen};

std::string_view Name(ErrorKind kind) {
  return kind == ErrorKind::kNone ? "ok" : ErrorKindName(kind);
}

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

std::vector<double> AnswerBounds() {
  return {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300};
}

}  // namespace

EndpointMetrics::EndpointMetrics(MetricsRegistry& registry, const EndpointMetricNames& names,
                                 const std::vector<std::string>& endpoints) {
  for (int kind = 0; kind < kErrorKindCount; ++kind) {
    calls_[kind] = &registry.Counter(names.calls, "Calls to the LLM client, by result",
                                     {{"result", std::string(Name(static_cast<ErrorKind>(kind)))}});
  }
  queue_wait_ = &registry.Histogram(names.queue_wait, "Time that a call waited before it was sent",
                                    AnswerBounds());
  pending_ = &registry.Gauge(names.pending, "Calls in progress");
  queued_ = &registry.Gauge(names.queued, "Calls in progress that wait for an endpoint");
  pending_bytes_ =
      &registry.Gauge(names.pending_bytes, "Bytes of the prompts of calls in progress");
  overloaded_ = &registry.Counter(names.overloaded, "Calls refused because too many were pending");
  retries_denied_ =
      &registry.Counter(names.retries_denied, "Retries and hedges denied by the retry budget");
  for (const std::string& name : endpoints) {
    Endpoint endpoint;
    const Labels labels = {{"endpoint", name}};
    const auto with = [&labels](const char* key, std::string_view value) {
      Labels more = labels;
      more[key] = std::string(value);
      return more;
    };
    for (int kind = 0; kind < kErrorKindCount; ++kind) {
      const std::string_view word = Name(static_cast<ErrorKind>(kind));
      endpoint.attempts[kind] = &registry.Counter(
          names.attempts, "Requests sent to an endpoint, by result", with("result", word));
      if (kind == 0) continue;
      endpoint.retries[kind] = &registry.Counter(
          names.retries, "Further attempts, by the error before", with("reason", word));
    }
    endpoint.hedges = &registry.Counter(
        names.hedges, "Hedges: second requests because the first was slow", labels);
    endpoint.hedges_won = &registry.Counter(
        names.hedges_won, "Hedges that answered before the first request", labels);
    constexpr const char* kTokensHelp =
        "Tokens as the endpoint counts them; cached ones are also input";
    endpoint.input_tokens = &registry.Counter(names.tokens, kTokensHelp, with("kind", "input"));
    endpoint.cached_tokens =
        &registry.Counter(names.tokens, kTokensHelp, with("kind", "cached_input"));
    endpoint.output_tokens = &registry.Counter(names.tokens, kTokensHelp, with("kind", "output"));
    endpoint.cost =
        &registry.Counter(names.cost, "Cost by the configured prices, in their currency", labels);
    endpoint.answers_without_usage =
        &registry.Counter(names.answers_without_usage, "Answers without token counts", labels);
    endpoint.in_flight =
        &registry.Gauge(names.in_flight, "Requests in progress at an endpoint", labels);
    endpoint.limit =
        &registry.Gauge(names.limit, "Limit of concurrent requests to an endpoint", labels);
    endpoint.breaker = &registry.Gauge(
        names.breaker, "State of the circuit breaker: 0 closed, 1 open, 2 trying one request",
        labels);
    for (const BreakerState state : kBreakerStates) {
      endpoint.breaker_changes[state] =
          &registry.Counter(names.breaker_changes, "Changes of a circuit breaker to a state",
                            with("state", BreakerStateName(state)));
    }
    endpoint.latency = &registry.Histogram(names.latency, "Time from sending a request to its end",
                                           AnswerBounds(), labels);
    endpoint.first_token =
        &registry.Histogram(names.first_token, "Time from sending a request to its first token",
                            AnswerBounds(), labels);
    endpoints_.push_back(endpoint);
  }
}

void EndpointMetrics::OnAttempt(int endpoint, ErrorKind result, int64_t latency_ns) {
  endpoints_[endpoint].attempts[static_cast<int>(result)]->Increment();
  endpoints_[endpoint].latency->Observe(Seconds(latency_ns));
}

void EndpointMetrics::OnFirstToken(int endpoint, int64_t since_sent_ns) {
  endpoints_[endpoint].first_token->Observe(Seconds(since_sent_ns));
}

void EndpointMetrics::OnRetry(int endpoint, ErrorKind reason) {
  if (reason == ErrorKind::kNone) return;
  endpoints_[endpoint].retries[static_cast<int>(reason)]->Increment();
}

void EndpointMetrics::OnHedge(int endpoint) { endpoints_[endpoint].hedges->Increment(); }

void EndpointMetrics::OnHedgeWon(int endpoint) { endpoints_[endpoint].hedges_won->Increment(); }

void EndpointMetrics::OnUsage(int endpoint, const TokenUsage& usage, double cost) {
  Endpoint& counters = endpoints_[endpoint];
  if (!usage.known) counters.answers_without_usage->Increment();
  counters.input_tokens->Increment(static_cast<double>(usage.prompt_tokens));
  counters.cached_tokens->Increment(static_cast<double>(usage.cached_prompt_tokens));
  counters.output_tokens->Increment(static_cast<double>(usage.completion_tokens));
  counters.cost->Increment(cost);
}

void EndpointMetrics::OnBreaker(int endpoint, BreakerState state) {
  endpoints_[endpoint].breaker->Set(static_cast<double>(state));
  endpoints_[endpoint].breaker_changes.at(state)->Increment();
}

void EndpointMetrics::OnConcurrency(int endpoint, int in_flight, int limit) {
  endpoints_[endpoint].in_flight->Set(in_flight);
  endpoints_[endpoint].limit->Set(limit);
}

void EndpointMetrics::OnCall(const ChatOutcome& outcome) {
  calls_[static_cast<int>(outcome.error.kind)]->Increment();
  queue_wait_->Observe(Seconds(outcome.queued_ns));
}

void EndpointMetrics::OnLoad(const ClientLoad& load) {
  pending_->Set(static_cast<double>(load.calls_pending));
  queued_->Set(static_cast<double>(load.calls_queued));
  pending_bytes_->Set(static_cast<double>(load.pending_bytes));
  overloaded_->Increment(static_cast<double>(load.calls_overloaded - load_.calls_overloaded));
  retries_denied_->Increment(static_cast<double>(load.retries_denied - load_.retries_denied));
  load_ = load;
}

}  // namespace kernelcast::llm
