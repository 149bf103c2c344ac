#include "services/forecaster/llm/llm_backend.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/fake_chat_client.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using Cause = Abstention::Cause;
using llm::ErrorKind;
using testing::FakeChatClient;

constexpr auto kLimit = std::chrono::seconds(20);
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr char kSure[] = R"({"p_high_speedup": 1, "p_failure": 0.1})";
constexpr char kUnsure[] = R"({"p_minor_speedup": 0.5, "p_high_speedup": 0.5})";
constexpr char kDefers[] = R"({"defer": true, "reasoning": "atomics"})";
constexpr char kNothing[] = "It will be fast.";

class MemoryCache final : public ForecastCache {
 public:
  std::optional<ForecastResult> Find(const std::string& key) override {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return std::nullopt;
    return found->second;
  }
  void Put(const std::string& key, const ForecastResult& result) override {
    std::lock_guard lock(mutex_);
    entries_.emplace(key, result);
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, ForecastResult> entries_;
};

// Results by question number, each at most once.
class Results {
 public:
  Backend::Done Slot(int question) {
    return [this, question](ForecastResult result) {
      std::lock_guard lock(mutex_);
      ++answers_[question];
      results_.insert_or_assign(question, std::move(result));
      changed_.notify_all();
    };
  }
  ForecastResult Wait(int question) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kLimit, [&] { return results_.contains(question); }));
    CHECK(answers_[question] == 1);
    return results_.at(question);
  }
  kernelcast::Forecast Forecast(int question) {
    const ForecastResult result = Wait(question);
    if (const auto* abstention = std::get_if<Abstention>(&result)) FAIL(abstention->reason);
    return std::get<kernelcast::Forecast>(result);
  }
  Abstention Abstained(int question) {
    const ForecastResult result = Wait(question);
    REQUIRE(std::holds_alternative<Abstention>(result));
    return std::get<Abstention>(result);
  }
  size_t count() {
    std::lock_guard lock(mutex_);
    return results_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, ForecastResult> results_;
  std::map<int, int> answers_;
};

const PlantedProblem& Planted() {
  static const PlantedProblem& problem = *new PlantedProblem();
  return problem;
}

ForecastInput Input(size_t candidate) {
  ForecastInput input;
  input.problem = Planted().context();
  input.candidate = Planted().candidates()[candidate];
  input.facts = Planted().Facts(candidate);
  input.reference_facts = Planted().ReferenceFacts();
  return input;
}

struct Fixture {
  explicit Fixture(int samples = 1, uint64_t max_problem_tokens = 0, size_t max_bytes = 1 << 20)
      : metrics(registry, {"here", "there"}),
        backend(Options(samples, max_problem_tokens, max_bytes), &client, &cache, &metrics, clock) {
  }

  static LlmBackendOptions Options(int samples, uint64_t max_problem_tokens, size_t max_bytes) {
    LlmBackendOptions options(ForecastPrompt::Builtin(kDefaultPromptVersion).value());
    options.models = {"model"};
    options.samples = samples;
    options.max_problem_tokens = max_problem_tokens;
    options.max_prompt_bytes = max_bytes;
    return options;
  }

  void Ask(int question, size_t candidate, const ForecastCall& call = {}) {
    backend.Forecast(Input(candidate), call, results.Slot(question));
  }
  bool HasMetric(const std::string& line) {
    return registry.Text().find(line) != std::string::npos;
  }

  FakeClock clock;
  MetricsRegistry registry;
  FakeChatClient client;
  MemoryCache cache;
  LlmMetrics metrics;
  Results results;
  LlmBackend backend;
};

