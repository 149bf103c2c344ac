// Tests the llm backend and the pool against a misbehaving endpoint over real sockets.

#include "services/forecaster/llm/llm_backend.h"

#include <malloc.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/llm/chat_client.h"
#include "common/llm/client.h"
#include "services/forecaster/embedded/embedded_backend.h"
#include "services/forecaster/pool/pool_backend.h"
#include "services/forecaster/store/forecast_cache_file.h"
#include "tests/fakes/llm_endpoint/llm_endpoint.h"
#include "tests/support/eventually.h"
#include "tests/support/metrics_page.h"
#include "tests/support/sanitized.h"
#include "tests/support/services.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

using testing::Eventually;
using testing::FakeEndpointOptions;
using testing::FakeLlmEndpoint;
using testing::Fault;
using testing::kSanitized;
using testing::MetricsPage;
using testing::TemporaryFolder;
using Cause = Abstention::Cause;

constexpr int64_t kMillisecondNs = 1'000'000;
constexpr auto kLimit = std::chrono::seconds(120);

const PlantedProblem& Planted() {
  static const PlantedProblem& problem = *new PlantedProblem();
  return problem;
}

// A different candidate for each number.
ForecastInput Input(int number) {
  ForecastInput input;
  input.problem = Planted().context();
  input.candidate = Planted().candidates()[static_cast<size_t>(number) % Planted().size()];
  input.candidate.source = absl::StrCat("// ", number, "\n");
  input.candidate.candidate_id = CandidateId(input.candidate);
  input.facts = Planted().Facts(static_cast<size_t>(number) % Planted().size());
  input.reference_facts = Planted().ReferenceFacts();
  return input;
}

class Tally {
 public:
  Backend::Done Slot(int number) {
    return [this, number](ForecastResult result) {
      std::lock_guard lock(mutex_);
      ++answers_[number];
      if (const auto* forecast = std::get_if<Forecast>(&result)) {
        ++forecasts_;
        if (!ValidateForecast(*forecast).ok()) ++invalid_;
      } else {
        ++causes_[std::get<Abstention>(result).cause];
        last_reason_ = std::get<Abstention>(result).reason;
        if (last_reason_.empty()) ++unexplained_;
        // "ENDPOINT: KIND: message"
        const size_t kind = last_reason_.find(": ");
        ++reasons_[last_reason_.substr(0, last_reason_.find(": ", kind + 1))];
      }
      results_.insert_or_assign(number, std::move(result));
      changed_.notify_all();
    };
  }
  // Returns whether this many numbers were answered within the limit.
  bool Wait(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLimit, [&] { return answers_.size() >= count; });
  }
  ForecastResult Result(int number) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kLimit, [&] { return results_.contains(number); }));
    return results_.at(number);
  }
  size_t forecasts() {
    std::lock_guard lock(mutex_);
    return forecasts_;
  }
  size_t invalid() {
    std::lock_guard lock(mutex_);
    return invalid_;
  }
  // Abstentions without a reason.
  size_t unexplained() {
    std::lock_guard lock(mutex_);
    return unexplained_;
  }
  std::map<Cause, size_t> causes() {
    std::lock_guard lock(mutex_);
    return causes_;
  }
  std::map<std::string, size_t> reasons() {
    std::lock_guard lock(mutex_);
    return reasons_;
  }
  size_t answered_twice() {
    std::lock_guard lock(mutex_);
    size_t count = 0;
    for (const auto& [number, times] : answers_) count += times != 1;
    return count;
  }
  std::string last_reason() {
    std::lock_guard lock(mutex_);
    return last_reason_;
  }
  void ForgetResults() {
    std::lock_guard lock(mutex_);
    results_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, int> answers_;
  std::map<int, ForecastResult> results_;
  std::map<Cause, size_t> causes_;
  std::map<std::string, size_t> reasons_;
  std::string last_reason_;
  size_t forecasts_ = 0;
  size_t invalid_ = 0;
  size_t unexplained_ = 0;
};

