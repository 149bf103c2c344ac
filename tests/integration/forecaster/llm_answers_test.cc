// Answers as real servers give them, over a socket: what the forecaster reads from each, and how
// often it asks.

#include <zlib.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/llm/chat_client.h"
#include "common/llm/client.h"
#include "services/forecaster/llm/llm_backend.h"
#include "tests/fakes/llm_endpoint/llm_endpoint.h"
#include "tests/support/metrics_page.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster::llm_answers_test {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;
using testing::FakeEndpointOptions;
using testing::FakeLlmEndpoint;
using testing::FakeReply;
using testing::MetricsPage;
using Cause = Abstention::Cause;

constexpr auto kLimit = std::chrono::seconds(120);
constexpr int kMaxTokens = 300;
const std::string kForecast = R"({"p_high_speedup": 0.75, "p_minor_speedup": 0.25})";

std::string Event(const json& data) { return "data: " + data.dump() + "\n\n"; }

json Choice(const char* key, const json& message, const json& finish_reason) {
  return {{"choices", {{{"index", 0}, {key, message}, {"finish_reason", finish_reason}}}}};
}

FakeReply Streamed(const std::vector<json>& deltas, const std::string& finish_reason = "stop") {
  FakeReply reply;
  reply.type = "text/event-stream";
  for (const json& delta : deltas) reply.body += Event(Choice("delta", delta, nullptr));
  reply.body += Event(Choice("delta", json::object(), finish_reason)) + "data: [DONE]\n\n";
  return reply;
}

FakeReply Whole(const json& message, const std::string& finish_reason = "stop") {
  FakeReply reply;
  reply.body = Choice("message", message, finish_reason).dump();
  return reply;
}

FakeReply Body(std::string body, int status = 200, std::string headers = "",
               std::string type = "application/json") {
  return {status, std::move(body), std::move(type), std::move(headers)};
}

json Call(const json& id, const json& name, const std::string& arguments, const json& index = 0) {
  json function = {{"arguments", arguments}};
  if (!name.is_null()) function["name"] = name;
  json call = {{"type", "function"}, {"function", function}};
  if (!id.is_null()) call["id"] = id;
  if (!index.is_null()) call["index"] = index;
  return {{"tool_calls", {call}}};
}