TEST_CASE("An answer becomes a forecast that names its source", "[forecaster][llm]") {
  Fixture fixture;
  fixture.Ask(1, 0);
  fixture.client.WaitForCalls(1);
  const llm::ResponseShape shape = fixture.client.Shape(1);
  CHECK_THAT(shape.response_format, Contains("json_schema"));
  const nlohmann::json messages = nlohmann::json::parse(fixture.client.request(1).prompt->json());
  const RenderedPrompt shown = fixture.backend.ShowPrompt(Input(0)).value();
  REQUIRE(messages.size() == 2);
  CHECK(messages[0]["role"] == "system");
  CHECK(messages[0]["content"] == shown.system);
  CHECK(messages[1]["role"] == "user");
  CHECK(messages[1]["content"] == shown.user);
  fixture.client.Say(1, kSure);

  const kernelcast::Forecast forecast = fixture.results.Forecast(1);
  CHECK(ValidateForecast(forecast).ok());
  CHECK(forecast.candidate_id == Planted().candidates()[0].candidate_id);
  CHECK(forecast.predicted_bin == 7);
  CHECK(forecast.failure_probability == Approx(0.1));
  CHECK(forecast.backend == "llm:model");
  CHECK_THAT(forecast.backend_version, StartsWith("llm/1;prompt=speedup-bins/2@"));
  CHECK(forecast.prompt_version == shown.version);
  CHECK(forecast.token_usage.input_tokens == 100);
  CHECK(forecast.token_usage.cached_input_tokens == 60);
  CHECK(forecast.token_usage.output_tokens == 20);
  CHECK(forecast.token_usage.cost_dollars == Approx(0.5));
  CHECK(fixture.HasMetric(R"(kernelcast_forecaster_llm_questions_total{result="forecast"} 1)"));
}

TEST_CASE("A repeated question costs one request", "[forecaster][llm]") {
  Fixture fixture;
  fixture.Ask(1, 0);
  fixture.client.WaitForCalls(1);
  fixture.Ask(2, 0);
  fixture.Ask(3, 0);
  fixture.Ask(4, 1);
  fixture.client.WaitForCalls(2);
  fixture.client.Say(1, kSure);
  for (const int question : {1, 2, 3}) {
    CHECK(fixture.results.Forecast(question).predicted_bin == 7);
    CHECK((fixture.results.Forecast(question).token_usage.input_tokens == 100) == (question == 1));
  }
  // Repeated, from the cache.
  fixture.Ask(5, 0);
  CHECK(fixture.results.Forecast(5).predicted_bin == 7);
  CHECK(fixture.results.Forecast(5).token_usage.output_tokens == 0);
  CHECK(fixture.client.submitted() == 2);
  fixture.client.Say(2, kUnsure);
  CHECK(fixture.results.Forecast(4).predicted_bin == 5);
  CHECK(fixture.HasMetric(R"(kernelcast_forecaster_llm_cache_total{use="coalesced"} 2)"));
  CHECK(fixture.HasMetric(R"(kernelcast_forecaster_llm_cache_total{use="hit"} 1)"));
  CHECK(fixture.HasMetric(R"(kernelcast_forecaster_llm_cache_total{use="miss"} 2)"));
}

TEST_CASE("An unparsable answer is requested again one rung lower", "[forecaster][llm]") {
  Fixture fixture;
  fixture.Ask(1, 0);
  fixture.client.Say(1, kNothing);
  REQUIRE(fixture.client.WaitForCalls(2));
  CHECK(fixture.client.Shape(2).tag == static_cast<int>(Rung::kToolsNamed));
  fixture.client.Say(2, kSure);
  const kernelcast::Forecast forecast = fixture.results.Forecast(1);
  CHECK(forecast.predicted_bin == 7);
  // Both were paid for.
  CHECK(forecast.token_usage.input_tokens == 200);
  CHECK(fixture.cache.size() == 1);
  CHECK(fixture.HasMetric(R"(kernelcast_forecaster_llm_faults_total{fault="no_tool"} 1)"));
}

