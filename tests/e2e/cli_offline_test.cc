// Commands that need no service.

#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "common/base/file.h"
#include "tests/e2e/program.h"

namespace kernelcast::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

TEST_CASE("Help and version are printed and document the exit codes", "[e2e]") {
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
  CHECK(Run(home, {"help"}).out == help.out);
  const Outcome search = Run(home, {"search", "--help"});
  CHECK(Run(home, {"help", "search"}).out == search.out);
  CHECK(Run(home, {"help", "lessons", "learn"}).out ==
        Run(home, {"lessons", "learn", "--help"}).out);
  CHECK(Run(home, {"help", "serach"}).exit_code == 2);
}

TEST_CASE("An unknown option is answered with the options it may stand for", "[e2e]") {
  const TemporaryFolder home("cli");
  const Outcome budget = Run(home, {"search", "row_softmax", "--budget", "3"});
  CHECK(budget.exit_code == 2);
  CHECK_THAT(budget.err,
             Catch::Contains("no option '--budget'; did you mean --budget-measurements, "
                             "--budget-candidates, --budget-seconds or "
                             "--budget-device-seconds?") &&
                 Catch::Contains("Run kernelcast search --help for more."));
  CHECK_THAT(Run(home, {"search", "--budget=3"}).err, Catch::Contains("no option '--budget'"));
  const Outcome typo = Run(home, {"lessons", "learn", "--bokk", "x"});
  CHECK(typo.exit_code == 2);
  CHECK_THAT(typo.err, Catch::Contains("no option '--bokk'; did you mean --book?") &&
                           Catch::Contains("Run kernelcast lessons learn --help for more."));
  const Outcome strange = Run(home, {"problems", "--zyxwvuts"});
  CHECK(strange.exit_code == 2);
  CHECK_THAT(strange.err, Catch::Contains("no option '--zyxwvuts'") && !Catch::Contains("mean"));
}

TEST_CASE("A failed write to standard output is exit code 3", "[e2e]") {
  const TemporaryFolder home("cli");
  std::ofstream(home.File("book.jsonl")) << "{\"format\":\"kernelcast-lessons\",\"version\":1}\n";
  std::ofstream(home.File("rows.jsonl"))
      << R"({"comparison_id":"c","pack":"scan","anchor_code":"a","candidate_code":"b",)"
         R"("hardware":"h","aggregated_speedup":1.2,"true_bin":4,"source_id":1,)"
         R"("source_search":"s","internal_experiment":"x"})"
      << "\n";
  const std::vector<std::string> commands[] = {
      {"--help"},
      {"--version"},
      {"help", "search"},
      {"problems"},
      {"problems", "--names"},
      {"problems", "--json"},
      {"completion", "bash"},
      {"eval", home.File("rows.jsonl")},
      {"eval", home.File("rows.jsonl"), "--json"},
      {"lessons", "list", home.File("book.jsonl")},
      {"token", "me", "--role", "submit", "-o", home.File("token")}};
  for (const std::vector<std::string>& arguments : commands) {
    INFO(arguments.front() << " " << arguments.back());
    const Outcome outcome = Program(home, arguments, {}, Program::Streams::kFullOutput).Wait();
    CHECK(outcome.exit_code == 3);
    CHECK_THAT(outcome.err,
               Catch::Contains("cannot write to standard output: No space left on device"));
  }
}

