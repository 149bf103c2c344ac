// Tests the program with the real services and a scripted endpoint. The worker replays synthetic
// records, so that no test depends on a quiet machine.

#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "common/domain/bins.h"
#include "tests/e2e/program.h"
#include "tests/fakes/llm_endpoint/llm_endpoint.h"
#include "tests/support/eventually.h"
#include "tests/support/recorded_problem.h"

namespace kernelcast::testing::cli_llm_test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using nlohmann::json;

struct Site {
  explicit Site(FakeEndpointOptions options = {})
      : home("llm"),
        recorded(MakeRecordedProblem(10, 6)),
        endpoint(FakeLlmEndpoint::Start(std::move(options)).value()) {
    problem = home.File("problems/" + recorded.problem.name);
    for (const ProblemFile& file : recorded.files) {
      const fs::path path = fs::path(problem) / file.path;
      fs::create_directories(path.parent_path());
      std::ofstream(path, std::ios::binary) << file.content;
    }
    records = home.File("records.jsonl");
    WriteRecords(recorded, records);
  }

  std::vector<std::string> Search(const std::string& state,
                                  const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {
        "search",         problem,       "--json", "--replay", records, "--state-dir",
        home.File(state), "--search-id", "s",      "--seed",   "3",     "--no-report"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  // The decisions in log order.
  std::vector<json> Decisions(const std::string& state) const {
    const std::string path = home.File(state + ".jsonl");
    const Outcome outcome = Run(home, {"export", "s", "--state-dir", home.File(state), "-o", path});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    std::vector<json> decisions;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      const json record = json::parse(line);
      const json& evaluation = record["evaluation"];
      decisions.push_back({{"candidate", evaluation.at("candidate_id")},
                           {"decision", evaluation.at("decision")},
                           {"forecast", evaluation.value("decided_on", json::object())}});
      for (const char* key : {"latency", "token_usage"}) decisions.back()["forecast"].erase(key);
    }
    return decisions;
  }

  TemporaryFolder home;
  RecordedProblem recorded;
  std::unique_ptr<FakeLlmEndpoint> endpoint;
  std::string problem;
  std::string records;
};

TEST_CASE("A search queries an endpoint in addition to its own model", "[e2e][llm]") {
  const Site site;
  const Outcome outcome =
      Run(site.home, site.Search("state", {"--forecaster", "pool", "--llm", site.endpoint->url(),
                                           "--budget-measurements", "12"}));
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  // A search ends before its budget is spent when no remaining candidate may win.
  const json summary = json::parse(outcome.out);
  const int measured = summary["counts"]["measured"].get<int>();
  CHECK(measured >= 8);
  CHECK((measured >= 12 || summary["end_reason"] == "nothing left worth measuring"));
  CHECK(summary["best"]["confirmed"] == true);
  CHECK(summary["best"]["speedup"]["value"].get<double>() > 0.9 * site.recorded.best_speedup);
  CHECK(site.endpoint->Seen().requests > 10);
  size_t pooled = 0;
  for (const json& decision : site.Decisions("state")) {
    const json& forecast = decision["forecast"];
    if (forecast.empty()) continue;
    CHECK(forecast["backend"] == "pool");
    if (forecast["components"].size() == 2) {
      ++pooled;
      CHECK_THAT(forecast.at("prompt_version").get<std::string>(),
                 Catch::StartsWith("speedup-bins/2@"));
    }
  }
  CHECK(pooled > 10);
}

// Half of the points are 5 to 7 times as fast as the reference, and one is 14 times as fast.
double PlantedSpeedup(int block, int unroll) {
  if (block == 7 && unroll == 4) return 14;
  return block % 2 == 0 ? 5 + 0.2 * block + 0.01 * unroll : 0.5 + 0.05 * unroll;
}

// The number after a word, searching from a position in the text; 0 if there is none.
double NumberBehind(const std::string& text, const std::string& word, size_t from) {
  const size_t at = text.find(word, from);
  return at == std::string::npos ? 0 : std::atof(text.c_str() + at + word.size());
}

// A model that knows every candidate's speed and names its bin relative to the anchor.
AnswerSource KnowsTheTruth() {
  return [](const json& request, Fault fault, std::mt19937_64& random) {
    const std::string prompt = request["messages"].back()["content"].get<std::string>();
    const size_t candidate = prompt.rfind("# Candidate");
    const double anchor = NumberBehind(prompt, "was measured to be ", 0);
    const double speedup =
        PlantedSpeedup(static_cast<int>(NumberBehind(prompt, "BLOCK=", candidate)),
                       static_cast<int>(NumberBehind(prompt, "UNROLL=", candidate))) /
        (anchor > 0 ? anchor : 1);
    const int bin = BinScheme::Default().Label(speedup).value();
    return FixedAnswer("{\"" + ProbabilityNames()[static_cast<size_t>(bin - 1)] + "\": 1}")(
        request, fault, random);
  };
}

TEST_CASE("Beyond 4x an accurate model leads a search to its best kernel", "[e2e][llm][slow]") {
  const std::string forecaster = GENERATE("llm", "pool");
  INFO(forecaster);
  FakeEndpointOptions options;
  options.answers = KnowsTheTruth();
  const Site site(std::move(options));
  RecordOptions record;
  record.speedup = [](const Candidate& candidate) {
    int values[2] = {0, 0};
    for (const Tunable& tunable : candidate.tunables) {
      values[tunable.name == "BLOCK" ? 0 : 1] = std::atoi(tunable.value.c_str());
    }
    return PlantedSpeedup(values[0], values[1]);
  };
  WriteRecords(site.recorded, site.records, record);
  const Outcome outcome =
      Run(site.home, site.Search("state", {"--forecaster", forecaster, "--llm",
                                           site.endpoint->url(), "--budget-measurements", "12"}));
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  const json search = json::parse(outcome.out);
  CHECK(search["best"]["screening"]["value"].get<double>() == 14);
  // It was found by comparing with the earlier best.
  bool anchored = false;
  for (const json& decision : site.Decisions("state")) {
    const json& forecast = decision["forecast"];
    anchored |= forecast.contains("anchor") && forecast["anchor"]["speedup"].get<double>() > 4;
  }
  CHECK(anchored);
  CHECK(Count(search["search"]["counts"]["model_use"], "used") > 0);
}

TEST_CASE("A search continues when its endpoint dies and when it returns", "[e2e][llm][slow]") {
  FakeEndpointOptions options;
  options.latency_us = 30'000;
  const Site site(options);
  Program program(site.home, site.Search("state", {"--llm", site.endpoint->url(),
                                                   "--budget-measurements", "12"}));
  while (site.endpoint->Seen().requests < 5) {
    REQUIRE(Alive(program.pid()));
  }
  site.endpoint->Die();
  REQUIRE(program.AwaitErrNumber("measured ", 3));
  site.endpoint->Return();
  const Outcome outcome = program.Wait(120);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  // A search ends before its budget is spent when no remaining candidate may win.
  const json summary = json::parse(outcome.out);
  const int measured = summary["counts"]["measured"].get<int>();
  CHECK(measured >= 8);
  CHECK((measured >= 12 || summary["end_reason"] == "nothing left worth measuring"));
  CHECK(summary["best"]["confirmed"] == true);
  CHECK(summary["best"]["speedup"]["value"].get<double>() > 0.9 * site.recorded.best_speedup);
  for (const json& decision : site.Decisions("state")) {
    // Except the final remeasurements, which take no forecast.
    const std::string reason = decision["decision"]["reason"].get<std::string>();
    INFO(reason);
    CHECK(decision["forecast"].empty() == (reason == "DECISION_REASON_REQUESTED"));
  }
}

TEST_CASE("A recorded search is replayed exactly", "[e2e][llm][slow]") {
  const Site site;
  const std::string forecasts = site.home.File("forecasts.jsonl");
  const std::vector<std::string> budget = {"--budget-measurements", "12", "--in-flight", "1"};
  std::vector<std::string> first = {"--forecaster",       "llm",    "--llm", site.endpoint->url(),
                                    "--record-forecasts", forecasts};
  first.insert(first.end(), budget.begin(), budget.end());
  const Outcome recorded = Run(site.home, site.Search("first", first));
  INFO(recorded.err);
  REQUIRE(recorded.exit_code == 0);
  site.endpoint->Die();

  std::vector<std::string> second = {"--forecaster", "replay", "--replay-forecasts", forecasts};
  second.insert(second.end(), budget.begin(), budget.end());
  const Outcome replayed = Run(site.home, site.Search("second", second));
  INFO(replayed.err);
  REQUIRE(replayed.exit_code == 0);

  std::vector<json> before = site.Decisions("first");
  std::vector<json> after = site.Decisions("second");
  // The best are remeasured in parallel at the end and settle in any order.
  for (std::vector<json>* decisions : {&before, &after}) {
    const auto repeated =
        std::stable_partition(decisions->begin(), decisions->end(),
                              [](const json& decision) { return !decision["forecast"].empty(); });
    std::sort(repeated, decisions->end());
  }
  REQUIRE(before.size() > 12);
  REQUIRE(before.size() == after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    INFO(i);
    CHECK(before[i] == after[i]);
  }
  CHECK(json::parse(recorded.out)["best"]["candidate"] ==
        json::parse(replayed.out)["best"]["candidate"]);
}

TEST_CASE("forecast shows the prompt sent to the model", "[e2e][llm]") {
  const Site site;
  // A recorded source.
  const Candidate& candidate = site.recorded.candidates.front();
  nlohmann::ordered_json line = {{"name", "one"},
                                 {"source", candidate.source},
                                 {"tunables", nlohmann::ordered_json::object()}};
  for (const Tunable& tunable : candidate.tunables) line["tunables"][tunable.name] = tunable.value;
  const std::string candidates = site.home.File("candidates.jsonl");
  std::ofstream(candidates) << line.dump() << "\n";
  const std::vector<std::string> arguments = {
      "forecast", site.problem,         "--candidates", candidates,
      "--replay", site.records,         "--state-dir",  site.home.File("state"),
      "--llm",    site.endpoint->url(), "--forecaster", "llm"};
  std::vector<std::string> shown = arguments;
  shown.emplace_back("--show-prompt");
  const Outcome outcome = Run(site.home, shown);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, Contains("==== one, prompt speedup-bins/2@"));
  CHECK_THAT(outcome.out, Contains("You forecast how fast a compute kernel will run"));
  CHECK_THAT(outcome.out, Contains("# Candidate"));
  CHECK_THAT(outcome.out, Contains("llm:fake"));