TEST_CASE("A question with two unparsable answers is deferred and not cached",
          "[forecaster][llm]") {
  Fixture fixture;
  fixture.Ask(1, 0);
  fixture.client.Say(1, kNothing);
  fixture.client.Say(2, R"({"p_high_speedup": "NaN"})");
  const Abstention abstention = fixture.results.Abstained(1);
  CHECK(abstention.cause == Cause::kUnparsable);
  CHECK(abstention.backend == "llm");
  CHECK(abstention.reason == "bad_probability: 'p_high_speedup' is not a number in [0, 1]");
  CHECK(fixture.cache.size() == 0);
  fixture.Ask(2, 0);
  REQUIRE(fixture.client.WaitForCalls(3));
  fixture.client.Say(3, kSure);
  CHECK(fixture.results.Forecast(2).predicted_bin == 7);
}

TEST_CASE("A model that declines defers, and the deferral is cached", "[forecaster][llm]") {
  Fixture fixture;
  fixture.Ask(1, 0);
  fixture.client.Say(1, kDefers);
  const Abstention abstention = fixture.results.Abstained(1);
  CHECK(abstention.cause == Cause::kModelDeferred);
  CHECK(abstention.reason == "atomics");
  fixture.Ask(2, 0);
  CHECK(fixture.results.Abstained(2).cause == Cause::kModelDeferred);
  CHECK(fixture.client.submitted() == 1);
}

TEST_CASE("A failing endpoint is an abstention and not cached", "[forecaster][llm]") {
  Fixture fixture;
  int question = 0;
  for (const ErrorKind kind :
       {ErrorKind::kUnreachable, ErrorKind::kSpendLimit, ErrorKind::kUnavailable,
        ErrorKind::kServerError, ErrorKind::kUnauthorized, ErrorKind::kNotFound,
        ErrorKind::kMalformed, ErrorKind::kCutOff, ErrorKind::kCircuitOpen}) {
    ++question;
    fixture.Ask(question, 0);
    fixture.client.Fail(question, kind);
    const Abstention abstention = fixture.results.Abstained(question);
    CHECK(abstention.cause == Cause::kEndpointUnavailable);
    CHECK(abstention.reason ==
          absl::StrCat("here: ", std::string(llm::ErrorKindName(kind)), ": it failed"));
  }
  CHECK(fixture.cache.size() == 0);
}

TEST_CASE("A refused form is retried in another form at that endpoint", "[forecaster][llm]") {
  Fixture fixture;
  fixture.Ask(1, 0);
  fixture.client.Fail(1, ErrorKind::kRefused, 400);
  CHECK(fixture.client.Shape(2).tag == static_cast<int>(Rung::kToolsNamed));
  fixture.client.Fail(2, ErrorKind::kServerError, 501);
  CHECK(fixture.client.Shape(3).tag == static_cast<int>(Rung::kToolsAuto));
  llm::ChatAnswer answer;
  answer.tool_calls = {{"1", "submit_kernel_runtime_estimate", kSure}};
  fixture.client.Answer(3, answer);
  CHECK(fixture.results.Forecast(1).predicted_bin == 7);

  fixture.Ask(2, 1);
  fixture.client.WaitForCalls(4);
  CHECK(fixture.client.Shape(4, "there").tag == static_cast<int>(Rung::kJsonSchema));
  CHECK(fixture.client.Shape(4, "here").tag == static_cast<int>(Rung::kToolsAuto));
  fixture.client.Say(4, kSure);
  fixture.results.Forecast(2);
}

TEST_CASE("A question refused in every form is not covered", "[forecaster][llm]") {
  Fixture fixture;
  fixture.Ask(1, 0);
  for (llm::CallId call = 1; call <= 4; ++call) {
    fixture.client.Fail(call, ErrorKind::kRefused, 400);
  }
  CHECK(fixture.results.Abstained(1).cause == Cause::kNotCovered);
  // The question was at fault, so the next one starts at the top rung.
  fixture.Ask(2, 1);
  fixture.client.WaitForCalls(5);
  CHECK(fixture.client.Shape(5).tag == static_cast<int>(Rung::kJsonSchema));
  // Without feedback and anchor, the prompt cannot be shortened.
  fixture.client.Fail(5, ErrorKind::kContextTooLong, 400);
  CHECK(fixture.results.Abstained(2).cause == Cause::kNotCovered);
  fixture.Ask(3, 2);
  fixture.client.WaitForCalls(6);
  fixture.client.Fail(6, ErrorKind::kContentFilter, 400);
  CHECK(fixture.results.Abstained(3).cause == Cause::kNotCovered);
  CHECK(fixture.client.submitted() == 6);
}