TEST_CASE("A problem's name is its folder's, and its targets exist", "[e2e]") {
  const TemporaryFolder home("cli");
  const fs::path original = std::string(KERNELCAST_SOURCE_DIR) + "/examples/problems/row_softmax";
  const fs::path renamed = home.path() / "problems" / "soft";
  fs::create_directories(renamed.parent_path());
  fs::copy(original, renamed, fs::copy_options::recursive);
  const Outcome name = Run(home, {"problems", renamed.string()});
  CHECK(name.exit_code == 1);
  const json line = json::parse(Run(home, {"problems", renamed.string(), "--json"}).out);
  CHECK(line["error"]["code"] == "INVALID_ARGUMENT");
  CHECK(line["error"]["exit_code"] == 2);
  CHECK_THAT(name.out, Catch::Contains(renamed.string() + "/problem.yaml: name: 'row_softmax' is "
                                                          "not the name of the folder, 'soft'"));
  CHECK(Run(home, {"search", renamed.string()}).exit_code == 2);
  const fs::path copy = home.path() / "problems" / "row_softmax";
  fs::rename(renamed, copy);
  CHECK(Run(home, {"problems", copy.string()}).exit_code == 0);
  CHECK(Run(home, {"problems", copy.string() + "/"}).exit_code == 0);
  std::string text = ReadFile(copy / "problem.yaml").value();
  // Common mistakes are explained.
  for (const auto& [from, to, hint] :
       {std::tuple("schema: 1", "schema: '2'", "quotes make it text"),
        std::tuple("\naxes:\n  ", "\naxes:\n\t", "is indented with a tab"),
        std::tuple("\ntitle: ", "\ntitle: Rows: ", "a text that contains ': ' needs quotes")}) {
    INFO(hint);
    std::string mistaken = text;
    const size_t found = mistaken.find(from);
    REQUIRE(found != std::string::npos);
    mistaken.replace(found, std::string(from).size(), to);
    std::ofstream(copy / "problem.yaml") << mistaken;
    const Outcome outcome = Run(home, {"problems", copy.string()});
    CHECK(outcome.exit_code == 1);
    CHECK_THAT(outcome.out, Catch::Contains(hint));
  }
  const size_t at = text.find("\n  cuda:");
  REQUIRE(at != std::string::npos);
  text.replace(at, 8, "\n  gpu:");
  std::ofstream(copy / "problem.yaml") << text;
  std::string space = ReadFile(copy / "space/cuda.yaml").value();
  const size_t named = space.find("target: cuda");
  REQUIRE(named != std::string::npos);
  space.replace(named, 12, "target: gpu");
  std::ofstream(copy / "space/cuda.yaml") << space;
  const Outcome target = Run(home, {"problems", copy.string()});
  CHECK(target.exit_code == 1);
  CHECK_THAT(target.out,
             Catch::Contains("problem.yaml: targets: 'gpu' is no target; there are: cpu, cuda"));
}

TEST_CASE("Bad usage exits with code 2 and lists the allowed values", "[e2e]") {
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
  const Outcome strategy =
      Run(home, {"search", "row_softmax", "--strategy-parameter", "width=wide"});
  CHECK(strategy.exit_code == 2);
  CHECK_THAT(strategy.err, Catch::Contains("--strategy-parameter: 'width=wide'"));
  for (const char* number : {"nan", "inf", "1e999", "-1e999"}) {
    const Outcome odd =
        Run(home, {"search", "row_softmax", "--policy-parameter", std::string("margin=") + number});
    CHECK(odd.exit_code == 2);
    CHECK_THAT(odd.err, Catch::Contains(std::string("'margin=") + number + "'"));
    const Outcome seconds =
        Run(home, {"search", "row_softmax", std::string("--budget-seconds=") + number});
    CHECK(seconds.exit_code == 2);
    CHECK_THAT(seconds.err, Catch::Contains(std::string("--budget-seconds: '") + number + "'"));
  }
  for (const char* number : {"-1", "18446744073709551616", "1e3", "x"}) {
    const Outcome sequence =
        Run(home, {"export", "--all", std::string("--from-sequence=") + number});
    CHECK(sequence.exit_code == 2);
    CHECK_THAT(sequence.err, Catch::Contains(std::string("--from-sequence: '") + number +
                                             "' is not a whole number from 0 on"));
  }
  const Outcome mode =
      Run(home, {"evaluate", "row_softmax", "--candidates", ".", "--mode", "guess"});
  CHECK(mode.exit_code == 2);
  CHECK_THAT(mode.err, Catch::Contains("route"));
}