  shown.emplace_back("--json");
  const Outcome as_json = Run(site.home, shown);
  bool has_prompt = false;
  bool has_forecast = false;
  std::istringstream lines(as_json.out);
  for (std::string text; std::getline(lines, text);) {
    const json object = json::parse(text);
    has_prompt = has_prompt || object.contains("prompt");
    has_forecast = has_forecast || object.contains("forecast");
  }
  CHECK(has_prompt);
  CHECK(has_forecast);
}

TEST_CASE("One Ctrl-C ends a forecast that waits for a model, and the services with it",
          "[e2e][llm]") {
  FakeEndpointOptions options;
  options.latency_us = 600'000'000;
  const Site site(std::move(options));
  nlohmann::ordered_json line = {{"name", "one"},
                                 {"source", site.recorded.candidates.front().source},
                                 {"tunables", nlohmann::ordered_json::object()}};
  for (const Tunable& tunable : site.recorded.candidates.front().tunables) {
    line["tunables"][tunable.name] = tunable.value;
  }
  const std::string candidates = site.home.File("candidates.jsonl");
  std::ofstream(candidates) << line.dump() << "\n";
  Program forecast(site.home, {"forecast", site.problem, "--candidates", candidates, "--replay",
                               site.records, "--state-dir", site.home.File("state"), "--llm",
                               site.endpoint->url(), "--forecaster", "llm"});
  REQUIRE(Eventually([&] { return site.endpoint->Seen().requests > 0; }));
  forecast.Signal(SIGINT);
  const Outcome outcome = forecast.Wait(20);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 4);
  CHECK_THAT(outcome.err, Contains("interrupted"));
}