std::string Gzip(const std::string& text) {
  z_stream stream{};
  constexpr int kGzipWindow = 15 + 16;
  REQUIRE(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) ==
          Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

struct Asked {
  ForecastResult result;
  int64_t requests = 0;
  std::vector<std::string> bodies;
  std::string metrics;

  bool has_forecast() const { return std::holds_alternative<Forecast>(result); }
  const Forecast& forecast() const { return std::get<Forecast>(result); }
  const Abstention& abstention() const { return std::get<Abstention>(result); }
  double Metric(const std::string& series) const { return MetricsPage(metrics).Value(series); }
};

// Asks one question of an endpoint that gives this reply each time, after some labels.
Asked Ask(const std::function<FakeReply(const json& request)>& reply, size_t labels = 0) {
  static const PlantedProblem& planted = *new PlantedProblem();
  FakeEndpointOptions endpoint_options;
  endpoint_options.reply = [reply](const json& request) { return std::optional(reply(request)); };
  const auto endpoint = FakeLlmEndpoint::Start(std::move(endpoint_options)).value();
  llm::LlmConfig config = llm::ConfigForUrl(endpoint->url(), "fake").value();
  config.backoff_base_ns = 1'000'000;
  config.backoff_cap_ns = 1'000'000;
  MetricsRegistry registry;
  LlmMetrics metrics(registry, {"here"});
  const auto client = llm::LlmClient::Create(config, &metrics).value();
  llm::EndpointClient chat(client.get());
  LlmBackendOptions options(ForecastPrompt::Builtin(kDefaultPromptVersion).value());
  options.models = {"fake"};
  options.max_answer_tokens = kMaxTokens;
  LlmBackend backend(std::move(options), &chat, nullptr, &metrics);
  std::vector<ObservedLabel> measured(labels);
  for (size_t i = 0; i < labels; ++i) {
    measured[i].problem = planted.context();
    measured[i].label.candidate = planted.candidates()[i + 1];
    measured[i].label.truth = Ratio{1.5, 1.4, 1.6};
  }
  backend.Observe(std::move(measured));

  ForecastInput input;
  input.problem = planted.context();
  input.candidate = planted.candidates()[0];
  input.facts = planted.Facts(0);
  input.reference_facts = planted.ReferenceFacts();
  auto promise = std::make_shared<std::promise<ForecastResult>>();
  auto result = promise->get_future();
  backend.Forecast(std::move(input), {},
                   [promise](ForecastResult got) { promise->set_value(std::move(got)); });
  REQUIRE(result.wait_for(kLimit) == std::future_status::ready);
  Asked asked;
  asked.result = result.get();
  const testing::FakeEndpointSeen seen = endpoint->Seen();
  asked.requests = seen.requests;
  asked.bodies = seen.bodies;
  asked.metrics = registry.Text();
  return asked;
}

Asked Ask(const FakeReply& reply) {
  return Ask([reply](const json&) { return reply; });
}

TEST_CASE("A forecast is read from every form in which servers give it, at the first request",
          "[llm]") {
  const std::string submit(kSubmitToolName);
  const std::string half = kForecast.substr(0, 20);
  const std::string rest = kForecast.substr(20);
  const json twice = json(kForecast).dump();
  struct Form {
    const char* name;
    FakeReply reply;
    const char* repair = "";
  };
  const Form forms[] = {
      {"content", Streamed({{{"content", half}}, {{"content", rest}}})},
      {"whole content", Whole({{"content", kForecast}})},
      {"a list of parts", Whole({{"content", {{{"type", "text"}, {"text", kForecast}}}}})},
      {"reasoning among the parts",
       Whole({{"content",
               {{{"type", "reasoning"}, {"text", "{\"p_extreme_speedup\": 1}"}},
                {{"type", "text"}, {"text", kForecast}}}}})},
      {"content that the server has parsed", Whole({{"content", json::parse(kForecast)}})},
      {"reasoning_content with content null",
       Streamed({{{"content", nullptr}, {"reasoning_content", half}},
                 {{"content", nullptr}, {"reasoning_content", rest}}}),
       "in_reasoning"},
      {"whole reasoning_content", Whole({{"content", nullptr}, {"reasoning_content", kForecast}}),
       "in_reasoning"},
      {"reasoning with content null", Streamed({{{"content", nullptr}, {"reasoning", kForecast}}}),
       "in_reasoning"},
      {"whole reasoning", Whole({{"content", nullptr}, {"reasoning", kForecast}}), "in_reasoning"},
      {"both reasoning fields, one of them empty",
       Whole({{"content", ""}, {"reasoning", ""}, {"reasoning_content", kForecast}}),
       "in_reasoning"},
      {"marked reasoning in the content",
       Whole({{"content", "<think>{\"p_extreme_speedup\": 1}</think>\n" + kForecast}})},
      {"nothing behind marked reasoning",
       Whole({{"content", "<think>So: " + kForecast + "</think>"}}), "in_reasoning"},
      {"a tool call",
       Streamed({Call("a", submit, half), Call(nullptr, nullptr, rest)}, "tool_calls")},
      {"a tool call with a namespace",
       Whole(Call("a", "functions." + submit, kForecast), "tool_calls")},
      {"a tool call with a new id in every piece",
       Streamed({Call("a", submit, ""), Call("b", nullptr, half), Call("c", nullptr, rest)},
                "tool_calls")},
      {"a tool call with a new id and the name in every piece",
       Streamed({Call("a", submit, half), Call("b", submit, rest)}, "tool_calls")},
      {"a tool call with a new id in every piece and no index",
       Streamed({Call("a", submit, half, nullptr), Call("b", submit, rest, nullptr)},
                "tool_calls")},
      {"a tool call that begins anew at its end",
       Streamed({Call("a", submit, kForecast), Call("b", submit, "")}, "tool_calls")},
      {"arguments encoded twice", Streamed({Call("a", submit, twice)}, "tool_calls"),
       "encoded_twice"},
      {"whole arguments encoded twice", Whole(Call("a", submit, twice), "tool_calls"),
       "encoded_twice"},
      {"the older function_call",
       Whole(
           {{"content", nullptr}, {"function_call", {{"name", submit}, {"arguments", kForecast}}}},
           "function_call")},
      {"complete at the limit", Whole({{"content", kForecast}}, "length")},
      {"a stream of one whole answer",
       Body(Event(Choice("message", {{"content", kForecast}}, "stop")) + "data: [DONE]\n\n")},
      {"the events of a stream in a list",
       Body(json::array({Choice("delta", {{"content", half}}, nullptr),
                         Choice("delta", {{"content", rest}}, "stop")})
                .dump())},
      {"an object on each line", Body(Choice("delta", {{"content", half}}, nullptr).dump() + "\n" +
                                      Choice("delta", {{"content", rest}}, "stop").dump() + "\n")},
      {"gzip that nobody asked for",
       Body(Gzip(Choice("message", {{"content", kForecast}}, "stop").dump()), 200,
            "Content-Encoding: gzip\r\n")},
      {"a trailing comma",
       Whole({{"content", R"({"p_high_speedup": 0.75, "p_minor_speedup": 0.25,})"}}),
       "trailing_comma"},
      {"comments",
       Whole({{"content", "{\"p_high_speedup\": 0.75, // wide\n\"p_minor_speedup\": 0.25}"}}),
       "comment"},
      {"single quotes", Whole({{"content", "{'p_high_speedup': 0.75, 'p_minor_speedup': 0.25}"}}),
       "single_quotes"},
      {"percentages", Whole({{"content", R"({"p_high_speedup": "75%", "p_minor_speedup": 25%})"}}),
       "percent"},
  };
  for (const Form& form : forms) {
    INFO(form.name);
    const Asked asked = Ask(form.reply);
    if (!asked.has_forecast()) {
      UNSCOPED_INFO(asked.abstention().reason);
      CHECK(asked.has_forecast());
      continue;
    }
    CHECK(asked.requests == 1);
    CHECK(asked.forecast().bin_probabilities[6] == Approx(0.75));
    const std::string repair = form.repair;
    const std::vector<std::string> repairs = asked.forecast().model->repairs;
    CHECK(repairs == (repair.empty() ? std::vector<std::string>() : std::vector{repair}));
    if (repair.empty()) continue;
    CHECK(asked.Metric(absl::StrCat(R"(kernelcast_forecaster_llm_repairs_total{repair=")", repair,
                                    "\"}")) == 1);
  }
}

