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

#include "common/domain/bins.h"
#include "tests/e2e/program.h"
#include "tests/fakes/llm_endpoint/llm_endpoint.h"
#include "tests/support/recorded_problem.h"

namespace kernelcast::testing::cli_eval_model_test {
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

// Published pairs. The children of 0 and 1 are in bin 4, those of 2 and 3 in bin 3.
void WritePairs(const std::string& path) {
  std::ofstream file(path);
  for (int i = 0; i < 4; ++i) {
    const bool fast = i < 2;
    file << json({{"pair_id", "pair" + std::to_string(i)},
                  {"problem_id", "scan"},
                  {"benchmark_family", "gpu_mode"},
                  {"parent_code", "__global__ void parent() {}\n"},
                  {"child_code", "__global__ void child() { /* " + std::to_string(i) + " */ }\n"},
                  {"g_speedup", fast ? 1.2 : 0.8},
                  {"true_bin", fast ? 4 : 3},
                  {"hardware", "NVIDIA L40S"},
                  {"parent_node_id", "p"},
                  {"child_node_id", "c" + std::to_string(i)},
                  {"source_id", i},
                  {"source_search", "s"},
                  {"internal_experiment", "x"}})
                .dump()
         << "\n";
  }
}

// Answers about the pairs, each with 1,500 tokens of prompt and 200 of answer. Where it may defer,
// it defers on pair 3.
FakeAnswer AnswerAboutPair(const json& request) {
  const std::string prompt = request["messages"].back()["content"].get<std::string>();
  const auto is_about = [&prompt](int pair) {
    return prompt.find("/* " + std::to_string(pair) + " */") != std::string::npos;
  };
  const bool may_defer = request.dump().find("\"defer\"") != std::string::npos;
  struct {
    int bin;
    double p;
    int other;
  } const answers[] = {{4, may_defer ? 0.75 : 0.51, 5}, {5, 0.65, 4}, {3, 0.85, 2}, {6, 0.55, 3}};
  int pair = 0;
  while (!is_about(pair)) ++pair;
  const BinScheme& scheme = *BinScheme::Find("paper-floor/1").value();
  json content = {{"reasoning", "x"}, {"p_failure", 0}};
  for (int bin = 1; bin <= scheme.size(); ++bin) content["p_" + scheme.name(bin)] = 0;
  content["p_" + scheme.name(answers[pair].bin)] = answers[pair].p;
  content["p_" + scheme.name(answers[pair].other)] = 1 - answers[pair].p;
  content["predicted_bin"] = answers[pair].bin;
  if (may_defer) content["defer"] = pair == 3;
  FakeAnswer answer;
  answer.content = content.dump();
  answer.prompt_tokens = 1500;
  answer.completion_tokens = 200;
  return answer;
}

TEST_CASE("One run scores published pairs with both kinds of abstention, and their cost",
          "[e2e][llm]") {
  const TemporaryFolder home("eval");
  WritePairs(home.File("pairs.jsonl"));
  FakeEndpointOptions options;
  options.answers = [](const json& request, Fault, std::mt19937_64&) {
    return AnswerAboutPair(request);
  };
  const auto endpoint = FakeLlmEndpoint::Start(std::move(options)).value();
  std::ofstream(home.File("llm.yaml"))
      << "endpoints:\n  - {url: " << endpoint->url()
      << ", model: fake, prices: {prompt: 2, cached_prompt: 0.5, completion: 10}}\n"
      << "hedge: {enabled: false}\n";
  const std::vector<std::string> arguments = {
      "eval",          home.File("pairs.jsonl"),   "--llm-config", home.File("llm.yaml"),
      "--predictions", home.File("answers.jsonl"), "--by",         "backend",
      "--prompt",      "speedup-bins/2",           "--prompt",     "forced-bins/1"};
  std::vector<std::string> as_json = arguments;
  as_json.emplace_back("--json");
  const Outcome scored = Run(home, as_json);
  INFO(scored.err);
  REQUIRE(scored.exit_code == 0);
  CHECK(endpoint->Seen().requests == 8);

  std::map<std::string, json> groups;
  std::istringstream lines(scored.out);
  for (std::string line; std::getline(lines, line);) {
    const json object = json::parse(line);
    if (!object.contains("group")) continue;
    const std::string group = object["group"];
    groups[group.find("forced-bins/1") != std::string::npos ? "forced" : "native"] = object;
  }
  const auto value = [&groups](const char* group, const char* metric) {
    return groups[group][metric]["value"].get<double>();
  };
  CHECK(groups["native"]["items"] == 3);
  CHECK(value("native", "accuracy") == Approx(2.0 / 3));
  CHECK(value("native", "off_by_one_accuracy") == Approx(1));
  CHECK(value("native", "expected_calibration_error") == Approx((0.25 + 0.65 + 0.15) / 3));
  CHECK(value("native", "half_brier") == Approx((0.0625 + 0.4225 + 0.0225) / 3));
  CHECK(groups["forced"]["items"] == 4);
  CHECK(value("forced", "accuracy") == Approx(0.5));
  CHECK(value("forced", "off_by_one_accuracy") == Approx(0.75));
  CHECK(value("forced", "expected_calibration_error") == Approx((2 * 0.03 + 0.65 + 0.15) / 4));
  CHECK(value("forced", "half_brier") == Approx((0.2401 + 0.4225 + 0.0225 + 0.3025) / 4));
  const json& curve = groups["forced"]["risk_at_coverage"];
  REQUIRE(curve.size() == 10);
  CHECK(curve[4]["coverage"] == Approx(0.5));
  CHECK(curve[4]["risk"] == Approx(0.5));
  CHECK(curve[9]["risk"] == Approx(0.5));

  const json surrogates = LineWith(scored.out, "surrogates")["surrogates"];
  REQUIRE(surrogates.size() == 2);
  for (const json& surrogate : surrogates) {
    CHECK(surrogate["answers"] == 4);
    CHECK(surrogate["input_tokens"] == 6000);
    CHECK(surrogate["output_tokens"] == 800);
    CHECK(surrogate["cost_dollars"].get<double>() == Approx(6000 * 2e-6 + 800 * 10e-6));
  }
  const json& native = surrogates[1];
  CHECK(native["coverage"] == Approx(0.75));
  CHECK(native["risk"] == Approx(1.0 / 3));
  CHECK(native["risk_at_coverage"][9]["coverage"] == Approx(0.75));
  CHECK(native["thresholds"][0]["risk"] == Approx(2.0 / 3));
  CHECK(native["thresholds"][0]["risk_at_coverage"][4]["risk"] == Approx(1.0 / 3));

  const Outcome shown = Run(home, arguments);
  INFO(shown.out);
  CHECK(endpoint->Seen().requests == 8);
  CHECK_THAT(shown.out, Contains("threshold 1: on the confidence of fake forced-bins/1@"));
  CHECK_THAT(shown.out, Catch::Matchers::Matches("[^]*\n *75% +0\\.333 +0\\.667 *\n[^]*"));
  CHECK_THAT(shown.out, Contains("0.0200"));
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

TEST_CASE("Prompts of measured candidates are those that the forecaster sent", "[e2e][llm][slow]") {
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
}  // namespace kernelcast::testing::cli_eval_model_test