// With `stubborn`, an endpoint that fails a third of the time is retried indefinitely.
llm::LlmConfig ConfigFor(const FakeLlmEndpoint& endpoint, bool stubborn) {
  llm::LlmConfig config = llm::ConfigForUrl(endpoint.url(), "fake").value();
  config.connect_timeout_ns = 500 * kMillisecondNs;
  config.first_byte_timeout_ns = 300 * kMillisecondNs;
  config.silence_timeout_ns = 200 * kMillisecondNs;
  config.total_ns = 5'000 * kMillisecondNs;
  config.backoff_base_ns = 5 * kMillisecondNs;
  config.backoff_cap_ns = 50 * kMillisecondNs;
  config.breaker_open_ns = 50 * kMillisecondNs;
  config.breaker_open_cap_ns = 200 * kMillisecondNs;
  if (stubborn) {
    config.breaker_open_ns = kMillisecondNs;
    config.breaker_open_cap_ns = 4 * kMillisecondNs;
    config.breaker_consecutive_failures = 1000;
    config.breaker_failure_ratio = 1;
    config.retry_budget_ratio = 0.5;
  }
  return config;
}

// Backend and client of one endpoint, with a cache on disk.
struct Fixture {
  explicit Fixture(FakeEndpointOptions endpoint_options = {}, int samples = 1,
                   uint64_t max_problem_tokens = 0, bool stubborn = false)
      : folder("llm"),
        endpoint(FakeLlmEndpoint::Start(std::move(endpoint_options)).value()),
        metrics(registry, {"here"}),
        cache(ForecastCacheFile::Open(folder.File("state"), 64 << 20).value()),
        client(llm::LlmClient::Create(ConfigFor(*endpoint, stubborn), &metrics).value()),
        endpoints(client.get()) {
    LlmBackendOptions options(ForecastPrompt::Builtin(kDefaultPromptVersion).value());
    options.models = {"fake"};
    options.samples = samples;
    options.wait_for_recovery = stubborn;
    options.max_problem_tokens = max_problem_tokens;
    backend = std::make_unique<LlmBackend>(std::move(options), &endpoints, cache.get(), &metrics);
  }

  void Ask(int number, const ForecastCall& call = {}) {
    backend->Forecast(Input(number), call, tally.Slot(number));
  }
  double Metric(const std::string& series) const {
    return MetricsPage(registry.Text()).Value(series);
  }

  TemporaryFolder folder;
  std::unique_ptr<FakeLlmEndpoint> endpoint;
  MetricsRegistry registry;
  LlmMetrics metrics;
  std::unique_ptr<ForecastCacheFile> cache;
  std::unique_ptr<llm::LlmClient> client;
  llm::EndpointClient endpoints;
  Tally tally;
  std::unique_ptr<LlmBackend> backend;
};