TEST_CASE("Text that a model writes instead of a forecast stays out of the table", "[e2e][llm]") {
  FakeEndpointOptions options;
  options.answers = [](const json&, Fault, std::mt19937_64&) {
    FakeAnswer answer;
    answer.content = "I would rather\nnot say, " + std::string(400, 'x');
    return answer;
  };
  const Site site(std::move(options));
  const Candidate& candidate = site.recorded.candidates.front();
  nlohmann::ordered_json line = {{"name", "one"},
                                 {"source", candidate.source},
                                 {"tunables", nlohmann::ordered_json::object()}};
  for (const Tunable& tunable : candidate.tunables) line["tunables"][tunable.name] = tunable.value;
  const std::string candidates = site.home.File("candidates.jsonl");
  std::ofstream(candidates) << line.dump() << "\n";
  const Outcome outcome =
      Run(site.home, {"forecast", site.problem, "--candidates", candidates, "--replay",
                      site.records, "--state-dir", site.home.File("state"), "--llm",
                      site.endpoint->url(), "--forecaster", "llm"});
  INFO(outcome.out << outcome.err);
  CHECK(outcome.exit_code == 1);
  const size_t below = outcome.out.find("\n\n");
  REQUIRE(below != std::string::npos);
  const std::string table = outcome.out.substr(0, below);
  CHECK_THAT(table, Contains("one") && !Contains("xxx") && !Contains("rather"));
  CHECK_THAT(outcome.out.substr(below), Contains("one: no forecast: "));
  CHECK_THAT(outcome.out, !Contains(std::string(400, 'x')));
}