TEST_CASE("Without the Python package, mcp says what is missing", "[e2e]") {
  const TemporaryFolder home("cli");
  // Isolated from packages of the environment.
  const std::string python = home.File("python");
  std::ofstream(python) << "#!/bin/sh\nexec /usr/bin/python3 -I -S \"$@\"\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const Outcome outcome = Run(home, {"mcp", "row_softmax"}, {{"KERNELCAST_PYTHON", python}});
  CHECK(outcome.exit_code == 3);
  CHECK_THAT(outcome.err, Catch::Contains("does not have the Python package kernelcast"));
}

TEST_CASE("No help line exceeds 100 columns or breaks inside a word", "[e2e]") {
  const TemporaryFolder home("cli");
  const std::string script = Run(home, {"completion", "bash"}).out;
  const size_t begin = script.find("compgen -W '", script.find("'')")) + 12;
  std::istringstream names(script.substr(begin, script.find('\'', begin) - begin));
  int commands = 0;
  for (std::string name; names >> name;) {
    if (name[0] == '-') continue;
    ++commands;
    const Outcome help = Run(home, {name, "--help"});
    CHECK(help.exit_code == 0);
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) {
      // A list of choices is one word.
      if (line.find(' ', line.find_first_not_of(' ')) == std::string::npos) continue;
      INFO(name << ": " << line);
      CHECK(line.size() <= 100);
    }
  }
  CHECK(commands >= 15);
  // Also on a narrower terminal.
  Program narrow(home, {"search", "--help"}, {}, Program::Streams::kTerminal, 70);
  std::istringstream lines(narrow.Wait().out);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    // Option names are not broken.
    if (line.find("  -") == 0) continue;
    INFO(line);
    CHECK(line.size() <= 70);
  }
}

TEST_CASE("problems shows a problem by name and lists the searched folders for an unknown name",
          "[e2e]") {
  const TemporaryFolder home("cli");
  const Outcome one = Run(home, {"problems", "row_softmax"});
  CHECK(one.exit_code == 0);
  CHECK(std::count(one.out.begin(), one.out.end(), '\n') == 2);
  const Outcome none = Run(home, {"problems", "nonsense"});
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, Catch::Contains("no problem 'nonsense' in examples/problems, ") ||
                           Catch::Contains("no problem 'nonsense' in /"));
  CHECK_THAT(none.err, Catch::Contains("row_softmax"));
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

TEST_CASE("Listing finds expected verdicts that do not match their space", "[e2e]") {
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

TEST_CASE("Malformed candidate JSON is refused before anything starts", "[e2e]") {
  const TemporaryFolder home("cli");
  fs::create_directories(home.path() / "c");
  std::ofstream(home.File("c/a.cc")) << "int x;";
  std::ofstream(home.File("c/a.json")) << "{\"tunables\": {\"UNROLL\": 2.5}}";
  const Outcome outcome = Run(home, {"evaluate", "row_softmax", "--candidates", home.File("c")});
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.err, Catch::Contains("a.json: tunables.UNROLL: '2.5' is neither"));
  CHECK_FALSE(fs::exists(home.File("state")));
}

TEST_CASE("An unreachable orchestrator gives exit code 3", "[e2e]") {
  const TemporaryFolder home("cli");
  // No one runs a service on port 1 of the loopback interface.
  const Outcome outcome = Run(home, {"searches"}, {{"KERNELCAST_ORCHESTRATOR", "127.0.0.1:1"}});
  CHECK(outcome.exit_code == 3);
  CHECK_THAT(outcome.err, Catch::Contains("cannot reach the orchestrator at 127.0.0.1:1"));
}

TEST_CASE("Services that cannot be found are named and give exit code 3", "[e2e]") {
  const TemporaryFolder home("cli");
  const Outcome outcome = Run(home, {"searches", "--service-dir", home.File("nowhere")});
  CHECK(outcome.exit_code == 3);
  CHECK_THAT(outcome.err, Catch::Contains("nowhere/kernelcast-orchestrator"));
}

