// What needs no service.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/base/file.h"
#include "tests/e2e/program.h"

namespace kernelcast::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

TEST_CASE("Help and version are printed, and document the exit codes", "[e2e]") {
  const TemporaryFolder home("cli");
  const Outcome help = Run(home, {"--help"});
  CHECK(help.exit_code == 0);
  CHECK(help.err.empty());
  for (const char* text : {"search", "evaluate", "up", "report", "doctor",
                           "Exit codes:", "KERNELCAST_ORCHESTRATOR", "4  interrupted"}) {
    CHECK_THAT(help.out, Catch::Contains(text));
  }
  CHECK_THAT(Run(home, {"search", "--help"}).out, Catch::Contains("--budget-measurements"));
  CHECK_THAT(Run(home, {"--version"}).out, Catch::StartsWith("kernelcast "));
}

TEST_CASE("Bad usage ends with code 2 and says what is allowed", "[e2e]") {
  const TemporaryFolder home("cli");
  const Outcome typo = Run(home, {"serach"});
  CHECK(typo.exit_code == 2);
  CHECK_THAT(typo.err, Catch::Contains("did you mean 'search'?"));
  CHECK(Run(home, {}).exit_code == 2);
  CHECK(Run(home, {"search"}).exit_code == 2);
  const Outcome negative = Run(home, {"search", "row_softmax", "--budget-measurements", "-1"});
  CHECK(negative.exit_code == 2);
  CHECK_THAT(negative.err, Catch::Contains("--budget-measurements: '-1'"));
  const Outcome target = Run(home, {"search", "row_softmax", "--target", "abacus"});
  CHECK(target.exit_code == 2);
  CHECK_THAT(target.err, Catch::Contains("has no reference for 'abacus'; it has: cpu, cuda"));
  const Outcome parameter = Run(home, {"search", "row_softmax", "--policy-parameter", "margin"});
  CHECK(parameter.exit_code == 2);
  CHECK_THAT(parameter.err, Catch::Contains("NAME=NUMBER"));
  const Outcome mode =
      Run(home, {"evaluate", "row_softmax", "--candidates", ".", "--mode", "guess"});
  CHECK(mode.exit_code == 2);
  CHECK_THAT(mode.err, Catch::Contains("route"));
}

TEST_CASE("With --json an error is an object on standard output", "[e2e]") {
  const TemporaryFolder home("cli");
  const Outcome outcome = Run(home, {"search", "no_such_problem", "--json"});
  CHECK(outcome.exit_code == 2);
  const json error = json::parse(outcome.out)["error"];
  CHECK(error["code"] == "NOT_FOUND");
  CHECK(error["exit_code"] == 2);
}

TEST_CASE("Every example problem is well-formed and listed", "[e2e]") {
  const TemporaryFolder home("cli");
  const Outcome outcome = Run(home, {"problems", "--json"});
  CHECK(outcome.exit_code == 0);
  std::istringstream lines(outcome.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const json problem = json::parse(line);
    INFO(line);
    CHECK(problem["valid"] == true);
    CHECK_FALSE(problem["targets"].empty());
    for (const auto& [name, target] : problem["targets"].items()) {
      INFO(name);
      CHECK(target["space_points"].get<int>() > 0);
    }
  }
  CHECK(count >= 10);
  CHECK_THAT(Run(home, {"problems"}).out, Catch::Contains("row_softmax"));
  CHECK_THAT(Run(home, {"problems", "--names"}).out, Catch::Contains("row_softmax\n"));
}

TEST_CASE("A malformed problem is named with file, line and field", "[e2e]") {
  const TemporaryFolder home("cli");
  const fs::path copy = home.path() / "problems" / "row_softmax";
  fs::create_directories(copy.parent_path());
  fs::copy(std::string(KERNELCAST_SOURCE_DIR) + "/examples/problems/row_softmax", copy,
           fs::copy_options::recursive);
  std::string text = ReadFile(copy / "problem.yaml").value();
  const size_t at = text.find("dtype: float32");
  const auto line =
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
  text.replace(at, 14, "dtype: float31");
  std::ofstream(copy / "problem.yaml") << text;
  const Outcome one = Run(home, {"search", copy.string()});
  CHECK(one.exit_code == 2);
  CHECK_THAT(one.err, Catch::Contains("row_softmax/problem.yaml:" + std::to_string(line)));
  CHECK_THAT(one.err, Catch::Contains("float31"));
  CHECK_THAT(one.err, Catch::Contains("dtype"));
  const Outcome all = Run(home, {"problems", copy.parent_path().string()});
  CHECK(all.exit_code == 1);
  CHECK_THAT(all.out, Catch::Contains("malformed"));
}

