// Tests the LLM client against a misbehaving endpoint over real sockets.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <mutex>
#include <random>
#include <set>
#include <stop_token>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/trace_context.h"
#include "common/tracing/tracer.h"
#include "tests/fakes/llm_endpoint/llm_endpoint.h"
#include "tests/integration/common/llm/llm_calls.h"
#include "tests/support/sanitized.h"

namespace kernelcast::testing {
namespace {

using llm::ErrorKind;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1000 * kMs;

std::unique_ptr<FakeLlmEndpoint> StartEndpoint(FakeEndpointOptions options = {}) {
  auto endpoint = FakeLlmEndpoint::Start(std::move(options));
  REQUIRE(endpoint.ok());
  return std::move(*endpoint);
}

// Short timeouts keep the tests quick.
template <class Endpoint>
llm::LlmConfig Config(const Endpoint& endpoint) {
  llm::LlmConfig config = *llm::ConfigForUrl(endpoint.url(), "fake");
  config.first_byte_timeout_ns = 300 * kMs;
  config.silence_timeout_ns = 300 * kMs;
  config.total_ns = 20 * kSecond;
  config.backoff_base_ns = kMs;
  config.backoff_cap_ns = 10 * kMs;
  config.max_attempts = 1;
  return config;
}

std::unique_ptr<llm::LlmClient> StartClient(const llm::LlmConfig& config) {
  auto client = llm::LlmClient::Create(config);
  REQUIRE(client.ok());
  return std::move(*client);
}

struct KeptSpans {
  std::mutex mutex;
  std::vector<SpanData> spans;
};

class SpansTo final : public SpanSink {
 public:
  explicit SpansTo(std::shared_ptr<KeptSpans> kept) : kept_(std::move(kept)) {}
  absl::Status Export(const std::vector<SpanData>& spans) override {
    const std::lock_guard lock(kept_->mutex);
    kept_->spans.insert(kept_->spans.end(), spans.begin(), spans.end());
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<KeptSpans> kept_;
};

int64_t Sum(const llm::ClientStats& stats) {
  int64_t sum = 0;
  for (const int64_t count : stats.calls_by_result) sum += count;
  return sum;
}

}  // namespace

TEST_CASE("Each endpoint fault ends as the expected answer or error", "[llm]") {
  FakeEndpointOptions options;
  options.answers = FixedAnswer("kernels are fast and wide");
  const auto endpoint = StartEndpoint(options);
  llm::LlmConfig config = Config(*endpoint);
  config.first_byte_timeout_ns = 2 * kSecond;
  config.silence_timeout_ns = 2 * kSecond;
  config.breaker_consecutive_failures = 1'000'000;
  config.breaker_min_samples = 1'000'000;
  config.breaker_open_ns = kMs;
  config.breaker_open_cap_ns = kMs;
  const auto client = StartClient(config);
  const std::map<Fault, std::set<ErrorKind>> expected = {
      {Fault::kNone, {ErrorKind::kNone}},
      {Fault::kRateLimit, {ErrorKind::kRateLimited}},
      {Fault::kSpendLimit, {ErrorKind::kSpendLimit}},
      {Fault::kServerError, {ErrorKind::kServerError}},
      {Fault::kUnavailable, {ErrorKind::kUnavailable}},
      {Fault::kBadRequest, {ErrorKind::kContextTooLong}},
      {Fault::kUnauthorized, {ErrorKind::kUnauthorized}},
      {Fault::kNotFound, {ErrorKind::kNotFound}},
      {Fault::kRedirect, {ErrorKind::kRefused}},
      {Fault::kErrorInStream, {ErrorKind::kServerError}},
      {Fault::kEmptyBody, {ErrorKind::kMalformed}},
      {Fault::kHtml, {ErrorKind::kMalformed}},
      {Fault::kGarbage, {ErrorKind::kMalformed}},
      {Fault::kReset, {ErrorKind::kCutOff}},
      {Fault::kHang, {ErrorKind::kFirstByteTimeout}},
      {Fault::kHangAfterHead, {ErrorKind::kFirstByteTimeout}},
      {Fault::kStall, {ErrorKind::kSilenceTimeout}},
      {Fault::kResetInStream, {ErrorKind::kCutOff}},
      {Fault::kHalfClosed, {ErrorKind::kCutOff}},
      {Fault::kTruncatedStream, {ErrorKind::kCutOff}},
      {Fault::kTruncatedJson, {ErrorKind::kMalformed}},
      {Fault::kHugeAnswer, {ErrorKind::kAnswerTooLarge}},
      {Fault::kHugeEvent, {ErrorKind::kAnswerTooLarge}},
      {Fault::kWhitespaceLoop, {ErrorKind::kNone}},
      {Fault::kResetAfter, {ErrorKind::kNone}},
      {Fault::kCloseAfter, {ErrorKind::kNone}},
      {Fault::kPlainJson, {ErrorKind::kNone}},
      {Fault::kOddFraming, {ErrorKind::kNone}},
      {Fault::kNoDone, {ErrorKind::kNone}},
      {Fault::kNoUsage, {ErrorKind::kNone}},
      {Fault::kStallsAtEnd, {ErrorKind::kNone}},
      {Fault::kUnicodeJunk, {ErrorKind::kNone}},
  };
  for (const auto& [fault, kinds] : expected) {
    INFO(FaultName(fault));
    llm::ChatRequest request = Question();
    request.model = "fake!" + std::string(FaultName(fault));
    request.wait_for_recovery = true;
    const llm::ChatOutcome outcome = Ask(*client, request);
    INFO(llm::ErrorKindName(outcome.error.kind) << ": " << outcome.error.message);
    CHECK(kinds.contains(outcome.error.kind));
    CHECK(outcome.attempts == 1);
    if (outcome.error.kind != ErrorKind::kNone) {
      CHECK(!outcome.error.message.empty());
      continue;
    }
    if (fault == Fault::kUnicodeJunk) {
      CHECK(outcome.answer.content ==
            "kernels are fast and \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDwide");
    } else {
      CHECK(outcome.answer.content == "kernels are fast and wide");
    }
    CHECK(outcome.answer.finish_reason == (fault == Fault::kWhitespaceLoop
                                               ? llm::FinishReason::kWhitespaceLoop
                                               : llm::FinishReason::kStop));
    CHECK(outcome.answer.usage.known ==
          (fault != Fault::kNoUsage && fault != Fault::kWhitespaceLoop));
  }
  CHECK(Eventually([&] { return (*endpoint).Seen().live == 0; }));
}

TEST_CASE("Thousands of concurrent calls under all faults end once each and leak nothing",
          "[llm][slow]") {
  RaiseDescriptorLimit();
  const int calls = kSanitized ? 1000 : 10'000;
  const int at_once = 256;
  std::map<Fault, double> shares;
  for (const Fault fault : AllFaults()) shares[fault] = 0.6 / kFaultCount;
  // These faults are slow for every call or expensive to set up.
  for (const Fault fault :
       {Fault::kHugeAnswer, Fault::kHugeEvent, Fault::kUnauthorized, Fault::kNotFound,
        Fault::kSpendLimit, Fault::kRateLimit, Fault::kRateLimitRetryAfter, Fault::kUnavailable}) {
    shares[fault] = 0.001;
  }
  shares[Fault::kRateLimitDate] = 0.0002;
  std::vector<std::string> arguments = {"--latency-ms", "0.5",           "--loris-interval-ms",
                                        "0.1",          "--retry-after", "0.01"};
  for (const auto& [fault, share] : shares) {
    arguments.push_back("--fault");
    arguments.push_back(std::string(FaultName(fault)) + "=" + std::to_string(share));
  }
  const auto endpoint = EndpointProcess::Start(arguments);
  REQUIRE(endpoint != nullptr);
  // With its first thread a process gets one of ThreadSanitizer's.
  std::jthread([] {}).join();
  const int descriptors = OpenDescriptors();
  const int threads = Threads();
  int64_t resident_half_way = 0;
  int64_t resident_at_end = 0;
  std::map<ErrorKind, int64_t> kinds;
  {
    llm::LlmConfig config = Config(*endpoint);
    config.max_attempts = 3;
    config.first_byte_timeout_ns = kSanitized ? kSecond : 100 * kMs;
    config.silence_timeout_ns = config.first_byte_timeout_ns;
    config.endpoints[0].initial_concurrency = at_once;
    config.breaker_consecutive_failures = 1'000'000;
    config.breaker_min_samples = 1'000'000;
    config.breaker_open_ns = kMs;
    config.breaker_open_cap_ns = kMs;
    const auto client = StartClient(config);
    std::mt19937 random(7);
    Outcomes outcomes;
    int64_t ended = 0;
    const auto settle = [&] {
      for (const llm::ChatOutcome& outcome : outcomes.Take()) {
        ++kinds[outcome.error.kind];
        ++ended;
        if (outcome.ok()) continue;
        CHECK(!outcome.error.message.empty());
        CHECK(outcome.error.message.size() <= 700);
      }
    };
    for (int sent = 0; sent < calls; ++sent) {
      REQUIRE(Eventually([&] { return client->Stats().calls_pending < 2 * at_once; }));
      llm::ChatRequest request = Question("kernel " + std::to_string(sent % 100));
      request.wait_for_recovery = true;
      const auto call = client->Submit(std::move(request), outcomes.Expect());
      REQUIRE(call.ok());
      if (random() % 50 == 0) client->Cancel(*call);
      if (sent == calls / 2) resident_half_way = ResidentBytes();
      if (sent % 500 == 0) settle();
    }
    REQUIRE(Eventually([&] { return client->Stats().calls_pending == 0; }));
    // The metrics change before the last callbacks.
    REQUIRE(Eventually([&] {
      settle();
      return ended == calls;
    }));
    CHECK(outcomes.repeated() == 0);
    CHECK(ended == calls);
    resident_at_end = ResidentBytes();

    const llm::ClientStats stats = client->Stats();
    CHECK(stats.calls_submitted == calls);
    CHECK(Sum(stats) == calls);
    CHECK(stats.calls_pending == 0);
    CHECK(stats.calls_queued == 0);
    CHECK(stats.pending_bytes == 0);
    CHECK(stats.endpoints[0].in_flight == 0);
    int64_t retries = stats.endpoints[0].hedges;
    for (const int64_t count : stats.endpoints[0].retries_by_reason) retries += count;
    CHECK(retries > 0);
    CHECK(retries <= config.retry_budget_reserve + calls / 10);
    CHECK(stats.endpoints[0].attempts_started <= calls + retries);
  }
  std::string table;
  for (const auto& [kind, count] : kinds) {
    table += " " + std::string(llm::ErrorKindName(kind)) + "=" + std::to_string(count);
  }
  WARN(calls << " calls:" << table << "; resident " << resident_half_way / 1024 << " KiB half way, "
             << resident_at_end / 1024 << " KiB at the end");
  CHECK(kinds[ErrorKind::kNone] > calls / 2);
  CHECK(kinds.size() >= 10);
  if (!kSanitized) CHECK(resident_at_end < resident_half_way + (24 << 20));
  const bool ended =
      Eventually([&] { return Threads() == threads && OpenDescriptors() == descriptors; });
  INFO(Threads() << " threads instead of " << threads << ", " << OpenDescriptors()
                 << " descriptors instead of " << descriptors);
  CHECK(ended);
}

TEST_CASE("Metrics show that an endpoint dies and returns", "[llm]") {
  const auto endpoint = StartEndpoint();
  llm::LlmConfig config = Config(*endpoint);
  config.breaker_consecutive_failures = 3;
  config.breaker_open_ns = 50 * kMs;
  const auto client = StartClient(config);
  REQUIRE(Ask(*client).ok());

  endpoint->Die();
  for (int i = 0; i < 3; ++i) {
    const ErrorKind kind = Ask(*client).error.kind;
    CHECK((kind == ErrorKind::kUnreachable || kind == ErrorKind::kCutOff));
  }
  CHECK(client->Stats().endpoints[0].breaker == llm::BreakerState::kOpen);
  int64_t refused = 0;
  CHECK(Eventually([&] {
    refused += Ask(*client).error.kind == ErrorKind::kCircuitOpen ? 1 : 0;
    return client->Stats().endpoints[0].breaker_opened >= 2;
  }));
  CHECK(refused > 0);

  llm::ChatRequest patient = Question();
  patient.wait_for_recovery = true;
  Outcomes waiting;
  REQUIRE(client->Submit(patient, waiting.Expect()).ok());
  endpoint->Return();
  CHECK(Eventually([&] { return Ask(*client).ok(); }));
  const llm::ClientStats stats = client->Stats();
  CHECK(stats.endpoints[0].breaker == llm::BreakerState::kClosed);
  CHECK(stats.endpoints[0].breaker_closed == 1);
  CHECK(stats.calls_by_result[static_cast<size_t>(ErrorKind::kCircuitOpen)] >= refused);
  CHECK(stats.endpoints[0].attempts_by_result[static_cast<size_t>(ErrorKind::kUnreachable)] >= 2);
  REQUIRE(waiting.WaitAll());
}

TEST_CASE("A request beyond the spend limit is not retried", "[llm]") {
  FakeEndpointOptions options;
  options.faults = {{Fault::kSpendLimit, 1}};
  const auto endpoint = StartEndpoint(options);
  llm::LlmConfig config = Config(*endpoint);
  config.max_attempts = 5;
  const auto client = StartClient(config);
  const llm::ChatOutcome outcome = Ask(*client);
  CHECK(outcome.error.kind == ErrorKind::kSpendLimit);
  CHECK(outcome.error.code == "insufficient_quota");
  CHECK(Ask(*client).error.kind == ErrorKind::kCircuitOpen);
  CHECK(endpoint->Seen().requests == 1);
}

TEST_CASE("Retry-After is respected over a real connection", "[llm]") {
  FakeEndpointOptions options;
  options.retry_after = "0.2";
  options.faults = {{Fault::kRateLimitRetryAfter, 1}};
  const auto endpoint = StartEndpoint(options);
  llm::LlmConfig config = Config(*endpoint);
  config.max_attempts = 2;
  const auto client = StartClient(config);
  const llm::ChatOutcome outcome = Ask(*client);
  CHECK(outcome.error.kind == ErrorKind::kRateLimited);
  CHECK(outcome.error.retry_after_ns == 200 * kMs);
  CHECK(outcome.attempts == 2);
  CHECK(outcome.latency_ns >= 200 * kMs);
}

TEST_CASE("Connections reset between requests lose no call", "[llm]") {
  FakeEndpointOptions options;
  options.faults = {{Fault::kResetAfter, 0.5}, {Fault::kCloseAfter, 0.3}};
  const auto endpoint = StartEndpoint(options);
  const auto client = StartClient(Config(*endpoint));
  for (int i = 0; i < 200; ++i) {
    const llm::ChatOutcome outcome = Ask(*client);
    INFO(outcome.error.message);
    REQUIRE(outcome.ok());
    CHECK(outcome.attempts == 1);
  }
}

TEST_CASE("Connections are reused", "[llm]") {
  const auto endpoint = StartEndpoint();
  const auto client = StartClient(Config(*endpoint));
  for (int i = 0; i < 100; ++i) REQUIRE(Ask(*client).ok());
  CHECK(endpoint->Seen().connections <= 2);
}

TEST_CASE("Calls can be cancelled by token, before and after they are sent", "[llm]") {
  FakeEndpointOptions options;
  options.faults = {{Fault::kStall, 1}};
  const auto endpoint = StartEndpoint(options);
  llm::LlmConfig config = Config(*endpoint);
  config.silence_timeout_ns = 20 * kSecond;
  const auto client = StartClient(config);
  std::stop_source source;
  llm::ChatRequest request = Question();
  request.stop = source.get_token();
  Outcomes outcomes;
  for (int i = 0; i < 10; ++i) REQUIRE(client->Submit(request, outcomes.Expect()).ok());
  REQUIRE(Eventually([&] { return endpoint->Seen().live == 10; }));
  source.request_stop();
  REQUIRE(outcomes.WaitAll());
  CHECK(outcomes.Kinds() == std::map<ErrorKind, int64_t>{{ErrorKind::kCancelled, 10}});
  CHECK(Eventually([&] { return endpoint->Seen().closed_by_client == 10; }));
  const llm::ChatOutcome late = Ask(*client, request);
  CHECK(late.error.kind == ErrorKind::kCancelled);
}

TEST_CASE("A full queue refuses calls until there is room", "[llm]") {
  FakeEndpointOptions options;
  options.faults = {{Fault::kHang, 1}};
  const auto endpoint = StartEndpoint(options);
  llm::LlmConfig config = Config(*endpoint);
  config.first_byte_timeout_ns = 20 * kSecond;
  config.max_pending_calls = 2;
  const auto client = StartClient(config);
  Outcomes outcomes;
  const auto first = client->Submit(Question(), outcomes.Expect());
  REQUIRE(first.ok());
  REQUIRE(client->Submit(Question(), outcomes.Expect()).ok());
  const auto refuse = [](const llm::ChatOutcome&) { FAIL("a refused call was called back"); };
  CHECK(client->Submit(Question(), refuse).status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(client->Stats().calls_overloaded == 1);
  client->Cancel(*first);
  CHECK(Eventually([&] { return client->Stats().calls_pending == 1; }));
  CHECK(client->Submit(Question(), outcomes.Expect()).ok());
  CHECK(client->Submit({}, refuse).status().code() == absl::StatusCode::kInvalidArgument);
  client->Shutdown();
  CHECK(client->Submit(Question(), refuse).status().code() ==
        absl::StatusCode::kFailedPrecondition);
  REQUIRE(outcomes.WaitAll());
  CHECK(outcomes.Kinds() == std::map<ErrorKind, int64_t>{{ErrorKind::kCancelled, 3}});
  client->Shutdown();
}

TEST_CASE("Shutdown ends every call and every stream", "[llm]") {
  FakeEndpointOptions options;
  options.faults = {{Fault::kStall, 0.5}, {Fault::kHang, 0.5}};
  const auto endpoint = StartEndpoint(options);
  llm::LlmConfig config = Config(*endpoint);
  config.endpoints[0].initial_concurrency = 50;
  config.endpoints[0].max_concurrency = 50;
  config.first_byte_timeout_ns = 20 * kSecond;
  config.silence_timeout_ns = 20 * kSecond;
  Outcomes outcomes;
  {
    const auto client = StartClient(config);
    for (int i = 0; i < 100; ++i) REQUIRE(client->Submit(Question(), outcomes.Expect()).ok());
    REQUIRE(Eventually([&] { return endpoint->Seen().live == 50; }));
  }
  REQUIRE(outcomes.WaitAll());
  CHECK(outcomes.Kinds() == std::map<ErrorKind, int64_t>{{ErrorKind::kCancelled, 100}});
  CHECK(Eventually([&] { return endpoint->Seen().open_connections == 0; }));
}

TEST_CASE("The first-token hook can request more samples", "[llm]") {
  FakeEndpointOptions options;
  options.latency_us = 5000;
  options.piece_interval_us = 2000;
  const auto endpoint = StartEndpoint(options);
  const auto client = StartClient(Config(*endpoint));
  Outcomes outcomes;
  llm::ChatRequest first = Question();
  llm::ChatRequest more = first;
  int hooks = 0, refused = 0;
  first.on_first_token = [&](const llm::EndpointRef& where) {
    ++hooks;
    more.preferred_endpoint = where.index;
    for (int i = 0; i < 3; ++i) refused += !client->Submit(more, outcomes.Expect()).ok();
  };
  REQUIRE(client->Submit(first, outcomes.Expect()).ok());
  REQUIRE(Eventually([&] { return outcomes.expected() == 4; }));
  REQUIRE(outcomes.WaitAll());
  CHECK(hooks == 1);
  CHECK(refused == 0);
  int64_t cached = 0;
  for (const llm::ChatOutcome& outcome : outcomes.Take()) {
    REQUIRE(outcome.ok());
    cached += outcome.answer.usage.cached_prompt_tokens > 0 ? 1 : 0;
  }
  CHECK(cached == 3);
}

TEST_CASE("Tool calls and schemas are passed in both directions", "[llm]") {
  const auto endpoint = StartEndpoint();
  const auto client = StartClient(Config(*endpoint));
  llm::ChatRequest request = Question();
  request.shape.tools =
      R"([{"type":"function","function":{"name":"submit_kernel_runtime_estimate","parameters":
         {"type":"object","properties":{"predicted_bin":{"type":"integer"},"p_a":{"type":"number"},
         "p_b":{"type":"number"},"reasoning":{"type":"string"}}}}},
         {"type":"function","function":{"name":"defer_to_real_evaluator","parameters":
         {"type":"object","properties":{"reason":{"type":"string"}}}}}])";
  const llm::ChatOutcome called = Ask(*client, request);
  REQUIRE(called.ok());
  CHECK(called.answer.finish_reason == llm::FinishReason::kToolCalls);
  REQUIRE(called.answer.tool_calls.size() == 1);
  CHECK(called.answer.tool_calls[0].name == "submit_kernel_runtime_estimate");
  CHECK(called.answer.tool_calls[0].arguments.find("\"p_b\":") != std::string::npos);
  CHECK(!called.answer.reasoning.empty());
  request.model = "fake!both_tools";
  CHECK(Ask(*client, request).answer.tool_calls.size() == 2);

  llm::ChatRequest schema = Question();
  schema.shape.response_format =
      R"({"type":"json_schema","json_schema":{"name":"f","strict":true,"schema":
         {"type":"object","properties":{"p_a":{"type":"number"},"p_b":{"type":"number"}}}}})";
  const llm::ChatOutcome answered = Ask(*client, schema);
  REQUIRE(answered.ok());
  CHECK(answered.answer.content.starts_with("{\"p_a\":"));
}