TEST_CASE("The completion scripts in the tree match the generated ones", "[e2e]") {
  const TemporaryFolder home("cli");
  const std::string folder = std::string(KERNELCAST_SOURCE_DIR) + "/scripts/completion/";
  const Outcome bash = Run(home, {"completion", "bash"});
  CHECK(bash.exit_code == 0);
  CHECK(bash.out == ReadFile(folder + "kernelcast.bash").value());
  const Outcome zsh = Run(home, {"completion", "zsh"});
  CHECK(zsh.exit_code == 0);
  CHECK(zsh.out == ReadFile(folder + "_kernelcast").value());
  const Outcome fish = Run(home, {"completion", "fish"});
  CHECK(fish.exit_code == 0);
  CHECK(fish.out == ReadFile(folder + "kernelcast.fish").value());
  CHECK(Run(home, {"completion", "csh"}).exit_code == 2);
  // All of them complete the ids of searches.
  for (const std::string* script : {&bash.out, &zsh.out, &fish.out}) {
    CHECK_THAT(*script, Catch::Contains("kernelcast searches --ids"));
  }
}

TEST_CASE("Every command and option is in docs/reference/cli.md", "[e2e]") {
  const TemporaryFolder home("cli");
  const std::string document =
      ReadFile(std::string(KERNELCAST_SOURCE_DIR) + "/docs/reference/cli.md").value();
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

// The evaluation, before the line about surrogates.
json FirstLine(const std::string& output) {
  return json::parse(output.substr(0, output.find('\n')));
}

TEST_CASE("Published rows are scored, and plotted when a report is requested", "[e2e]") {
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
  const json result = FirstLine(outcome.out);
  CHECK(result["items"] == 20);
  CHECK(result["accuracy"]["value"] == Approx(0.75));
  CHECK(result["expected_calibration_error"]["value"] == Approx(0.05));
  CHECK(result["pools"] == 1);
  CHECK_THAT(ReadFile(home.File("r.html")).value(), Catch::Contains("Risk against coverage"));
  // The same from compressed files, whatever they are called.
  for (const char* name : {"predictions.jsonl", "rows.jsonl"}) {
    const std::string content = ReadFile(home.File(name)).value();
    const gzFile packed = gzopen(home.File(std::string(name) + ".gz").c_str(), "wb");
    REQUIRE(gzwrite(packed, content.data(), static_cast<unsigned>(content.size())) > 0);
    REQUIRE(gzclose(packed) == Z_OK);
  }
  const Outcome unpacked =
      Run(home, {"eval", home.File("predictions.jsonl.gz"), home.File("rows.jsonl.gz"), "--json"});
  INFO(unpacked.err);
  REQUIRE(unpacked.exit_code == 0);
  CHECK(FirstLine(unpacked.out)["accuracy"] == result["accuracy"]);
  const std::string half = ReadFile(home.File("rows.jsonl.gz")).value();
  std::ofstream(home.File("rows.jsonl.gz"), std::ios::binary) << half.substr(0, half.size() / 2);
  const Outcome damaged = Run(home, {"eval", home.File("rows.jsonl.gz")});
  CHECK(damaged.exit_code != 0);
  CHECK_THAT(damaged.err, Catch::Contains("rows.jsonl.gz is damaged"));
  const Outcome labels = Run(home, {"eval", home.File("rows.jsonl"), "--json"});
  CHECK(json::parse(labels.out)["by_bin"] == json::array({0, 0, 10, 10, 0, 0, 0, 0}));
  const Outcome formats = Run(home, {"eval", home.File("rows.jsonl"), "--format", "csv"});
  CHECK(formats.exit_code == 2);
  CHECK_THAT(formats.err, Catch::Contains("discovery-pairs"));
}

TEST_CASE("A bad row is reported with file, line, field and value, and nothing is scored",
          "[e2e]") {
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
