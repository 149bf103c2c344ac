// Tests the llm backend against the real llama.cpp server. The model is random, so the tests do not
// check the content of its answers. They check that every question ends in a valid form for each
// way of asking.

#include "tests/support/llama_server.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/llm/chat_client.h"
#include "common/llm/client.h"
#include "services/forecaster/llm/llm_backend.h"
#include "tests/support/eventually.h"
#include "tests/support/metrics_page.h"
#include "tests/support/services.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

using testing::Eventually;
using testing::LlamaServer;
using testing::MetricsPage;
using testing::TemporaryFolder;
using Cause = Abstention::Cause;

constexpr auto kLimit = std::chrono::seconds(90);
constexpr int64_t kSecondNs = 1'000'000'000;
// The model's answers end on their own after about 200 tokens.
constexpr int kMaxTokens = 600;

ForecastInput Input(int number) {
  static const PlantedProblem& planted = *new PlantedProblem();
  const size_t point = static_cast<size_t>(number) % planted.size();
  ForecastInput input;
  input.problem = planted.context();
  input.candidate = planted.candidates()[point];
  input.candidate.source = absl::StrCat("// ", number, "\n", input.candidate.source);
  input.candidate.candidate_id = CandidateId(input.candidate);
  input.facts = planted.Facts(point);
  input.reference_facts = planted.ReferenceFacts();
  return input;
}

struct Fixture {
  explicit Fixture(const std::vector<Rung>& rungs, const LlamaServer::Options& options = {})
      : folder("llama"),
        server([&] {
          auto started = LlamaServer::Start(folder, options);
          INFO(started.status().ToString());
          REQUIRE(started.ok());
          return *std::move(started);
        }()),
        metrics(registry, {"llama"}),
        client([&] {
          llm::LlmConfig config = llm::ConfigForUrl(server->url(), "tiny-random").value();
          config.endpoints.front().initial_concurrency = options.slots;
          config.endpoints.front().max_concurrency = options.slots;
          return llm::LlmClient::Create(std::move(config), &metrics).value();
        }()),
        endpoints(client.get()) {
    LlmBackendOptions backend_options(ForecastPrompt::Load(PromptWith(rungs)).value());
    backend_options.models = {"tiny-random"};
    backend_options.max_answer_tokens = kMaxTokens;
    backend = std::make_unique<LlmBackend>(std::move(backend_options), &endpoints,
                                           /*cache=*/nullptr, &metrics);
  }

  // The default prompt restricted to these forms.
  std::string PromptWith(const std::vector<Rung>& rungs) const {
    const std::string builtin =
        testing::SourcePath("services/forecaster/llm/prompts/speedup-bins-2/");
    for (const char* name : {"system.txt", "user.txt"}) {
      std::filesystem::copy_file(builtin + name, folder.File(name));
    }
    std::string names;
    for (const Rung rung : rungs) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", "\"", std::string(Name(rung)), "\"");
    }
    std::ofstream(folder.File("prompt.json"))
        << R"({"version": "test/1", "answer": "extended", "rungs": [)" << names << "]}";
    return folder.path().string();
  }

  void Ask(int number, const std::stop_token& cancelled = {}) {
    const ForecastCall call = {std::numeric_limits<int64_t>::max(), cancelled};
    backend->Forecast(Input(number), call, [this, number](ForecastResult result) {
      std::lock_guard lock(mutex);
      ++times_answered[number];
      results.insert_or_assign(number, std::move(result));
      changed.notify_all();
    });
  }
  ForecastResult Result(int number) {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, kLimit, [&] { return results.contains(number); }));
    return results.at(number);
  }
  double Metric(const std::string& series) const {
    return MetricsPage(registry.Text()).Value(series);
  }
  double Answers(Rung rung, const char* outcome) const {
    return Metric(absl::StrCat("kernelcast_forecaster_llm_answers_total{outcome=\"", outcome,
                               "\",rung=\"", std::string(Name(rung)), "\"}"));
  }

  TemporaryFolder folder;
  std::unique_ptr<LlamaServer> server;
  MetricsRegistry registry;
  LlmMetrics metrics;
  std::unique_ptr<llm::LlmClient> client;
  llm::EndpointClient endpoints;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int, int> times_answered;
  std::map<int, ForecastResult> results;
  std::unique_ptr<LlmBackend> backend;
};