TEST_CASE("The key is sent only to its endpoint", "[llm]") {
  FakeEndpointOptions options;
  options.api_key = "sk-the-right-one";
  const auto endpoint = StartEndpoint(options);
  llm::LlmConfig config = Config(*endpoint);
  config.endpoints[0].api_key = "sk-the-right-one";
  const auto client = StartClient(config);
  CHECK(Ask(*client).ok());
  CHECK(endpoint->Seen().authorizations.at(0) == "Bearer sk-the-right-one");
  CHECK(client->endpoints()[0].api_key.empty());

  config.endpoints[0].api_key = "sk-the-wrong-one";
  const auto wrong = StartClient(config);
  const llm::ChatOutcome refused = Ask(*wrong);
  CHECK(refused.error.kind == ErrorKind::kUnauthorized);
  CHECK(refused.error.message.find("sk-") == std::string::npos);
}

TEST_CASE(
    "Each request of a traced call is a span and propagates its context where the endpoint accepts "
    "it",
    "[llm]") {
  const auto kept = std::make_shared<KeptSpans>();
  Tracer tracer({.ratio = 0}, std::make_unique<SpansTo>(kept));
  SetTracer(&tracer);
  const auto endpoint = StartEndpoint();
  llm::LlmConfig config = Config(*endpoint);
  config.max_attempts = 2;
  llm::ChatRequest traced = Question();
  traced.trace =
      *ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "v=1");
  llm::ChatRequest unsampled = traced;
  unsampled.trace.sampled = false;
  {
    const auto client = StartClient(config);
    CHECK(Ask(*client, traced).ok());
    endpoint->SetFaults({{Fault::kServerError, 1}});
    CHECK_FALSE(Ask(*client, traced).ok());
    endpoint->SetFaults({});
    CHECK(Ask(*client, unsampled).ok());
    CHECK(Ask(*client).ok());
    config.endpoints[0].trace_headers = false;
    const auto silent = StartClient(config);
    CHECK(Ask(*silent, traced).ok());
    // Reused connection handles must not keep data of another call.
    config.endpoints[0].trace_headers = true;
    const auto again = StartClient(config);
    for (int i = 0; i < 2; ++i) {
      CHECK(Ask(*again, traced).ok());
      CHECK(Ask(*again).ok());
    }
  }
  SetTracer(nullptr);
  tracer.Flush();

  const FakeEndpointSeen seen = endpoint->Seen();
  REQUIRE(seen.traceparents.size() == 10);
  std::vector<std::string> sent;
  for (const size_t with_span : {0, 1, 2, 6, 8}) sent.push_back(seen.traceparents[with_span]);
  CHECK(seen.traceparents[3] == FormatTraceparent(unsampled.trace));
  for (const size_t without : {4, 5, 7, 9}) {
    CHECK(seen.traceparents[without].empty());
    CHECK(seen.tracestates[without].empty());
  }
  CHECK(seen.tracestates[0] == "v=1");

  const std::lock_guard lock(kept->mutex);
  REQUIRE(kept->spans.size() == 6);
  std::vector<std::string> of_spans;
  std::vector<std::string> errors;
  for (const SpanData& span : kept->spans) {
    CHECK(span.name == "chat fake");
    CHECK(span.kind == SpanKind::kClient);
    CHECK(span.context.trace_id == traced.trace.trace_id);
    CHECK(span.parent_span_id == traced.trace.span_id);
    CHECK(span.end_ns >= span.start_ns);
    of_spans.push_back(FormatTraceparent(span.context));
    std::map<std::string, SpanValue> attributes(span.attributes.begin(), span.attributes.end());
    CHECK(attributes["gen_ai.request.model"] == SpanValue("fake"));
    CHECK(attributes["kernelcast.endpoint"] == SpanValue(config.endpoints[0].name));
    CHECK(attributes.contains("error.type") == span.failed);
    CHECK(attributes.contains("gen_ai.usage.output_tokens") != span.failed);
    if (span.failed) errors.push_back(std::get<std::string>(attributes["error.type"]));
    for (const auto& [key, value] : attributes) {
      const auto* text = std::get_if<std::string>(&value);
      CHECK((text == nullptr || text->find("How fast?") == std::string::npos));
    }
  }
  CHECK(errors == std::vector<std::string>{"server_error", "server_error"});
  // The fourth span has no recorded request.
  of_spans.erase(of_spans.begin() + 3);
  CHECK(sent == of_spans);
  CHECK(std::set<std::string>(sent.begin(), sent.end()).size() == sent.size());
}