TEST_CASE("Expected verdicts that do not fit their space are found by listing", "[e2e]") {
  const TemporaryFolder home("cli");
  const fs::path copy = home.path() / "problems" / "row_softmax";
  fs::create_directories(copy.parent_path());
  fs::copy(std::string(KERNELCAST_SOURCE_DIR) + "/examples/problems/row_softmax", copy,
           fs::copy_options::recursive);
  std::ofstream(copy / "space/expected_verdicts_cuda.yaml", std::ios::app)
      << "no_such_template: {verdict: ok, note: none}\n";
  const Outcome outcome = Run(home, {"problems", copy.parent_path().string()});
  CHECK(outcome.exit_code == 1);
  CHECK_THAT(outcome.out, Catch::Contains("row_softmax/space/expected_verdicts_cuda.yaml:") &&
                              Catch::Contains("no_such_template: the space has no such template"));
}

TEST_CASE("A candidate's malformed JSON is refused before anything is started", "[e2e]") {
  const TemporaryFolder home("cli");
  fs::create_directories(home.path() / "c");
  std::ofstream(home.File("c/a.cc")) << "int x;";
  std::ofstream(home.File("c/a.json")) << "{\"tunables\": {\"UNROLL\": 2.5}}";
  const Outcome outcome = Run(home, {"evaluate", "row_softmax", "--candidates", home.File("c")});
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.err, Catch::Contains("a.json: tunables.UNROLL: '2.5' is neither"));
  CHECK_FALSE(fs::exists(home.File("state")));
}

TEST_CASE("An orchestrator that is not there is code 3", "[e2e]") {
  const TemporaryFolder home("cli");
  // Port 1 of the loopback interface has no service that anyone would run.
  const Outcome outcome = Run(home, {"searches"}, {{"KERNELCAST_ORCHESTRATOR", "127.0.0.1:1"}});
  CHECK(outcome.exit_code == 3);
  CHECK_THAT(outcome.err, Catch::Contains("cannot reach the orchestrator at 127.0.0.1:1"));
}

TEST_CASE("Services that cannot be found are code 3 and named", "[e2e]") {
  const TemporaryFolder home("cli");
  const Outcome outcome = Run(home, {"searches", "--service-dir", home.File("nowhere")});
  CHECK(outcome.exit_code == 3);
  CHECK_THAT(outcome.err, Catch::Contains("nowhere/kernelcast-worker"));
}

TEST_CASE("The completion scripts in the tree are those that the program makes", "[e2e]") {
  const TemporaryFolder home("cli");
  const std::string folder = std::string(KERNELCAST_SOURCE_DIR) + "/scripts/completion/";
  const Outcome bash = Run(home, {"completion", "bash"});
  CHECK(bash.exit_code == 0);
  CHECK(bash.out == ReadFile(folder + "kernelcast.bash").value());
  const Outcome zsh = Run(home, {"completion", "zsh"});
  CHECK(zsh.exit_code == 0);
  CHECK(zsh.out == ReadFile(folder + "_kernelcast").value());
  CHECK(Run(home, {"completion", "fish"}).exit_code == 2);
}

TEST_CASE("Every command and option is in docs/cli.md", "[e2e]") {
  const TemporaryFolder home("cli");
  const std::string document =
      ReadFile(std::string(KERNELCAST_SOURCE_DIR) + "/docs/cli.md").value();
  const std::string script = Run(home, {"completion", "bash"}).out;
  const size_t begin = script.find("compgen -W '", script.find("'')")) + 12;
  std::istringstream names(script.substr(begin, script.find('\'', begin) - begin));
  for (std::string name; names >> name;) {
    INFO(name);
    CHECK_THAT(document, Catch::Contains("`" + (name[0] == '-' ? name : "kernelcast " + name)));
  }
  std::istringstream lines(script);
  for (std::string line; std::getline(lines, line);) {
    const size_t list = line.find("compgen -W '--json");
    if (list == std::string::npos) continue;
    std::istringstream flags(line.substr(list + 12, line.find('\'', list + 12) - list - 12));
    for (std::string flag; flags >> flag;) {
      INFO(flag);
      CHECK_THAT(document, Catch::Contains("`" + flag));
    }
  }
}

// A comparison and one answer to it, in the published formats.
std::string EvaluationLine(int i, const char* speedup, int bin) {
  const std::string n = std::to_string(i);
  return R"({"comparison_id":"c)" + n + R"(","pack":"scan","anchor_code":"a","candidate_code":"b)" +
         n + R"(","hardware":"NVIDIA L40S","aggregated_speedup":)" + speedup + R"(,"true_bin":)" +
         std::to_string(bin) + R"(,"source_id":1,"source_search":"s","internal_experiment":"x"})" +
         "\n";
}
std::string PredictionLine(int i, int bin) {
  return R"({"comparison_id":"c)" + std::to_string(i) +
         R"(","pack":"scan","surrogate_label":"model","repeat":0,"predicted_bin":)" +
         std::to_string(bin) + R"(,"bin_probabilities":[{"bin":)" + std::to_string(bin) +
         R"(,"p":0.8},{"bin":8,"p":0.2}],"reasoning":"","raw_probability_sum":1,)" +
         R"("parse_failed":false,"parse_error":null,"input_tokens":1,"output_tokens":1,)" +
         R"("elapsed_s":1})" + "\n";
}

