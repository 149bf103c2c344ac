// Tests `kernelcast eval --llm` and `kernelcast export --prompts` with a scripted endpoint.

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/program.h"
#include "tests/fakes/llm_endpoint/llm_endpoint.h"
#include "tests/support/recorded_problem.h"

namespace kernelcast::testing {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using nlohmann::json;

std::vector<json> Lines(const std::string& path) {
  std::vector<json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

// Published rows: "row_softmax" is an example problem, "scan" is not known.
std::string WriteRows(const TemporaryFolder& home, int count) {
  const std::string path = home.File("rows.jsonl");
  std::ofstream file(path);
  for (int i = 0; i < count; ++i) {
    const bool fast = i % 2 == 0;
    file << json({{"comparison_id", "c" + std::to_string(i)},
                  {"pack", i % 3 == 0 ? "row_softmax" : "scan"},
                  {"anchor_code", "__global__ void anchor() {}\n"},
                  {"candidate_code", "__global__ void k() { /* " + std::to_string(i) + " */ }\n"},
                  {"hardware", "NVIDIA L40S"},
                  {"aggregated_speedup", fast ? 1.2 : 0.8},
                  {"true_bin", fast ? 4 : 3},
                  {"source_id", i},
                  {"source_search", "s"},
                  {"internal_experiment", "x"}})
                .dump()
         << "\n";
  }
  return path;
}

// The JSON line of `eval` with this key.
json LineWith(const std::string& output, const std::string& key) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    json object = json::parse(line);
    if (object.contains(key)) return object;
  }
  return nullptr;
}

Outcome Eval(const TemporaryFolder& home, const FakeLlmEndpoint& endpoint,
             const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "eval",          home.File("rows.jsonl"),        "--llm", endpoint.url(),
      "--predictions", home.File("predictions.jsonl"), "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  Outcome outcome = Run(home, arguments);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return outcome;
}

TEST_CASE("eval asks a model about published rows and asks only what has no answer", "[e2e][llm]") {
  const TemporaryFolder home("eval");
  WriteRows(home, 12);
  const auto endpoint = FakeLlmEndpoint::Start({}).value();
  const Outcome first = Eval(home, *endpoint, {});
  const json scored = LineWith(first.out, "items");
  CHECK(scored["items"] == 12);
  CHECK(scored["half_brier"]["value"].is_number());
  const json surrogate = LineWith(first.out, "surrogates")["surrogates"][0];
  CHECK(surrogate["answers"] == 12);
  CHECK(surrogate["input_tokens"].get<int>() > 0);
  CHECK_THAT(surrogate["surrogate"].get<std::string>(), Catch::StartsWith("fake speedup-bins/2@"));
  CHECK(endpoint->Seen().requests == 12);
  std::vector<json> rows = Lines(home.File("predictions.jsonl"));
  REQUIRE(rows.size() == 12);
  CHECK(rows[0]["bin_probabilities"].size() == 8);
  CHECK(rows[0]["bin_scheme_id"] == "paper-floor/1");

  const Outcome second = Eval(home, *endpoint, {});
  CHECK(endpoint->Seen().requests == 12);
  CHECK(LineWith(second.out, "items")["accuracy"] == scored["accuracy"]);

  // A run that was killed in the middle of a line.
  std::ofstream killed(home.File("predictions.jsonl"));
  for (int i = 0; i < 7; ++i) killed << rows[static_cast<size_t>(i)].dump() << "\n";
  killed << rows[7].dump().substr(0, 40);
  killed.close();
  Eval(home, *endpoint, {});
  CHECK(endpoint->Seen().requests == 17);
  CHECK(Lines(home.File("predictions.jsonl")).size() == 12);

  // Another prompt is another surrogate.
  Eval(home, *endpoint, {"--prompt", "paper-tools/1", "--by", "backend"});
  CHECK(endpoint->Seen().requests == 29);
}

TEST_CASE("Questions that the endpoint does not answer are asked the next time", "[e2e][llm]") {
  const TemporaryFolder home("eval");
  WriteRows(home, 4);
  FakeEndpointOptions options;
  options.models = {"fake"};
  const auto endpoint = FakeLlmEndpoint::Start(options).value();
  Eval(home, *endpoint, {});
  // The first row only.
  const std::vector<json> rows = Lines(home.File("predictions.jsonl"));
  std::ofstream(home.File("predictions.jsonl")) << rows[0].dump() << "\n";
  endpoint->SetFaults({{Fault::kUnauthorized, 1.0}});
  const Outcome failed = Run(home, {"eval", home.File("rows.jsonl"), "--llm", endpoint->url(),
                                    "--predictions", home.File("predictions.jsonl")});
  INFO(failed.err);
  CHECK(failed.exit_code == 0);
  CHECK_THAT(failed.err, Contains("3 questions have no answer"));
  CHECK(Lines(home.File("predictions.jsonl")).size() == 1);
  endpoint->SetFaults({});
  Eval(home, *endpoint, {});
  CHECK(Lines(home.File("predictions.jsonl")).size() == 4);
}