TEST_CASE("An unfinished answer counts as unparsable", "[forecaster][llm]") {
  Fixture fixture;
  fixture.Ask(1, 0);
  fixture.client.Fail(1, ErrorKind::kAnswerTooLarge);
  fixture.client.Fail(2, ErrorKind::kAnswerTooLarge);
  CHECK(fixture.results.Abstained(1).cause == Cause::kUnparsable);
}

TEST_CASE("Further samples wait for the first token and use the same endpoint",
          "[forecaster][llm]") {
  Fixture fixture(/*samples=*/3);
  fixture.Ask(1, 0);
  fixture.client.WaitForCalls(1);
  CHECK(fixture.client.request(1).preferred_endpoint == -1);
  CHECK(fixture.client.submitted() == 1);
  fixture.client.FirstToken(1);
  REQUIRE(fixture.client.WaitForCalls(3));
  CHECK(fixture.client.request(2).preferred_endpoint == 0);
  CHECK(fixture.client.request(3).preferred_endpoint == 0);
  CHECK(fixture.client.request(2).prompt == fixture.client.request(1).prompt);
  CHECK_FALSE(fixture.client.request(2).on_first_token);
  fixture.client.Say(2, kUnsure);
  fixture.client.Say(1, kSure);
  fixture.client.Say(3, kUnsure);
  const kernelcast::Forecast forecast = fixture.results.Forecast(1);
  // P(correct) is 0.9 of the sure one: (0.9 * 1 + 0.5 + 0.5) / 2.9.
  CHECK(forecast.bin_probabilities[6] == Approx(1.9 / 2.9));
  CHECK(forecast.bin_probabilities[4] == Approx(1.0 / 2.9));
  CHECK(forecast.token_usage.input_tokens == 300);
  CHECK(forecast.token_usage.cost_dollars == Approx(1.5));
  CHECK_THAT(forecast.backend_version, Contains("samples=3"));
  CHECK(fixture.cache.size() == 1);
}

TEST_CASE("Further samples are requested when no first token was reported", "[forecaster][llm]") {
  Fixture fixture(/*samples=*/2);
  fixture.Ask(1, 0);
  fixture.client.Say(1, kSure);
  REQUIRE(fixture.client.WaitForCalls(2));
  fixture.client.Say(2, kSure);
  CHECK(fixture.results.Forecast(1).predicted_bin == 7);
}

TEST_CASE("The parsable samples are pooled but not cached", "[forecaster][llm]") {
  Fixture fixture(/*samples=*/3);
  fixture.Ask(1, 0);
  fixture.client.WaitForCalls(1);
  fixture.client.FirstToken(1);
  fixture.client.WaitForCalls(3);
  fixture.client.Say(1, kSure);
  fixture.client.Fail(2, ErrorKind::kCutOff);
  fixture.client.Say(3, kNothing);
  fixture.client.Say(4, kNothing);
  CHECK(fixture.results.Forecast(1).predicted_bin == 7);
  CHECK(fixture.cache.size() == 0);
}