TEST_CASE("Published rows are scored, and drawn where a report is asked for", "[e2e]") {
  const TemporaryFolder home("cli");
  std::ofstream rows(home.File("rows.jsonl"));
  std::ofstream predictions(home.File("predictions.jsonl"));
  for (int i = 0; i < 20; ++i) {
    rows << EvaluationLine(i, i % 2 == 0 ? "1.2" : "0.8", i % 2 == 0 ? 4 : 3);
    predictions << PredictionLine(i, i < 15 ? (i % 2 == 0 ? 4 : 3) : 1);
  }
  rows.close();
  predictions.close();
  const Outcome outcome =
      Run(home, {"eval", home.File("predictions.jsonl"), home.File("rows.jsonl"), "--json",
                 "--report", home.File("r.html")});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const json result = json::parse(outcome.out);
  CHECK(result["items"] == 20);
  CHECK(result["accuracy"]["value"] == Approx(0.75));
  CHECK(result["expected_calibration_error"]["value"] == Approx(0.05));
  CHECK(result["pools"] == 1);
  CHECK_THAT(ReadFile(home.File("r.html")).value(), Catch::Contains("Risk against coverage"));
  const Outcome labels = Run(home, {"eval", home.File("rows.jsonl"), "--json"});
  CHECK(json::parse(labels.out)["by_bin"] == json::array({0, 0, 10, 10, 0, 0, 0, 0}));
  const Outcome formats = Run(home, {"eval", home.File("rows.jsonl"), "--format", "csv"});
  CHECK(formats.exit_code == 2);
  CHECK_THAT(formats.err, Catch::Contains("discovery-pairs"));
}

TEST_CASE("A calibrator is fitted, judged on other problems, written and applied", "[e2e]") {
  const TemporaryFolder home("cli");
  std::ofstream rows(home.File("rows.jsonl"));
  std::ofstream predictions(home.File("predictions.jsonl"));
  // Of what is said to be right four times in five, half is.
  for (int i = 0; i < 240; ++i) {
    std::string row = EvaluationLine(i, i % 2 == 0 ? "1.2" : "0.8", i % 2 == 0 ? 4 : 3);
    row.replace(row.find("scan"), 4, "pack" + std::to_string(i % 4));
    rows << row;
    predictions << PredictionLine(i, i % 8 < 4 ? (i % 2 == 0 ? 4 : 3) : 1);
  }
  rows.close();
  predictions.close();
  const Outcome fitted =
      Run(home, {"calibrate", home.File("rows.jsonl"), home.File("predictions.jsonl"), "--method",
                 "histogram", "--json", "-o", home.File("c.json")});
  INFO(fitted.err);
  REQUIRE(fitted.exit_code == 0);
  const json result = json::parse(fitted.out);
  CHECK(result["problems"] == 4);
  CHECK(result["methods"][0]["expected_calibration_error"] == Approx(0.3));
  CHECK(result["methods"][1]["expected_calibration_error"].get<double>() < 0.02);
  CHECK(json::parse(ReadFile(home.File("c.json")).value())["version"] == result["version"]);
  const Outcome applied =
      Run(home, {"eval", home.File("rows.jsonl"), home.File("predictions.jsonl"), "--calibrator",
                 home.File("c.json"), "--json"});
  INFO(applied.err);
  CHECK(json::parse(applied.out)["expected_calibration_error"]["value"].get<double>() < 0.02);
  std::ofstream(home.File("bad.json")) << R"({"schema": "kernelcast-calibrator/9"})";
  const Outcome bad = Run(home, {"eval", home.File("rows.jsonl"), home.File("predictions.jsonl"),
                                 "--calibrator", home.File("bad.json")});
  CHECK(bad.exit_code == 2);
  CHECK_THAT(bad.err, Catch::Contains("bad.json: schema: 'kernelcast-calibrator/9'"));
}

TEST_CASE("A bad row is named with file, line, field and value, and nothing is scored", "[e2e]") {
  const TemporaryFolder home("cli");
  std::ofstream(home.File("rows.jsonl"))
      << EvaluationLine(0, "1.2", 4) << EvaluationLine(1, "-3", 4);
  std::ofstream(home.File("predictions.jsonl")) << PredictionLine(0, 4);
  const Outcome outcome =
      Run(home, {"eval", home.File("rows.jsonl"), home.File("predictions.jsonl")});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err, Catch::Contains(home.File("rows.jsonl") +
                                          ":2: aggregated_speedup: '-3' is not a positive"));
}

}  // namespace
}  // namespace kernelcast::testing