TEST_CASE("An answer that the endpoint stopped is not asked for again, and says why", "[llm]") {
  struct Stopped {
    const char* name;
    FakeReply reply;
    const char* fault;
    const char* reason;
  };
  const json usage = {{"prompt_tokens", 10}, {"completion_tokens", kMaxTokens}};
  FakeReply limited = Whole({{"content", "{\"p_high"}}, "length");
  json limited_body = json::parse(limited.body);
  limited_body["usage"] = usage;
  limited.body = limited_body.dump();
  const Stopped all[] = {
      {"at the limit", Streamed({{{"content", "{\"p_high"}}}, "length"), "cut_off",
       "cut_off: cut off: raise the limit, --llm-max-tokens 300"},
      {"at the limit, whole", limited, "cut_off",
       "cut off after 300 tokens: raise the limit, --llm-max-tokens 300"},
      {"while reasoning", Streamed({{{"reasoning_content", "So " + kForecast}}}, "length"),
       "cut_off", "raise the limit"},
      {"in a tool call", Streamed({Call("a", std::string(kSubmitToolName), "{\"p_high")}, "length"),
       "cut_off", "raise the limit"},
      {"by another word", Whole({{"content", "{\"p_high"}}, "MAX_TOKENS"), "cut_off",
       "raise the limit"},
      {"a refusal", Streamed({{{"refusal", "I cannot "}}, {{"refusal", "help."}}}), "refused",
       "the model refuses to answer: I cannot help."},
      {"a whole refusal", Whole({{"content", nullptr}, {"refusal", "No."}}), "refused",
       "the model refuses to answer: No."},
      {"a content filter", Streamed({{{"content", "The"}}}, "content_filter"), "content_filter",
       "content filter"},
      {"a safety filter", Whole({{"content", nullptr}}, "SAFETY"), "content_filter",
       "content filter"},
  };
  for (const Stopped& one : all) {
    INFO(one.name);
    const Asked asked = Ask(one.reply);
    REQUIRE_FALSE(asked.has_forecast());
    CHECK(asked.requests == 1);
    CHECK(asked.abstention().cause == Cause::kUnparsable);
    CHECK(asked.abstention().model->fault == one.fault);
    CHECK_THAT(asked.abstention().reason, Contains(one.reason));
    CHECK(asked.Metric(absl::StrCat(R"(kernelcast_forecaster_llm_faults_total{fault=")", one.fault,
                                    "\"}")) == 1);
  }
  // The prompt alone fills the context.
  json filled = limited_body;
  filled["usage"]["completion_tokens"] = 0;
  CHECK_THAT(Ask(Body(filled.dump())).abstention().reason,
             Contains("the prompt fills the endpoint's context"));
  // Less than what was asked for: the context is full.
  json full = limited_body;
  full["usage"]["completion_tokens"] = 20;
  const Asked asked = Ask(Body(full.dump()));
  CHECK_THAT(asked.abstention().reason,
             Contains("cut off after 20 tokens, before its limit of 300: raise the endpoint's "
                      "context length"));
}