// The outcome of a question: a valid forecast, or the cause of its deferral.
std::string Ending(const ForecastResult& result) {
  if (const auto* forecast = std::get_if<Forecast>(&result)) {
    const absl::Status valid = ValidateForecast(*forecast);
    INFO(valid.ToString());
    REQUIRE(valid.ok());
    CHECK(forecast->backend == "llm:tiny-random");
    CHECK(forecast->token_usage.input_tokens > 1000);
    CHECK(forecast->token_usage.output_tokens > 0);
    return "forecast";
  }
  const auto& abstention = std::get<Abstention>(result);
  INFO(abstention.reason);
  switch (abstention.cause) {
    case Cause::kModelDeferred: return "deferred";
    case Cause::kUnparsable: CHECK_FALSE(abstention.reason.empty()); return "unparsable";
    default: break;
  }
  // The server reports inside the stream what it cannot parse of its model's output.
  CHECK(abstention.cause == Cause::kEndpointUnavailable);
  CHECK_THAT(abstention.reason, Catch::Contains("server_error"));
  return "server_error";
}

TEST_CASE("llama.cpp answers in every requested form or the question is deferred", "[llm][llama]") {
  KERNELCAST_NEEDS_LLAMA();
  constexpr int kQuestions = 8;
  constexpr int kMostQuestions = 60;
  const Rung rung = GENERATE(Rung::kJsonSchema, Rung::kToolsNamed, Rung::kToolsAuto, Rung::kText);
  Fixture fixture({rung});
  std::map<std::string, int> endings;
  int asked = 0;
  // Answers in a form with a grammar are readable; without a grammar they are noise.
  const bool readable = rung != Rung::kText;
  while (asked < kQuestions ||
         (readable && asked < kMostQuestions && fixture.Answers(rung, "answered") == 0)) {
    const int first = asked;
    for (; asked < first + kQuestions; ++asked) fixture.Ask(asked);
    for (int number = first; number < asked; ++number) ++endings[Ending(fixture.Result(number))];
  }
  std::printf("%s:", std::string(Name(rung)).c_str());
  int ended = 0;
  for (const auto& [ending, count] : endings) {
    std::printf(" %d %s", count, ending.c_str());
    ended += count;
  }
  std::printf("\n");
  CHECK(ended == asked);
  for (const auto& [number, times] : fixture.times_answered) CHECK(times == 1);
  CHECK(fixture.server->Alive());
  CHECK(fixture.Answers(rung, "refused") == 0);
  if (readable) CHECK(fixture.Answers(rung, "answered") > 0);
  // No other form was requested.
  double answers = 0;
  for (const char* outcome : {"answered", "unparsable"}) answers += fixture.Answers(rung, outcome);
  CHECK(answers ==
        MetricsPage(fixture.registry.Text()).Sum("kernelcast_forecaster_llm_answers_total"));
}

TEST_CASE("llama.cpp answers at the top rung of the ladder", "[llm][llama]") {
  KERNELCAST_NEEDS_LLAMA();
  Fixture fixture({std::begin(kRungs), std::end(kRungs)});
  constexpr int kQuestions = 8;
  for (int number = 0; number < kQuestions; ++number) fixture.Ask(number);
  for (int number = 0; number < kQuestions; ++number) Ending(fixture.Result(number));
  CHECK(2 * fixture.Answers(Rung::kJsonSchema, "answered") >= kQuestions);
  // The prefix that all questions share is in the server's cache.
  CHECK(fixture.Metric(
            R"(kernelcast_forecaster_llm_tokens_total{endpoint="llama",kind="cached_input"})") > 0);
}

TEST_CASE("A prompt too long for llama.cpp's context is not covered", "[llm][llama]") {
  KERNELCAST_NEEDS_LLAMA();
  Fixture fixture({std::begin(kRungs), std::end(kRungs)}, {/*context_tokens=*/512, /*slots=*/1});
  fixture.Ask(0);
  const ForecastResult result = fixture.Result(0);
  REQUIRE(std::holds_alternative<Abstention>(result));
  const auto& abstention = std::get<Abstention>(result);
  CHECK(abstention.cause == Cause::kNotCovered);
  CHECK_THAT(abstention.reason, Catch::Contains("exceeds the available context size"));
  // This does not change the form of later questions.
  CHECK(MetricsPage(fixture.registry.Text())
            .Sum(R"(kernelcast_forecaster_llm_answers_total{outcome="refused")") == 0);
}

TEST_CASE("Callers that leave free llama.cpp's slots", "[llm][llama]") {
  KERNELCAST_NEEDS_LLAMA();
  Fixture fixture({Rung::kJsonSchema});
  std::stop_source leaving;
  constexpr int kQuestions = 40;
  for (int number = 1; number <= kQuestions; ++number) fixture.Ask(number, leaving.get_token());
  leaving.request_stop();
  for (int number = 1; number <= kQuestions; ++number) fixture.Result(number);
  fixture.Ask(0);
  Ending(fixture.Result(0));
  CHECK(Eventually([&] { return fixture.client->Stats().calls_pending == 0; }));
}

}  // namespace
}  // namespace kernelcast::forecaster