size_t EntriesOf(const char* folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

// Checks that the client's metrics match its own statistics.
void CheckMetrics(const Fixture& fixture) {
  const llm::ClientStats stats = fixture.client->Stats();
  const MetricsPage page(fixture.registry.Text());
  const auto check = [&page](const std::string& name, const std::string& labels, double expected) {
    const std::string series = absl::StrCat("kernelcast_forecaster_llm_", name,
                                            labels.empty() ? "" : absl::StrCat("{", labels, "}"));
    INFO(series);
    CHECK(page.Value(series) == expected);
  };
  const auto word = [](int kind) {
    return kind == 0 ? std::string("ok")
                     : std::string(llm::ErrorKindName(static_cast<llm::ErrorKind>(kind)));
  };
  check("pending_calls", "", static_cast<double>(stats.calls_pending));
  check("queued_calls", "", static_cast<double>(stats.calls_queued));
  check("pending_bytes", "", static_cast<double>(stats.pending_bytes));
  check("calls_overloaded_total", "", static_cast<double>(stats.calls_overloaded));
  check("retries_denied_total", "", static_cast<double>(stats.retries_denied));
  for (int kind = 0; kind < llm::kErrorKindCount; ++kind) {
    check("calls_total", absl::StrCat("result=\"", word(kind), "\""),
          static_cast<double>(stats.calls_by_result[static_cast<size_t>(kind)]));
  }
  CHECK(page.Sum("kernelcast_forecaster_llm_calls_total") ==
        static_cast<double>(stats.calls_submitted - stats.calls_pending));
  const llm::EndpointStats& endpoint = stats.endpoints.front();
  const std::string here = "endpoint=\"here\"";
  for (int kind = 0; kind < llm::kErrorKindCount; ++kind) {
    check("attempts_total", absl::StrCat(here, ",result=\"", word(kind), "\""),
          static_cast<double>(endpoint.attempts_by_result[static_cast<size_t>(kind)]));
    if (kind == 0) continue;
    check("retries_total", absl::StrCat(here, ",reason=\"", word(kind), "\""),
          static_cast<double>(endpoint.retries_by_reason[static_cast<size_t>(kind)]));
  }
  CHECK(page.Sum("kernelcast_forecaster_llm_attempts_total") ==
        static_cast<double>(endpoint.attempts_started - endpoint.in_flight));
  check("hedges_total", here, static_cast<double>(endpoint.hedges));
  check("hedges_won_total", here, static_cast<double>(endpoint.hedges_won));
  const auto tokens = [](const char* kind) {
    return absl::StrCat("endpoint=\"here\",kind=\"", kind, "\"");
  };
  check("tokens_total", tokens("input"), static_cast<double>(endpoint.prompt_tokens));
  check("tokens_total", tokens("cached_input"), static_cast<double>(endpoint.cached_prompt_tokens));
  check("tokens_total", tokens("output"), static_cast<double>(endpoint.completion_tokens));
  check("answers_without_usage_total", here, static_cast<double>(endpoint.answers_without_usage));
  check("cost_total", here, endpoint.cost);
  check("in_flight", here, endpoint.in_flight);
  check("concurrency_limit", here, endpoint.concurrency_limit);
  check("breaker_state", here, static_cast<double>(endpoint.breaker));
  const auto changes = [](const char* state) {
    return absl::StrCat("endpoint=\"here\",state=\"", state, "\"");
  };
  check("breaker_changes_total", changes("open"), static_cast<double>(endpoint.breaker_opened));
  check("breaker_changes_total", changes("closed"), static_cast<double>(endpoint.breaker_closed));
}

// Bytes allocated and not freed. Resident memory depends on how many threads contended in the
// allocator.
int64_t BytesInUse() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

TEST_CASE("Every candidate ends as a forecast or an abstention under every endpoint fault",
          "[llm][slow]") {
  constexpr int kCandidates = kSanitized ? 1'500 : 10'000;
  constexpr int kInFlight = 256;
  {
    // Warms up the one-time allocations of sanitizers and libraries before counting begins.
    Fixture first;
    first.Ask(0);
    REQUIRE(first.tally.Wait(1));
  }
  const size_t threads_before = EntriesOf("/proc/self/task");
  const size_t files_before = EntriesOf("/proc/self/fd");
  {
    FakeEndpointOptions options;
    // A third of the requests get a fault, chosen from all of them.
    for (const Fault fault : testing::AllFaults()) {
      options.faults[fault] = 1.0 / (3 * testing::kFaultCount);
    }
    // Each of these blocks the whole endpoint for up to one second.
    options.faults[Fault::kRateLimitDate] /= 20;
    options.retry_after = "0";
    options.loris_interval_us = 2'000;
    Fixture fixture(std::move(options), 1, 0, /*stubborn=*/true);
    const int64_t deadline_ns = Clock::Real().MonotonicNs() + 600'000 * kMillisecondNs;
    int64_t early_bytes = 0;
    for (int number = 0; number < kCandidates; ++number) {
      if (number >= kInFlight) {
        REQUIRE(fixture.tally.Wait(static_cast<size_t>(number - kInFlight + 1)));
      }
      if (number % 1000 == 0) fixture.tally.ForgetResults();
      if (number == kCandidates / 4) early_bytes = BytesInUse();
      fixture.Ask(number, {deadline_ns, {}});
    }
    REQUIRE(fixture.tally.Wait(kCandidates));
    fixture.tally.ForgetResults();
    const int64_t grown = BytesInUse() - early_bytes;
    const std::map<Cause, size_t> causes = fixture.tally.causes();
    size_t abstentions = 0;
    for (const auto& [cause, count] : causes) abstentions += count;
    UNSCOPED_INFO("forecasts " << fixture.tally.forecasts() << ", deferred "
                               << (causes.contains(Cause::kModelDeferred)
                                       ? causes.at(Cause::kModelDeferred)
                                       : 0));
    CHECK(fixture.tally.forecasts() + abstentions == kCandidates);
    CHECK(fixture.tally.answered_twice() == 0);
    CHECK(fixture.tally.invalid() == 0);
    CHECK(fixture.tally.unexplained() == 0);
    CHECK(fixture.tally.forecasts() > kCandidates / 2);
    // Every fault occurred.
    const testing::FakeEndpointSeen seen = fixture.endpoint->Seen();
    for (const Fault fault : testing::AllFaults()) {
      INFO(std::string(testing::FaultName(fault)));
      if (fault != Fault::kRateLimitDate) CHECK(seen.faults.contains(fault));
    }
    const std::pair<Cause, const char*> words[] = {{Cause::kModelDeferred, "deferred"},
                                                   {Cause::kUnparsable, "unparsable"},
                                                   {Cause::kEndpointUnavailable, "unavailable"},
                                                   {Cause::kBudget, "budget"},
                                                   {Cause::kNotCovered, "not_covered"}};
    for (const auto& [cause, name] : words) {
      INFO(name);
      CHECK(fixture.Metric(
                absl::StrCat("kernelcast_forecaster_llm_questions_total{result=\"", name, "\"}")) ==
            static_cast<double>(causes.contains(cause) ? causes.at(cause) : 0));
    }
    CheckMetrics(fixture);
    std::printf("%d candidates: %zu forecasts", kCandidates, fixture.tally.forecasts());
    for (const auto& [reason, count] : fixture.tally.reasons()) {
      std::printf(", %s: %zu", reason.c_str(), count);
    }
    std::printf("; %lld KiB more than after a quarter\n", static_cast<long long>(grown / 1024));
    // A settled question leaves nothing in memory.
    if (!kSanitized) {
      CHECK(early_bytes > 0);  // checks that this allocator is measured
      CHECK(grown < int64_t{8} << 20);
    }
    CHECK(fixture.Metric(R"(kernelcast_forecaster_llm_questions_total{result="forecast"})") ==
          static_cast<double>(fixture.tally.forecasts()));
  }
  CHECK(Eventually([&] { return EntriesOf("/proc/self/task") <= threads_before; }));
  CHECK(EntriesOf("/proc/self/fd") <= files_before);
}

TEST_CASE("The ladder finds the best form that an endpoint supports", "[llm]") {
  FakeEndpointOptions options;
  Rung expected = Rung::kJsonSchema;
  SECTION("everything") {}
  SECTION("no schemas") {
    options.supports_json_schema = false;
    expected = Rung::kToolsNamed;
  }
  SECTION("no schemas and no choice of tools") {
    options.supports_json_schema = false;
    options.supports_named_tool_choice = false;
    expected = Rung::kToolsAuto;
  }
  SECTION("text only") {
    options.supports_json_schema = false;
    options.supports_tools = false;
    expected = Rung::kText;
  }
  Fixture fixture(options);
  for (int number = 0; number < 20; ++number) {
    fixture.Ask(number);
    const ForecastResult result = fixture.tally.Result(number);
    INFO(fixture.tally.last_reason());
    REQUIRE(std::holds_alternative<Forecast>(result));
  }
  // Only the first question used a refused form.
  CHECK(fixture.endpoint->Seen().requests == 20 + static_cast<int>(expected));
  CHECK(fixture.Metric(
            absl::StrCat(R"(kernelcast_forecaster_llm_answers_total{outcome="answered",rung=")",
                         std::string(Name(expected)), "\"}")) == 20);
}