TEST_CASE("Errors that come with status 200 have their kind", "[llm]") {
  struct Error {
    const char* name;
    FakeReply reply;
    const char* reason;
    Cause cause = Cause::kEndpointUnavailable;
    int64_t requests = 1;
  };
  const auto in_stream = [](const json& error) { return Body(Event(error) + "data: [DONE]\n\n"); };
  const json too_long = {
      {"error", {{"message", "8192 tokens at most"}, {"code", "context_length_exceeded"}}}};
  // Retried, because it may pass.
  constexpr int64_t kTries = 3;
  const Error all[] = {
      {"a string code 400 in the stream, in each form",
       in_stream({{"error", {{"message", "bad field"}, {"code", "400"}}}}), "refused: bad field",
       Cause::kNotCovered, 4},
      {"a string code 429 in the stream",
       in_stream({{"error", {{"message", "slow down"}, {"code", "429"}}}}),
       "rate_limited: slow down", Cause::kEndpointUnavailable, kTries},
      {"a number in the stream", in_stream({{"error", {{"message", "no room"}, {"code", 503}}}}),
       "unavailable: no room", Cause::kEndpointUnavailable, kTries},
      {"only a type", in_stream({{"error", {{"message", "busy"}, {"type", "overloaded_error"}}}}),
       "unavailable: busy", Cause::kEndpointUnavailable, kTries},
      {"money", in_stream({{"error", {{"message", "pay"}, {"code", "insufficient_quota"}}}}),
       "spend_limit: pay"},
      {"a wrong key", Body(R"({"error": {"message": "no key", "code": "invalid_api_key"}})"),
       "unauthorized: no key"},
      {"a context that is too long", in_stream(too_long), "context_too_long: 8192 tokens at most",
       Cause::kNotCovered},
      {"a whole context that is too long", Body(too_long.dump()), "context_too_long",
       Cause::kNotCovered},
      {"vLLM's context that is too long",
       Body(R"({"object": "error", "message": "This model's maximum context length is 8192 tokens.",
               "type": "BadRequestError", "param": null, "code": 400})",
            400),
       "context_too_long: HTTP 400: This model's maximum", Cause::kNotCovered},
      {"llama.cpp's context that is too long",
       Body(R"({"error": {"code": 400, "message": "the request exceeds the available size",
               "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 8192}})",
            400),
       "context_too_long", Cause::kNotCovered},
      {"choices[0].error",
       in_stream({{"choices",
                   {{{"index", 0},
                     {"delta", {{"content", ""}}},
                     {"finish_reason", "error"},
                     {"error", {{"code", 502}, {"message", "the provider left"}}}}}}}),
       "server_error: the provider left", Cause::kEndpointUnavailable, kTries},
      {"choices[0].error of a whole answer",
       Body(R"({"choices": [{"error": {"code": "429", "message": "slow down"}}]})"),
       "rate_limited: slow down", Cause::kEndpointUnavailable, kTries},
      {"a failure word as the finish reason", Streamed({}, "error"),
       "server_error: the answer ended with finish_reason 'error'", Cause::kEndpointUnavailable,
       kTries},
      {"an error in a list", Body(R"([{"error": {"code": 400, "message": "bad", "status": "X"}}])"),
       "refused: bad", Cause::kNotCovered, 4},
      {"a list of errors", Body(R"({"success": false, "errors": [{"message": "no route"}]})"),
       "server_error: no route", Cause::kEndpointUnavailable, kTries},
      {"an error field of the stream", Body("error: {\"code\":500,\"message\":\"slot lost\"}\n\n"),
       "server_error: slot lost", Cause::kEndpointUnavailable, kTries},
      {"a content filter",
       Body(R"({"error": {"code": "content_filter", "message": "filtered"}})", 400),
       "content_filter: HTTP 400: filtered", Cause::kNotCovered},
      {"a web page", Body("<!DOCTYPE html><html>Sign in</html>", 200, "", "text/html"),
       "malformed: the endpoint sent a web page", Cause::kEndpointUnavailable, kTries},
      {"a JSON array", Body("[1, 2]"), "malformed: the answer is not a JSON object: [1, 2]",
       Cause::kEndpointUnavailable, kTries},
      {"plain text", Body("upstream is not ready\n", 200, "", "text/plain"),
       "malformed: the answer is neither JSON nor a stream of events: upstream is not ready",
       Cause::kEndpointUnavailable, kTries},
      {"gzip that is not declared", Body(Gzip(kForecast)),
       "malformed: the endpoint sent compressed", Cause::kEndpointUnavailable, kTries},
      {"broken gzip", Body("no gzip", 200, "Content-Encoding: gzip\r\n"), "malformed",
       Cause::kEndpointUnavailable, kTries},
  };
  for (const Error& error : all) {
    INFO(error.name);
    const Asked asked = Ask(error.reply);
    REQUIRE_FALSE(asked.has_forecast());
    CHECK_THAT(asked.abstention().reason, Contains(error.reason));
    CHECK(asked.abstention().cause == error.cause);
    CHECK(asked.requests == error.requests);
  }
}

TEST_CASE("A prompt that is too long is sent once more without feedback", "[llm]") {
  constexpr size_t kLabels = 4;
  const auto too_long = [](const json&) {
    return Body(R"({"error": {"message": "too long", "code": "context_length_exceeded"}})", 400);
  };
  const Asked refused = Ask(too_long, kLabels);
  REQUIRE_FALSE(refused.has_forecast());
  CHECK(refused.abstention().cause == Cause::kNotCovered);
  REQUIRE(refused.requests == 2);
  CHECK(refused.bodies[1].size() < refused.bodies[0].size());

  const size_t limit = refused.bodies[1].size() + 1;
  const Asked answered = Ask(
      [&](const json& request) {
        const bool fits = request.dump().size() <= limit;
        return fits ? Whole({{"content", kForecast}}) : too_long(request);
      },
      kLabels);
  CHECK(answered.has_forecast());
  CHECK(answered.requests == 2);
}

}  // namespace
}  // namespace kernelcast::forecaster::llm_answers_test