TEST_CASE("A model that declines half of the samples defers", "[forecaster][llm]") {
  Fixture fixture(/*samples=*/3);
  for (const bool defer : {false, true}) {
    const int question = defer ? 2 : 1;
    const llm::CallId base = defer ? 3 : 0;
    fixture.Ask(question, defer ? 1 : 0);
    fixture.client.WaitForCalls(base + 1);
    fixture.client.FirstToken(base + 1);
    fixture.client.WaitForCalls(base + 3);
    fixture.client.Say(base + 1, kDefers);
    fixture.client.Say(base + 2, kSure);
    if (defer) {
      fixture.client.Fail(base + 3, ErrorKind::kCutOff);
      CHECK(fixture.results.Abstained(question).cause == Cause::kModelDeferred);
    } else {
      fixture.client.Say(base + 3, kSure);
      CHECK(fixture.results.Forecast(question).predicted_bin == 7);
    }
  }
}

TEST_CASE("A failed first sample is not followed by others", "[forecaster][llm]") {
  Fixture fixture(/*samples=*/5);
  fixture.Ask(1, 0);
  fixture.client.Fail(1, ErrorKind::kUnavailable);
  CHECK(fixture.results.Abstained(1).cause == Cause::kEndpointUnavailable);
  CHECK(fixture.client.submitted() == 1);
}

TEST_CASE("The streams are closed when all callers have left", "[forecaster][llm]") {
  Fixture fixture;
  std::stop_source one;
  std::stop_source other;
  fixture.Ask(1, 0, {kNever, one.get_token()});
  fixture.Ask(2, 0, {kNever, other.get_token()});
  fixture.client.WaitForCalls(1);
  one.request_stop();
  CHECK(fixture.results.Abstained(1).cause == Cause::kEndpointUnavailable);
  // One caller still waits.
  fixture.Ask(3, 0);
  other.request_stop();
  CHECK(fixture.results.Abstained(2).reason == "the caller has left");
  fixture.client.Say(1, kSure);
  CHECK(fixture.results.Forecast(3).predicted_bin == 7);

  std::stop_source last;
  fixture.Ask(4, 1, {kNever, last.get_token()});
  fixture.client.WaitForCalls(2);
  last.request_stop();
  CHECK(fixture.client.WaitForCancel(2));
  fixture.results.Abstained(4);
  // The same question is a new one now, whatever happens to the old.
  fixture.Ask(5, 1);
  REQUIRE(fixture.client.WaitForCalls(3));
  fixture.client.Fail(2, ErrorKind::kCancelled);
  fixture.client.Say(3, kUnsure);
  CHECK(fixture.results.Forecast(5).predicted_bin == 5);
}

TEST_CASE("A caller that already left causes no request", "[forecaster][llm]") {
  Fixture fixture;
  std::stop_source source;
  source.request_stop();
  fixture.Ask(1, 0, {kNever, source.get_token()});
  CHECK(fixture.results.Abstained(1).reason == "the caller has left");
  CHECK(fixture.client.submitted() == 0);
}

TEST_CASE("A caller that joined with more time is retried", "[forecaster][llm]") {
  Fixture fixture;
  constexpr int64_t kSecond = 1'000'000'000;
  fixture.Ask(1, 0, {2 * kSecond, {}});
  fixture.client.WaitForCalls(1);
  // A twentieth of the time is kept for the reply.
  CHECK(fixture.client.request(1).deadline_ns == kSecond + kSecond * 19 / 20);
  fixture.Ask(2, 0, {60 * kSecond, {}});
  fixture.Ask(3, 0, {2 * kSecond + 1000, {}});
  // The others have arrived by then.
  fixture.Ask(4, 1);
  fixture.client.WaitForCalls(2);
  fixture.client.Fail(1, ErrorKind::kDeadlineExceeded);
  CHECK(fixture.results.Abstained(1).cause == Cause::kEndpointUnavailable);
  CHECK(fixture.results.Abstained(3).cause == Cause::kEndpointUnavailable);
  REQUIRE(fixture.client.WaitForCalls(3));
  CHECK(fixture.client.request(3).deadline_ns == kSecond + 59 * kSecond * 19 / 20);
  fixture.client.Say(3, kSure);
  CHECK(fixture.results.Forecast(2).predicted_bin == 7);
}

