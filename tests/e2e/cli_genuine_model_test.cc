// Tests the program and the real services with a small genuine model, SmolLM2-135M-Instruct, which
// llama.cpp serves. It forecasts badly and slowly, and says what no test would script. The worker
// replays synthetic records.

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/llama_site.h"
#include "tests/e2e/program.h"

namespace kernelcast::testing::cli_genuine_model_test {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;

constexpr int kContext = 8192;

struct Site : LlamaSite {
  Site() : LlamaSite({.context_tokens = kContext, .slots = 1, .genuine = true}) {}

  // A prompt of a few hundred tokens, and short answers, so that a test takes seconds.
  std::vector<std::string> Short(std::vector<std::string> arguments) const {
    const std::vector<std::string> options = {"--llm",
                                              server->url(),
                                              "--prompt-directory",
                                              SourcePath("tests/support/prompts/short_bins"),
                                              "--llm-max-tokens",
                                              "160"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return arguments;
  }
  std::vector<std::string> Search(const std::string& id,
                                  const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"search", problem,       "--json",      "--replay",
                                          records,  "--state-dir", home.File(id), "--search-id",
                                          id,       "--seed",      "3",           "--no-report"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
};

std::vector<json> Lines(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST_CASE("doctor and forecast work with a genuine model", "[e2e][llama][slow]") {
  KERNELCAST_NEEDS_GENUINE_MODEL();
  const Site site;
  const Outcome doctor = Run(site.home, {"doctor", "--state-dir", site.home.File("state"), "--llm",
                                         site.server->url(), "--llm-max-tokens", "8"});
  INFO(doctor.out << doctor.err);
  CHECK_THAT(doctor.out, Contains("smollm2 at " + site.server->url()) &&
                             Contains("answers a short question in"));

  const Outcome outcome =
      Program(site.home, site.Short({"forecast", site.problem, "--candidates", site.Candidates(1),
                                     "--replay", site.records, "--state-dir",
                                     site.home.File("state"), "--forecaster", "llm", "--json"}))
          .Wait(300);
  INFO(outcome.out << outcome.err);
  size_t answers = 0;
  for (const json& line : Lines(outcome.out)) {
    if (line.contains("forecast")) {
      ++answers;
      CHECK(line["forecast"].at("backend") == "llm:smollm2");
    }
    if (!line.contains("abstention")) continue;
    ++answers;
    // Its answer was read, and says what was wrong with it.
    CHECK(line["abstention"].at("cause") == "CAUSE_UNPARSABLE");
    CHECK_FALSE(line["abstention"]["model"].at("fault").get<std::string>().empty());
    CHECK(line["abstention"]["model"]["token_usage"].at("output_tokens") != "0");
  }
  CHECK(answers == 1);
  CHECK(site.server->Alive());
}

TEST_CASE("A genuine model takes part in every command", "[e2e][llama][long]") {
  KERNELCAST_NEEDS_GENUINE_MODEL();
  // Three times in a row, each from the beginning.
  for (int pass = 1; pass <= 3; ++pass) {
    INFO("pass " << pass);
    const Site site;
    // The default prompt, which has some thousands of tokens.
    const Outcome forecast =
        Program(site.home,
                {"forecast", site.problem, "--candidates", site.Candidates(1), "--replay",
                 site.records, "--state-dir", site.home.File("state"), "--llm", site.server->url(),
                 "--llm-max-tokens", "300", "--forecaster", "llm", "--json"})
            .Wait(600);
    INFO(forecast.out << forecast.err);
    CHECK((forecast.exit_code == 0 || forecast.exit_code == 1));
    CHECK(Lines(forecast.out).size() == 1);

    const std::vector<std::string> budget = {"--budget-measurements", "8"};
    const Outcome alone = Program(site.home, site.Search("alone", budget)).Wait(600);
    INFO(alone.err);
    // 1: no kernel is faster than the reference.
    REQUIRE((alone.exit_code == 0 || alone.exit_code == 1));
    std::vector<std::string> with_model = site.Short(budget);
    const Outcome search = Program(site.home, site.Search("pool", with_model)).Wait(600);
    INFO(search.err);
    REQUIRE((search.exit_code == 0 || search.exit_code == 1));
    const json pooled = json::parse(search.out);
    const json use = pooled["search"]["counts"]["model_use"];
    std::printf("pass %d: %s\n", pass, use.dump().c_str());
    CHECK(pooled["best"]["screening"]["value"].get<double>() >=
          0.98 * json::parse(alone.out)["best"]["screening"]["value"].get<double>());

    // It writes no kernel that is any good. Each request ends, and the search with them.
    const Outcome generated =
        Program(site.home,
                site.Search("generated", {"--generator", "llm", "--generator-requests", "2",
                                          "--generator-in-flight", "1", "--llm", site.server->url(),
                                          "--llm-max-tokens", "200", "--forecaster", "embedded"}))
            .Wait(900);
    INFO(generated.err);
    const json counts = json::parse(generated.out)["search"]["counts"]["generation"];
    std::printf("pass %d: %s\n", pass, counts.dump().c_str());
    CHECK(Count(counts, "requested") == 2);
    CHECK(Count(counts, "written") + Count(counts, "duplicates") + Count(counts, "unusable") == 2);

    const std::string rows = site.home.File("rows.jsonl");
    std::ofstream(rows) << json({{"comparison_id", "c"},
                                 {"pack", "row_softmax"},
                                 {"anchor_code", "__global__ void anchor() {}\n"},
                                 {"candidate_code", "__global__ void k() {}\n"},
                                 {"hardware", "NVIDIA L40S"},
                                 {"aggregated_speedup", 1.2},
                                 {"true_bin", 4},
                                 {"source_id", 1},
                                 {"source_search", "s"},
                                 {"internal_experiment", "x"}})
                               .dump()
                        << "\n";
    const Outcome eval =
        Program(site.home, site.Short({"eval", rows, "--predictions",
                                       site.home.File("predictions.jsonl"), "--json"}))
            .Wait(600);
    INFO(eval.out << eval.err);
    CHECK(eval.exit_code == 0);
    CHECK(site.server->Alive());
  }
}

}  // namespace
}  // namespace kernelcast::testing::cli_genuine_model_test