TEST_CASE("forecast says that a model declined, and how many tokens it may use", "[e2e][llm]") {
  FakeEndpointOptions options;
  options.answers = [](const json&, Fault, std::mt19937_64&) {
    FakeAnswer answer;
    answer.content = R"({"defer": true, "reasoning": "only running it can tell"})";
    return answer;
  };
  const Site site(std::move(options));
  const Candidate& candidate = site.recorded.candidates.front();
  nlohmann::ordered_json line = {{"name", "one"},
                                 {"source", candidate.source},
                                 {"tunables", nlohmann::ordered_json::object()}};
  for (const Tunable& tunable : candidate.tunables) line["tunables"][tunable.name] = tunable.value;
  const std::string candidates = site.home.File("candidates.jsonl");
  std::ofstream(candidates) << line.dump() << "\n";
  const Outcome outcome =
      Run(site.home, {"forecast", site.problem, "--candidates", candidates, "--replay",
                      site.records, "--state-dir", site.home.File("state"), "--llm",
                      site.endpoint->url(), "--forecaster", "llm", "--llm-max-tokens", "77"});
  INFO(outcome.out << outcome.err);
  CHECK_THAT(outcome.out, Contains("declined") && Contains("no forecast: the model declined") &&
                              Contains("only running it can tell"));
  const FakeEndpointSeen seen = site.endpoint->Seen();
  REQUIRE(seen.bodies.size() == 1);
  CHECK(json::parse(seen.bodies[0])["max_tokens"] == 77);
}

TEST_CASE("A mistake in the endpoint configuration is a one-line error before anything starts",
          "[e2e][llm]") {
  FakeEndpointOptions options;
  options.models = {"one", "two"};
  options.check_model = true;
  options.api_key = "secret";
  const Site site(options);
  const std::string url = site.endpoint->url();
  const std::string key = site.home.File("key");
  std::ofstream(key) << "secret\n";
  const auto error = [&](const std::vector<std::string>& more) {
    const Outcome outcome = Run(site.home, site.Search("state", more));
    CHECK(outcome.exit_code != 0);
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') <= 2);
    return outcome.err;
  };
  CHECK_THAT(error({"--forecaster", "llm"}), Contains("give --llm URL or --llm-config FILE"));
  CHECK_THAT(error({"--llm", "nonsense"}), Contains("'nonsense' is not a valid endpoint URL"));
  CHECK_THAT(error({"--llm", url, "--llm-model", "one"}), Contains("it requires a key"));
  CHECK_THAT(error({"--llm", url, "--llm-key-file", site.home.File("none")}),
             Contains("no such file"));
  CHECK_THAT(error({"--llm", url, "--llm-key-file", key}),
             Contains("has one, two; choose with --llm-model"));
  CHECK_THAT(error({"--llm", url, "--llm-key-file", key, "--llm-model", "three"}),
             Contains("has no model 'three'; it has one, two"));
  CHECK_THAT(error({"--llm", "http://127.0.0.1:1/v1", "--llm-model", "one"}),
             Contains("cannot be reached"));
  CHECK_THAT(error({"--llm-config", site.home.File("none.yaml")}), Contains("no such file"));
  CHECK_FALSE(fs::exists(site.home.File("state/log")));
}