TEST_CASE("The token budget of a problem runs out", "[forecaster][llm]") {
  // Room for one question under way; its actual cost is lower.
  const uint64_t estimate = [] {
    Fixture fixture;
    const RenderedPrompt prompt = fixture.backend.ShowPrompt(Input(0)).value();
    return (prompt.system.size() + prompt.user.size()) / 3 + 1024;
  }();
  Fixture fixture(1, estimate + 200);
  fixture.Ask(1, 0);
  fixture.client.WaitForCalls(1);
  fixture.Ask(2, 1);
  CHECK(fixture.results.Abstained(2).cause == Cause::kBudget);
  fixture.client.Say(1, kSure);
  fixture.results.Forecast(1);
  // 120 tokens were spent; 200 remain besides the estimate.
  fixture.Ask(3, 1);
  fixture.client.Say(2, kUnsure);
  fixture.results.Forecast(3);
  fixture.Ask(4, 2);
  CHECK(fixture.results.Abstained(4).cause == Cause::kBudget);
  // A cached answer costs nothing.
  fixture.Ask(5, 0);
  CHECK(fixture.results.Forecast(5).predicted_bin == 7);
}

TEST_CASE("The token budget of one search runs out without affecting others", "[forecaster][llm]") {
  Fixture fixture;
  const uint64_t estimate = [&] {
    const RenderedPrompt prompt = fixture.backend.ShowPrompt(Input(0)).value();
    return (prompt.system.size() + prompt.user.size()) / 3 + 1024;
  }();
  ForecastCall mine;
  mine.search_id = "mine";
  mine.max_search_tokens = estimate + 200;
  fixture.Ask(1, 0, mine);
  REQUIRE(fixture.client.WaitForCalls(1));
  fixture.Ask(2, 1, mine);
  const Abstention spent = fixture.results.Abstained(2);
  CHECK(spent.cause == Cause::kBudget);
  CHECK_THAT(spent.reason, Contains("tokens for this search are spent"));
  fixture.client.Say(1, kSure);
  fixture.results.Forecast(1);
  // 120 tokens were spent; 200 remain besides the estimate.
  fixture.Ask(3, 1, mine);
  REQUIRE(fixture.client.WaitForCalls(2));
  fixture.client.Say(2, kUnsure);
  fixture.results.Forecast(3);
  fixture.Ask(4, 2, mine);
  CHECK(fixture.results.Abstained(4).cause == Cause::kBudget);

  ForecastCall other = mine;
  other.search_id = "other";
  fixture.Ask(5, 2, other);
  REQUIRE(fixture.client.WaitForCalls(3));
  fixture.client.Say(3, kSure);
  CHECK(fixture.results.Forecast(5).predicted_bin == 7);
}

TEST_CASE("An overlong candidate is not covered", "[forecaster][llm]") {
  Fixture fixture(1, 0, /*max_bytes=*/1000);
  fixture.Ask(1, 0);
  const Abstention abstention = fixture.results.Abstained(1);
  CHECK(abstention.cause == Cause::kNotCovered);
  CHECK_THAT(abstention.reason, Contains("the limit is 1000"));
  CHECK(absl::IsResourceExhausted(fixture.backend.ShowPrompt(Input(0)).status()));
  CHECK(fixture.client.submitted() == 0);
}

TEST_CASE("A client that accepts no more calls counts as an unavailable endpoint",
          "[forecaster][llm]") {
  Fixture fixture;
  fixture.client.Refuse(true);
  fixture.Ask(1, 0);
  CHECK(fixture.results.Abstained(1).cause == Cause::kEndpointUnavailable);
  fixture.client.Refuse(false);
  fixture.Ask(2, 0);
  fixture.client.Say(1, kSure);
  CHECK(fixture.results.Forecast(2).predicted_bin == 7);
}

