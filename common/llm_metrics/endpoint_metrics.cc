#include "common/llm_metrics/endpoint_metrics.h"

#include <utility>

namespace kernelcast::llm {
namespace {

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

std::vector<double> AnswerBounds() {
  return {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300};
}

}  // namespace

EndpointMetrics::EndpointMetrics(MetricsRegistry& registry, const EndpointMetricNames& names,
                                 const std::vector<std::string>& endpoints) {
  for (const std::string& name : endpoints) {
    Endpoint endpoint;
    const Labels labels = {{"endpoint", name}};
    const auto with = [&labels](const char* key, std::string_view value) {
      Labels more = labels;
      more[key] = std::string(value);
      return more;
    };
    for (int kind = 0; kind < kErrorKindCount; ++kind) {
      const std::string_view word = kind == 0 ? "ok" : ErrorKindName(static_cast<ErrorKind>(kind));
      endpoint.attempts[kind] = &registry.Counter(
          names.attempts, "Requests sent to an endpoint, by how they ended", with("result", word));
      if (kind == 0) continue;
      endpoint.retries[kind] = &registry.Counter(
          names.retries, "Further attempts, by what had failed", with("reason", word));
    }
    endpoint.hedges =
        &registry.Counter(names.hedges, "Second requests because the first was slow", labels);
    constexpr const char* kTokensHelp =
        "Tokens as the endpoint counts them; cached ones are also input";
    endpoint.input_tokens = &registry.Counter(names.tokens, kTokensHelp, with("kind", "input"));
    endpoint.cached_tokens =
        &registry.Counter(names.tokens, kTokensHelp, with("kind", "cached_input"));
    endpoint.output_tokens = &registry.Counter(names.tokens, kTokensHelp, with("kind", "output"));
    endpoint.cost =
        &registry.Counter(names.cost, "Cost by the configured prices, in their currency", labels);
    endpoint.in_flight =
        &registry.Gauge(names.in_flight, "Requests under way at an endpoint", labels);
    endpoint.limit =
        &registry.Gauge(names.limit, "Requests that an endpoint is given at once", labels);
    endpoint.breaker =
        &registry.Gauge(names.breaker, "0 closed, 1 open, 2 trying one request", labels);
    endpoint.latency = &registry.Histogram(
        names.latency, "Time of a request from being sent to its end", AnswerBounds(), labels);
    endpoint.first_token = &registry.Histogram(
        names.first_token, "Time of a request from being sent to its first token", AnswerBounds(),
        labels);
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

void EndpointMetrics::OnUsage(int endpoint, const TokenUsage& usage, double cost) {
  Endpoint& counters = endpoints_[endpoint];
  counters.input_tokens->Increment(static_cast<double>(usage.prompt_tokens));
  counters.cached_tokens->Increment(static_cast<double>(usage.cached_prompt_tokens));
  counters.output_tokens->Increment(static_cast<double>(usage.completion_tokens));
  counters.cost->Increment(cost);
}

void EndpointMetrics::OnBreaker(int endpoint, BreakerState state) {
  endpoints_[endpoint].breaker->Set(static_cast<double>(state));
}

void EndpointMetrics::OnConcurrency(int endpoint, int in_flight, int limit) {
  endpoints_[endpoint].in_flight->Set(in_flight);
  endpoints_[endpoint].limit->Set(limit);
}

}  // namespace kernelcast::llm
