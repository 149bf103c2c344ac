// Tests the program and the real services with the llama.cpp server. Its model is random; the
// worker replays synthetic records.

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/llama_site.h"
#include "tests/e2e/program.h"

namespace kernelcast::testing {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;

using Site = LlamaSite;

TEST_CASE("doctor finds the llama.cpp server and its model", "[e2e][llama]") {
  KERNELCAST_NEEDS_LLAMA();
  const Site site;
  const Outcome outcome = Run(
      site.home, {"doctor", "--state-dir", site.home.File("state"), "--llm", site.server->url()});
  INFO(outcome.out << outcome.err);
  CHECK_THAT(outcome.out, Contains("tiny-random at " + site.server->url()));
  const Outcome wrong = Run(site.home, {"doctor", "--state-dir", site.home.File("state"), "--llm",
                                        site.server->url(), "--llm-model", "large"});
  CHECK_THAT(wrong.out, Contains("has no model 'large'; it has tiny-random"));
}

TEST_CASE("forecast queries the llama.cpp server and every candidate gets an answer",
          "[e2e][llama]") {
  KERNELCAST_NEEDS_LLAMA();
  const Site site;
  constexpr size_t kCandidates = 5;
  const Outcome outcome =
      Run(site.home, {"forecast", site.problem, "--candidates", site.Candidates(kCandidates),
                      "--replay", site.records, "--state-dir", site.home.File("state"), "--llm",
                      site.server->url(), "--forecaster", "llm", "--show-prompt", "--json"});
  INFO(outcome.err);
  size_t prompts = 0;
  size_t forecasts = 0;
  size_t abstentions = 0;
  std::istringstream lines(outcome.out);
  for (std::string text; std::getline(lines, text);) {
    INFO(text);
    const json line = json::parse(text);
    if (line.contains("prompt")) ++prompts;
    if (line.contains("forecast")) {
      ++forecasts;
      CHECK_THAT(line["forecast"].at("backend").get<std::string>(), Contains("llm:tiny-random"));
    }
    if (line.contains("abstention")) {
      ++abstentions;
      const std::string cause = line["abstention"].at("cause").get<std::string>();
      CHECK((cause == "CAUSE_MODEL_DEFERRED" || cause == "CAUSE_UNPARSABLE" ||
             cause == "CAUSE_ENDPOINT_UNAVAILABLE"));
    }
  }
  CHECK(prompts == kCandidates);
  CHECK(forecasts + abstentions == kCandidates);
  CHECK(site.server->Alive());
}

TEST_CASE("A search pools forecasts of the llama.cpp server", "[e2e][llama]") {
  KERNELCAST_NEEDS_LLAMA();
  const Site site;
  const std::string forecasts = site.home.File("forecasts.jsonl");
  const Outcome outcome = Program(site.home, {"search",
                                              site.problem,
                                              "--json",
                                              "--replay",
                                              site.records,
                                              "--state-dir",
                                              site.home.File("state"),
                                              "--search-id",
                                              "s",
                                              "--no-report",
                                              "--forecaster",
                                              "pool",
                                              "--llm",
                                              site.server->url(),
                                              "--record-forecasts",
                                              forecasts,
                                              "--budget-measurements",
                                              "5",
                                              "--budget-candidates",
                                              "12"})
                              .Wait(150);
  INFO(outcome.err);
  CHECK((outcome.exit_code == 0 || outcome.exit_code == 1));
  const json result = json::parse(outcome.out);
  CHECK(result["status"] == "done");
  CHECK(result["end_reason"] != "stopped");
  CHECK(result["counts"]["considered"].get<int>() >= 5);
  // Every forecast came from the pool, with the model or, where it declined, without.
  size_t pooled = 0;
  size_t alone = 0;
  std::ifstream file(forecasts);
  for (std::string text; std::getline(file, text);) {
    INFO(text);
    const json forecast = json::parse(text).at("forecast");
    CHECK(forecast.at("backend") == "pool");
    ++(forecast.at("components").size() == 2 ? pooled : alone);
  }
  std::printf("%zu forecasts with the model, %zu without\n", pooled, alone);
  CHECK(pooled + alone >= result["counts"]["considered"].get<size_t>());
  CHECK(site.server->Alive());
}

}  // namespace
}  // namespace kernelcast::testing