TEST_CASE("New feedback makes a new question", "[forecaster][llm]") {
  Fixture fixture;
  fixture.Ask(1, 0);
  fixture.client.Say(1, kSure);
  fixture.results.Forecast(1);
  ObservedLabel observed;
  observed.problem = Planted().context();
  observed.sequence = 1;
  observed.label = Planted().MakeLabel(1);
  fixture.backend.Observe({observed});
  fixture.Ask(2, 0);
  REQUIRE(fixture.client.WaitForCalls(2));
  CHECK_THAT(fixture.client.request(2).prompt->json(), Contains("- S = "));
  fixture.client.Say(2, kSure);
  fixture.results.Forecast(2);
}

TEST_CASE("Asked again, the model's last answer is reused at no cost", "[forecaster][llm]") {
  Fixture fixture;
  ForecastCall again;
  again.again = true;
  fixture.Ask(1, 0, again);
  CHECK(fixture.results.Abstained(1).cause == Abstention::Cause::kNotCovered);
  fixture.Ask(2, 0);
  fixture.client.Say(1, kSure);
  fixture.results.Forecast(2);
  // New labels make another question, which is not sent.
  ObservedLabel observed;
  observed.problem = Planted().context();
  observed.sequence = 1;
  observed.label = Planted().MakeLabel(1);
  fixture.backend.Observe({observed});
  fixture.Ask(3, 0, again);
  CHECK(fixture.results.Forecast(3).predicted_bin == 7);
  CHECK(fixture.results.Forecast(3).token_usage.input_tokens == 0);
  // Another candidate has no answer yet.
  fixture.Ask(4, 1, again);
  CHECK(fixture.results.Abstained(4).cause == Abstention::Cause::kNotCovered);
  // Nor has another device model.
  ForecastInput elsewhere = Input(0);
  elsewhere.device_model = "another GPU";
  fixture.backend.Forecast(elsewhere, again, fixture.results.Slot(5));
  CHECK(fixture.results.Abstained(5).cause == Abstention::Cause::kNotCovered);
  CHECK(fixture.client.submitted() == 1);
}