TEST_CASE("Two endpoints share the load, and one takes over from the other", "[llm]") {
  const auto first = StartEndpoint();
  const auto second = StartEndpoint();
  llm::LlmConfig config = Config(*first);
  config.endpoints.push_back(Config(*second).endpoints[0]);
  config.max_attempts = 3;
  config.breaker_open_ns = 10 * kSecond;
  const auto client = StartClient(config);
  for (int i = 0; i < 100; ++i) REQUIRE(Ask(*client).ok());
  CHECK(first->Seen().requests > 20);
  CHECK(second->Seen().requests > 20);
  first->Die();
  for (int i = 0; i < 100; ++i) {
    const llm::ChatOutcome outcome = Ask(*client);
    INFO(outcome.error.message);
    REQUIRE(outcome.ok());
  }
  CHECK(client->Stats().endpoints[0].breaker == llm::BreakerState::kOpen);
}

TEST_CASE("A closed port is reported as unreachable immediately", "[llm]") {
  const auto endpoint = StartEndpoint();
  const llm::LlmConfig config = Config(*endpoint);
  endpoint->Die();
  const auto client = StartClient(config);
  CHECK(Ask(*client).error.kind == ErrorKind::kUnreachable);
  llm::LlmConfig nowhere = *llm::ConfigForUrl("http://no-such-host.invalid/v1", "m");
  nowhere.max_attempts = 1;
  const auto lost = StartClient(nowhere);
  CHECK(Ask(*lost).error.kind == ErrorKind::kUnreachable);
}