TEST_CASE("doctor and the forecaster report an endpoint problem in one line", "[e2e][llm][slow]") {
  FakeEndpointOptions options;
  options.models = {"one", "two"};
  options.check_model = true;
  options.api_key = "secret";
  const Site site(options);
  const std::string url = site.endpoint->url();
  const std::string key = site.home.File("key");
  std::ofstream(key) << "secret\n";
  std::ofstream(site.home.File("wrong")) << "guess\n";
  std::ofstream(site.home.File("typo.yaml"))
      << "endpoints:\n  - {url: " << url << ", modle: one}\n";
  std::ofstream(site.home.File("good.yaml"))
      << "endpoints:\n  - {name: a, url: " << url << ", model: one, api_key_file: key}\n"
      << "  - {name: b, url: " << url << ", model: three, api_key_file: key}\n";
  struct Mistake {
    std::vector<std::string> flags;
    std::string said;
    bool for_doctor = false;  // which takes seconds, because it checks everything else too
    bool ends_the_forecaster = true;
  };
  const std::vector<Mistake> mistakes = {
      {{"--llm", "nonsense"}, "'nonsense' is not a valid endpoint URL", true},
      {{"--llm", "ftp://127.0.0.1/v1", "--llm-model", "one"}, "is not a valid endpoint URL"},
      {{"--llm", url, "--llm-model", "one"}, "it requires a key"},
      {{"--llm", url, "--llm-model", "one", "--llm-key-file", site.home.File("wrong")},
       "it refuses the key"},
      {{"--llm", url, "--llm-key-file", site.home.File("none")}, "no such file", true},
      {{"--llm", url, "--llm-key-file", key}, "has one, two; choose with --llm-model"},
      {{"--llm", url, "--llm-key-file", key, "--llm-model", "three"},
       "has no model 'three'; it has one, two",
       true},
      {{"--llm", "http://127.0.0.1:1/v1"}, "cannot be reached"},
      // It may come back.
      {{"--llm", "http://127.0.0.1:1/v1", "--llm-model", "one"}, "cannot be reached", true, false},
      {{"--llm", "http://no-such-host.invalid/v1", "--llm-model", "one"},
       "cannot be reached",
       false,
       false},
      {{"--llm-config", site.home.File("none.yaml")}, "no such file"},
      {{"--llm-config", site.home.File("typo.yaml")}, "typo.yaml:2: "},
      {{"--llm-config", site.home.File("good.yaml")}, "has no model 'three'"},
      {{"--llm", url, "--llm-config", site.home.File("good.yaml")}, "do not go with it"},
  };
  for (const Mistake& mistake : mistakes) {
    CAPTURE(mistake.flags);
    if (mistake.for_doctor) {
      std::vector<std::string> arguments = {"doctor", "--state-dir", site.home.File("state"),
                                            "--json"};
      arguments.insert(arguments.end(), mistake.flags.begin(), mistake.flags.end());
      const Outcome examined = Run(site.home, arguments);
      INFO(examined.out << examined.err);
      CHECK(examined.exit_code == 1);
      CHECK_THAT(examined.out, Contains(mistake.said));
    }
    std::vector<std::string> arguments = {"--state-dir", site.home.File("forecaster"), "--backend",
                                          "llm"};
    arguments.insert(arguments.end(), mistake.flags.begin(), mistake.flags.end());
    Service forecaster("kernelcast-forecaster", arguments, site.home);
    const absl::Status status = forecaster.Start();
    INFO(status.ToString());
    CHECK(status.ok() != mistake.ends_the_forecaster);
    if (status.ok()) continue;
    // "...:\n" and the program's output.
    const std::string output(status.message());
    const std::string lines = output.substr(output.find('\n') + 1);
    CHECK(std::count(lines.begin(), lines.end(), '\n') == 1);
    const json line = json::parse(lines);
    CHECK(line["level"] == "error");
    CHECK_THAT(line["error"].get<std::string>(), Contains(mistake.said));
    CHECK(line["error"].get<std::string>().find("secret") == std::string::npos);
  }

  const auto doctor = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"doctor", "--state-dir", site.home.File("state")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(site.home, arguments).out;
  };
  CHECK_THAT(doctor({}), Contains("no endpoint given"));
  CHECK_THAT(doctor({"--llm", url, "--llm-key-file", key, "--llm-model", "one"}),
             Contains("one at " + url));
  CHECK_THAT(doctor({"--llm", url, "--llm-model", "one"}), Contains("it requires a key"));
}

}  // namespace
}  // namespace kernelcast::testing::cli_llm_test