std::shared_ptr<const AnchorKernel> AnchorOf(size_t candidate, double speedup) {
  AnchorKernel anchor;
  anchor.candidate = Planted().candidates()[candidate];
  anchor.facts = Planted().Facts(candidate);
  anchor.speedup = {speedup, speedup, speedup, 0.95};
  anchor.times = {{{{"n", 4096}}, 12'300}};
  return std::make_shared<const AnchorKernel>(std::move(anchor));
}

TEST_CASE("A model compares with the anchor and its answer is relative to the reference",
          "[forecaster][llm]") {
  Fixture fixture;
  ForecastInput input = Input(0);
  input.anchor = AnchorOf(3, 7);
  fixture.backend.Forecast(input, {}, fixture.results.Slot(1));
  REQUIRE(fixture.client.WaitForCalls(1));
  const nlohmann::json messages = nlohmann::json::parse(fixture.client.request(1).prompt->json());
  const std::string user = messages[1]["content"];
  CHECK_THAT(user, Contains("measured to be 7 times as fast as the reference"));
  CHECK_THAT(user, Contains("12.3 us at n=4096"));
  CHECK_THAT(user, Contains(Planted().candidates()[3].source));
  CHECK_THAT(user, Contains("The column \"reference\" is the baseline's."));
  fixture.client.Say(1, kSure);  // 2x to 4x of the anchor
  const kernelcast::Forecast forecast = fixture.results.Forecast(1);
  CHECK(ValidateForecast(forecast).ok());
  REQUIRE(forecast.anchor.has_value());
  CHECK(forecast.anchor->candidate_id == Planted().candidates()[3].candidate_id);
  CHECK(forecast.anchor->speedup == 7);
  CHECK(forecast.predicted_bin == 8);
  CHECK(WinProbability(forecast, 14).value() > 0.8);
  CHECK(WinProbability(forecast, 28).value() < 0.1);
}

TEST_CASE("Asked again, an answer that is inconclusive for the anchor costs a new request",
          "[forecaster][llm]") {
  Fixture fixture;
  ForecastCall again;
  again.again = true;
  fixture.Ask(1, 0);
  fixture.client.Say(1, R"({"p_extreme_speedup": 1})");
  CHECK(fixture.results.Forecast(1).predicted_bin == 8);
  ForecastInput input = Input(0);
  // For an incumbent of 3x the first answer is conclusive.
  input.anchor = AnchorOf(3, 3);
  fixture.backend.Forecast(input, again, fixture.results.Slot(2));
  CHECK_FALSE(fixture.results.Forecast(2).anchor.has_value());
  CHECK(fixture.client.submitted() == 1);
  input.anchor = AnchorOf(3, 7);
  fixture.backend.Forecast(input, again, fixture.results.Slot(3));
  REQUIRE(fixture.client.WaitForCalls(2));
  fixture.client.Say(2, kSure);
  CHECK(fixture.results.Forecast(3).anchor->speedup == 7);
  // The new answer is used from now on.
  fixture.backend.Forecast(input, again, fixture.results.Slot(4));
  CHECK(fixture.results.Forecast(4).anchor->speedup == 7);
  CHECK(fixture.client.submitted() == 2);
}

TEST_CASE("A kernel is not compared with itself", "[forecaster][llm]") {
  Fixture fixture;
  ForecastInput input = Input(0);
  input.anchor = AnchorOf(0, 7);
  fixture.backend.Forecast(input, {}, fixture.results.Slot(1));
  fixture.client.Say(1, kSure);
  CHECK_FALSE(fixture.results.Forecast(1).anchor.has_value());
}

TEST_CASE("Model use is reported with each answer and counted", "[forecaster][llm]") {
  Fixture fixture;
  fixture.Ask(1, 0);
  fixture.client.Say(1, kSure);
  CHECK(fixture.results.Forecast(1).model->outcome == ModelOutcome::kUsed);
  fixture.Ask(2, 1);
  fixture.client.Say(2, kNothing);
  fixture.client.Say(3, kNothing);
  const Abstention unreadable = fixture.results.Abstained(2);
  REQUIRE(unreadable.model.has_value());
  CHECK(unreadable.model->outcome == ModelOutcome::kUnreadable);
  CHECK(unreadable.model->fault == "no_tool");
  CHECK(unreadable.model->detail == kNothing);
  // Both were paid for.
  CHECK(unreadable.model->token_usage.input_tokens == 200);
  fixture.Ask(3, 2);
  fixture.client.Say(4, kDefers);
  CHECK(fixture.results.Abstained(3).model->outcome == ModelOutcome::kDeclined);
  const ModelUse use = fixture.backend.Describe().model_use.value();
  CHECK(use.asked == 3);
  CHECK(use.used == 1);
  CHECK(use.declined == 1);
  CHECK(use.unreadable.at("no_tool") == ModelUse::Unreadable{1, kNothing});
  CHECK(use.token_usage.input_tokens == 400);
}

TEST_CASE("The description shows the prompt", "[forecaster][llm]") {
  Fixture fixture;
  const BackendDescription description = fixture.backend.Describe();
  CHECK(description.name == "llm");
  REQUIRE(description.prompts.size() == 1);
  CHECK_THAT(description.prompts[0].version, StartsWith("speedup-bins/2@"));
  CHECK_THAT(description.prompts[0].system_template, Contains("{{bin_table}}"));
}

TEST_CASE("Destroying the backend answers nobody", "[forecaster][llm]") {
  FakeClock clock;
  FakeChatClient client;
  Results results;
  {
    LlmBackend backend(Fixture::Options(1, 0, 1 << 20), &client, nullptr, nullptr, clock);
    backend.Forecast(Input(0), {}, results.Slot(1));
    client.WaitForCalls(1);
  }
  CHECK(client.WaitForCancel(1));
  client.Say(1, kSure);
  CHECK(results.count() == 0);
}

}  // namespace
}  // namespace kernelcast::forecaster