TEST_CASE("A loopback endpoint bypasses the environment's proxy", "[llm]") {
  const auto endpoint = StartEndpoint();
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  const auto client = StartClient(Config(*endpoint));
  CHECK(Ask(*client).ok());
  // Another address uses the proxy, which refuses.
  llm::LlmConfig elsewhere = *llm::ConfigForUrl("http://192.0.2.1/v1", "m");
  elsewhere.max_attempts = 1;
  const auto proxied = StartClient(elsewhere);
  const llm::ChatOutcome outcome = Ask(*proxied);
  unsetenv("http_proxy");
  CHECK(outcome.error.kind == ErrorKind::kUnreachable);
  CHECK(outcome.error.message.find("127.0.0.1") != std::string::npos);
}

TEST_CASE("Checking an endpoint reports its problem in one line", "[llm]") {
  FakeEndpointOptions options;
  options.api_key = "sk-right-key";
  options.models = {"small", "large"};
  const auto endpoint = StartEndpoint(options);
  llm::EndpointConfig config = Config(*endpoint).endpoints[0];
  const auto check = [&] { return llm::CheckEndpoint(config, 5 * kSecond); };
  CHECK(check().code() == absl::StatusCode::kUnauthenticated);
  config.api_key = "sk-right-key";
  CHECK(check().code() == absl::StatusCode::kNotFound);
  CHECK(std::string(check().message()).find("has no model 'fake'; it has small, large") !=
        std::string::npos);
  config.model = "large";
  CHECK(check().ok());
  endpoint->Die();
  CHECK(check().code() == absl::StatusCode::kUnavailable);
  CHECK(check().message().find('\n') == absl::string_view::npos);
}

TEST_CASE("Threads may submit, cancel and inspect calls concurrently", "[llm]") {
  FakeEndpointOptions options;
  options.latency_us = 1000;
  const auto endpoint = StartEndpoint(options);
  const auto client = StartClient(Config(*endpoint));
  Outcomes outcomes;
  std::vector<std::stop_source> sources(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::stop_source& source = sources[static_cast<size_t>(t)];
      for (int i = 0; i < 100; ++i) {
        llm::ChatRequest request = Question();
        if (i % 3 == 0) request.stop = source.get_token();
        const auto call = client->Submit(std::move(request), outcomes.Expect());
        if (call.ok() && (i + t) % 5 == 0) client->Cancel(*call);
        if (i % 10 == 0) (void)client->Stats();
        if (i == 50) source.request_stop();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(outcomes.WaitAll());
  CHECK(outcomes.repeated() == 0);
  CHECK(Sum(client->Stats()) == 400);
}

}  // namespace kernelcast::testing