TEST_CASE("A question asked by many callers costs one request", "[llm]") {
  FakeEndpointOptions options;
  options.latency_us = 200'000;
  Fixture fixture(options);
  for (int asker = 0; asker < 100; ++asker) {
    fixture.backend->Forecast(Input(1), {}, fixture.tally.Slot(asker));
  }
  REQUIRE(fixture.tally.Wait(100));
  CHECK(fixture.tally.forecasts() == 100);
  fixture.backend->Forecast(Input(1), {}, fixture.tally.Slot(100));
  REQUIRE(fixture.tally.Wait(101));
  CHECK(fixture.endpoint->Seen().requests == 1);
}

TEST_CASE("Samples are one request each", "[llm]") {
  Fixture fixture({}, /*samples=*/4);
  fixture.Ask(1);
  REQUIRE(std::holds_alternative<Forecast>(fixture.tally.Result(1)));
  CHECK(fixture.endpoint->Seen().requests == 4);
}

TEST_CASE("An endpoint outage is noticed and then forgotten", "[llm]") {
  Fixture fixture;
  fixture.Ask(0);
  REQUIRE(std::holds_alternative<Forecast>(fixture.tally.Result(0)));
  fixture.endpoint->Die();
  for (int number = 1; number <= 20; ++number) fixture.Ask(number);
  for (int number = 1; number <= 20; ++number) {
    const ForecastResult result = fixture.tally.Result(number);
    REQUIRE(std::holds_alternative<Abstention>(result));
    CHECK(std::get<Abstention>(result).cause == Cause::kEndpointUnavailable);
  }
  // Cached answers are still available.
  fixture.backend->Forecast(Input(0), {}, fixture.tally.Slot(100));
  CHECK(std::holds_alternative<Forecast>(fixture.tally.Result(100)));
  CHECK(fixture.Metric(
            R"(kernelcast_forecaster_llm_breaker_changes_total{endpoint="here",state="open"})") >=
        1);
  CheckMetrics(fixture);
  fixture.endpoint->Return();
  // Failures were not cached as answers.
  int attempt = 1000;
  CHECK(Eventually([&] {
    fixture.backend->Forecast(Input(1), {}, fixture.tally.Slot(++attempt));
    return std::holds_alternative<Forecast>(fixture.tally.Result(attempt));
  }));
}