TEST_CASE("Abstentions are compared with a threshold at the same coverage", "[e2e][llm]") {
  const TemporaryFolder home("eval");
  WriteRows(home, 12);
  FakeEndpointOptions options;
  const AnswerSource forecasts = ForecastAnswers();
  options.answers = [forecasts](const json& request, Fault fault, std::mt19937_64& random) {
    FakeAnswer answer = forecasts(request, fault, random);
    const bool may_defer = request.dump().find("\"defer\"") != std::string::npos;
    const std::string prompt = request["messages"].back()["content"].get<std::string>();
    if (may_defer && prompt.find("/* 1") != std::string::npos) {  // rows 1, 10 and 11
      json content = json::parse(answer.content);
      content["defer"] = true;
      answer.content = content.dump();
    }
    return answer;
  };
  const auto endpoint = FakeLlmEndpoint::Start(std::move(options)).value();
  const json own = LineWith(Eval(home, *endpoint, {}).out, "surrogates")["surrogates"][0];
  CHECK(own["abstained"] == 3);
  CHECK(own["coverage"] == Approx(0.75));
  CHECK(own["thresholds"].empty());
  const json compared = LineWith(Eval(home, *endpoint, {"--prompt", "forced-bins/1"}).out,
                                 "surrogates")["surrogates"];
  REQUIRE(compared.size() == 2);
  CHECK_THAT(compared[0]["surrogate"].get<std::string>(), Contains("forced-bins/1"));
  CHECK(compared[0]["abstained"] == 0);
  REQUIRE(compared[1]["thresholds"].size() == 1);
  const double risk = compared[1]["thresholds"][0]["risk"].get<double>();
  CHECK((risk >= 0 && risk <= 1));
}

TEST_CASE("Exported prompts are the bytes that the endpoint receives", "[e2e][llm]") {
  const TemporaryFolder home("prompts");
  const std::string rows = WriteRows(home, 6);
  const std::string prompts = home.File("prompts.jsonl");
  const Outcome exported = Run(home, {"export", "--prompts", "--rows", rows, "-o", prompts});
  INFO(exported.err);
  REQUIRE(exported.exit_code == 0);
  const auto endpoint = FakeLlmEndpoint::Start({}).value();
  Eval(home, *endpoint, {});
  std::map<std::string, json> received;
  for (const std::string& body : endpoint->Seen().bodies) {
    json request = json::parse(body);
    received[request["messages"].dump()] = request;
  }
  const std::vector<json> lines = Lines(prompts);
  REQUIRE(lines.size() == 6);
  for (const json& line : lines) {
    INFO(line["group_id"]);
    const auto request = received.find(line["messages"].dump());
    REQUIRE(request != received.end());
    CHECK(request->second["response_format"] == line["response_format"]);
    CHECK(line["bin_scheme_id"] == "paper-floor/1");
    CHECK(line["provenance"]["source_search"] == "s");
    CHECK_THAT(line["prompt_version"].get<std::string>(), Catch::StartsWith("speedup-bins/2@"));
  }
  CHECK(lines[0]["target_bin"] == 4);
  CHECK(lines[1]["target_bin"] == 3);
  CHECK_THAT(lines[0]["messages"][1]["content"].get<std::string>(),
             Contains("__global__ void anchor()") && Contains("NVIDIA L40S"));
}

TEST_CASE("Prompts of measured candidates are those that the forecaster sent", "[e2e][llm]") {
  const TemporaryFolder home("prompts");
  const RecordedProblem recorded = MakeRecordedProblem(4, 3);
  const std::string problem = home.File("problems/" + recorded.problem.name);
  for (const ProblemFile& file : recorded.files) {
    const fs::path path = fs::path(problem) / file.path;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << file.content;
  }
  WriteRecords(recorded, home.File("records.jsonl"));
  const Candidate& candidate = recorded.candidates.front();
  nlohmann::ordered_json line = {{"name", "one"},
                                 {"source", candidate.source},
                                 {"flags", candidate.flags},
                                 {"origin", candidate.origin},
                                 {"tunables", nlohmann::ordered_json::object()}};
  for (const Tunable& tunable : candidate.tunables) line["tunables"][tunable.name] = tunable.value;
  std::ofstream(home.File("candidates.jsonl")) << line.dump() << "\n";
  const auto endpoint = FakeLlmEndpoint::Start({}).value();
  const Outcome evaluated =
      Run(home, {"evaluate", problem, "--candidates", home.File("candidates.jsonl"), "--replay",
                 home.File("records.jsonl"), "--state-dir", home.File("state"), "--forecaster",
                 "llm", "--llm", endpoint->url()});
  INFO(evaluated.err);
  REQUIRE(evaluated.exit_code == 0);
  const std::vector<std::string> bodies = endpoint->Seen().bodies;
  REQUIRE(bodies.size() == 1);

  const std::string prompts = home.File("prompts.jsonl");
  const Outcome exported = Run(home,
                               {"export", "--all", "--state-dir", home.File("state"), "--format",
                                "rl", "--prompts", "-o", prompts},
                               {{"KERNELCAST_PROBLEMS", home.File("problems")}});
  INFO(exported.err);
  REQUIRE(exported.exit_code == 0);
  const std::vector<json> lines = Lines(prompts);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["messages"] == json::parse(bodies[0])["messages"]);
  CHECK(lines[0]["pair_type"] == "seed");
  CHECK(lines[0]["bin_scheme_id"] == "sqrt2/1");
  CHECK(lines[0]["low_bin"].get<int>() <= lines[0]["target_bin"].get<int>());
  CHECK(lines[0]["provenance"]["anchor"] == "reference");
}

}  // namespace
}  // namespace kernelcast::testing