TEST_CASE("Callers that leave close the endpoint's streams", "[llm]") {
  FakeEndpointOptions options;
  options.faults[Fault::kHang] = 1;
  Fixture fixture(options);
  constexpr int kCalls = kSanitized ? 50 : 300;
  llm::LlmConfig config;
  std::stop_source leaving;
  for (int number = 0; number < kCalls; ++number) {
    fixture.Ask(number, {std::numeric_limits<int64_t>::max(), leaving.get_token()});
  }
  REQUIRE(Eventually([&] { return fixture.endpoint->Seen().live > 0; }));
  leaving.request_stop();
  REQUIRE(fixture.tally.Wait(kCalls));
  CHECK(Eventually([&] { return fixture.endpoint->Seen().live == 0; }));
  // The endpoint may see the end of the last call before the client counts it.
  CHECK(Eventually([&] { return fixture.client->Stats().calls_pending == 0; }));
}

TEST_CASE("A token budget is kept", "[llm]") {
  Fixture fixture({}, 1, /*max_problem_tokens=*/20'000);
  for (int number = 0; number < 200; ++number) fixture.Ask(number);
  REQUIRE(fixture.tally.Wait(200));
  const std::map<Cause, size_t> causes = fixture.tally.causes();
  REQUIRE(causes.contains(Cause::kBudget));
  CHECK(fixture.tally.forecasts() + causes.at(Cause::kBudget) == 200);
  const double tokens =
      fixture.Metric(R"(kernelcast_forecaster_llm_tokens_total{endpoint="here",kind="input"})") +
      fixture.Metric(R"(kernelcast_forecaster_llm_tokens_total{endpoint="here",kind="output"})");
  CHECK(tokens <= 20'000);
}

TEST_CASE("The pool continues without its model and resumes using it", "[llm][pool]") {
  Fixture fixture;
  EmbeddedBackend embedded({});
  PoolBackend pool({}, &embedded, fixture.backend.get(), nullptr);
  const auto ask = [&](int number) {
    pool.Forecast(Input(number), {}, fixture.tally.Slot(number));
    const ForecastResult result = fixture.tally.Result(number);
    REQUIRE(std::holds_alternative<Forecast>(result));
    const auto& forecast = std::get<Forecast>(result);
    CHECK(ValidateForecast(forecast).ok());
    CHECK(forecast.backend == "pool");
    return forecast.components.size();
  };
  // Nothing was learnt yet, so every question is open.
  CHECK(ask(0) == 2);
  fixture.endpoint->Die();
  CHECK(ask(1) == 1);
  CHECK(ask(2) == 1);
  fixture.endpoint->Return();
  int number = 100;
  CHECK(Eventually([&] { return ask(++number) == 2; }));
}

}  // namespace
}  // namespace kernelcast::forecaster
