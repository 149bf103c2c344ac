// `suite` and `compare` against a scripted orchestrator.

#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "tests/e2e/program.h"
#include "tests/fakes/fake_orchestrator.h"
#include "tests/support/doubling_problem.h"

namespace kernelcast::testing::cli_suite_test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using nlohmann::json;

const char* const kModel =
    "import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n    def __init__(self):\n"
    "        super().__init__()\n    def forward(self, x):\n        return x * 2\n"
    "def get_inputs():\n    return [torch.randn(8)]\ndef get_init_inputs():\n    return []\n";

// Answers with the speedup in the source, "speedup 2.5", or with what else it says.
v1::EvaluateReply Answer(const v1::EvaluateRequest& request) {
  const std::string& source = request.candidate().source();
  v1::EvaluateReply reply;
  reply.set_request_id(request.request_id());
  const size_t at = source.find("speedup ");
  const double speedup = at == std::string::npos ? 1 : std::stod(source.substr(at + 8));
  v1::Evaluation& evaluation = *reply.mutable_evaluation();
  evaluation = MakeSearchScript(1, speedup, 0).records[0].evaluation();
  evaluation.set_request_id(request.request_id());
  evaluation.set_candidate_id(request.candidate().candidate_id());
  evaluation.mutable_measured()->set_problem_id(request.candidate().problem_id());
  if (source.find("wrong") != std::string::npos) {
    evaluation.mutable_measured()->mutable_wrong_result()->set_cause(v1::WrongResult::CAUSE_VALUE);
  } else if (source.find("noisy") != std::string::npos) {
    evaluation.mutable_measured()->mutable_environment_unstable()->set_reason("busy");
  } else if (source.find("refused") != std::string::npos) {
    reply.mutable_error()->set_code(3);
    reply.mutable_error()->set_message("candidate: refused");
  }
  return reply;
}

struct Site {
  explicit Site(const std::string& name = "suite") : home(name) { fake.on_evaluate = Answer; }

  std::string Tasks() const { return home.File("tasks"); }
  std::string Results() const { return home.File("results"); }
  void Write(const std::string& path, const std::string& content) const {
    const fs::path file = home.path() / "tasks" / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  void AddProblem(const std::string& name) const {
    WriteProblem(home, {.name = name,
                        .family = "elementwise",
                        .reference_repeats = "2",
                        .templates = "  - {name: one, file: one.cc}\n",
                        .kernels = {{"one.cc", DoublingKernel("1")}}});
    fs::create_directories(home.path() / "tasks");
    fs::rename(home.path() / "problems" / name, home.path() / "tasks" / name);
  }
  Outcome Suite(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"suite",        Tasks(),    "--orchestrator",
                                          fake.address(), "--output", Results()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(home, arguments);
  }
  json Summary() const { return json::parse(ReadFile(Results() + "/summary.json").value()); }

  TemporaryFolder home;
  FakeOrchestrator fake;
};

std::vector<json> Lines(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST_CASE("A suite judges all tasks, a fault of one stops no other, and it continues", "[e2e]") {
  Site site;
  for (const char* name : {"good", "other"}) site.AddProblem(name);
  site.Write("good/candidates/fast.cc", "// speedup 2\n");
  site.Write("good/candidates/bad.cc", "// wrong\n");
  site.Write("other/candidates/ada/k.cc", "// speedup 0.5\n");
  site.Write("other/candidates/bob/k.cc", "// noisy\n");
  site.Write("other/candidates/bob/r.cc", "// refused\n");
  site.Write("broken/problem.yaml", "schema: 1\nname: broken\n");
  site.Write("broken/candidates/k.cc", "// speedup 9\n");

  const Outcome first = site.Suite({"--json"});
  INFO(first.out << first.err);
  CHECK(first.exit_code == 1);
  const std::vector<json> lines = Lines(first.out);
  REQUIRE(lines.size() == 7);
  CHECK(std::ranges::count_if(lines, [](const json& line) { return line.contains("error"); }) == 2);
  const json& all = lines.back()["suite"]["all"];
  CHECK(all["tasks"] == 3);
  CHECK(all["verdicts"] ==
        json({{"faster", 1}, {"slower", 1}, {"wrong", 1}, {"unstable", 1}, {"not_judged", 2}}));
  CHECK(lines.back()["suite"] == site.Summary());
  CHECK(site.fake.evaluated().size() == 5);
  for (const v1::EvaluateRequest& request : site.fake.evaluated()) {
    CHECK(request.mode() == v1::EVALUATE_MODE_MEASURE);
  }

  // What was too noisy or refused is sent again, under another id. Nothing else is.
  site.Write("broken/problem.yaml", ReadFile(site.Tasks() + "/good/problem.yaml").value());
  site.Write("other/candidates/bob/k.cc", "// noisy\n");
  const Outcome second = site.Suite();
  INFO(second.out << second.err);
  CHECK(second.exit_code == 1);
  CHECK_THAT(second.err, Contains("kept from earlier runs: 3, to judge: 2"));
  CHECK_THAT(second.out, Contains("1 faster, 1 slower, 1 wrong result"));
  CHECK_THAT(second.out, Contains("not judged: ") && Contains("candidate: refused"));
  const std::vector<v1::EvaluateRequest> requests = site.fake.evaluated();
  CHECK(requests.size() == 7);
  std::set<std::string> ids;
  for (const v1::EvaluateRequest& request : requests) ids.insert(request.request_id());
  CHECK(ids.size() == 7);

  // A changed source is judged again, and its result replaces the earlier one.
  site.Write("good/candidates/bad.cc", "// speedup 3\n");
  site.Write("other/candidates/bob/k.cc", "// speedup 1.5\n");
  fs::remove(site.Tasks() + "/other/candidates/bob/r.cc");
  fs::remove_all(site.Tasks() + "/broken");
  const Outcome third = site.Suite();
  INFO(third.out << third.err);
  CHECK(third.exit_code == 0);
  CHECK(site.fake.evaluated().size() == 9);
  CHECK(site.Summary()["all"]["verdicts"] == json({{"faster", 3}, {"slower", 1}}));
  CHECK(site.Summary()["all"]["candidates"] == 4);
  for (const char* name : {"results.csv", "report.md", "report.html"}) {
    CHECK_THAT(ReadFile(site.Results() + "/" + name).value(), Contains("ada/k"));
  }
  CHECK(site.Summary()["categories"][0]["name"] == "elementwise");
}

TEST_CASE("A suite with all results needs no orchestrator", "[e2e]") {
  Site site;
  site.AddProblem("good");
  site.Write("good/candidates/fast.cc", "// speedup 2\n");
  REQUIRE(site.Suite().exit_code == 0);
  fs::remove(site.Results() + "/report.html");
  const Outcome again = Run(site.home, {"suite", site.Tasks(), "--orchestrator", "127.0.0.1:1",
                                        "--output", site.Results()});
  INFO(again.err);
  CHECK(again.exit_code == 0);
  CHECK(fs::exists(site.Results() + "/report.html"));
}

TEST_CASE("A line of results that a crash cut off is judged again", "[e2e]") {
  Site site;
  site.AddProblem("good");
  site.Write("good/candidates/a.cc", "// speedup 2\n");
  site.Write("good/candidates/b.cc", "// speedup 3\n");
  REQUIRE(site.Suite().exit_code == 0);
  const std::string file = site.Results() + "/results.jsonl";
  fs::resize_file(file, fs::file_size(file) - 9);
  REQUIRE(site.Suite().exit_code == 0);
  CHECK(site.fake.evaluated().size() == 3);
  CHECK(site.Summary()["all"]["verdicts"] == json({{"faster", 2}}));
  for (const json& line : Lines(ReadFile(file).value())) CHECK(line.is_object());
}

TEST_CASE("Results are of one mode, and of one command at a time", "[e2e]") {
  Site site;
  site.AddProblem("good");
  site.Write("good/candidates/a.cc", "// speedup 2\n");
  REQUIRE(site.Suite().exit_code == 0);
  const Outcome other = site.Suite({"--mode", "final"});
  CHECK(other.exit_code == 2);
  CHECK_THAT(other.err, Contains("--mode") && Contains("'measure'") && Contains("--output"));

  site.Write("good/candidates/b.cc", "// speedup 2\n");
  site.fake.on_evaluate = [](const v1::EvaluateRequest&) -> std::optional<v1::EvaluateReply> {
    return std::nullopt;
  };
  Program waiting(site.home, {"suite", site.Tasks(), "--orchestrator", site.fake.address(),
                              "--output", site.Results()});
  REQUIRE(waiting.AwaitErr("kept from earlier runs: 1, to judge: 1"));
  const Outcome second = site.Suite();
  CHECK(second.exit_code == 2);
  CHECK_THAT(second.err, Contains("another `kernelcast suite`"));
  // An interrupt ends it with what it has.
  waiting.Signal(SIGINT);
  const Outcome interrupted = waiting.Wait(60);
  CHECK(interrupted.exit_code == 4);
  CHECK_THAT(interrupted.err, Contains("the same command continues the suite"));
  CHECK_THAT(interrupted.out, Contains("1 faster"));
}

TEST_CASE("A KernelBench run gives KernelBench's results", "[e2e]") {
  Site site;
  site.Write("KernelBench/level1/19_ReLU.py", kModel);
  site.Write("KernelBench/level1/20_Leaky.py", kModel);
  const std::string run = "runs/gpt/level_1_problem_";
  site.Write(run + "19_sample_0_kernel.py", "class ModelNew:\n    pass\n# speedup 1.6\n");
  site.Write(run + "19_sample_1_kernel.py", "class ModelNew:\n    pass\n# wrong\n");
  const Outcome outcome = site.Suite({"--target", "cpu"});
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, Contains("2 tasks, 1 of them without a candidate, 2 candidates"));
  const json results =
      json::parse(ReadFile(site.Results() + "/kernelbench/level1/gpt/eval_results.json").value());
  REQUIRE(results["19"].size() == 2);
  CHECK(results["19"][0]["correctness"] == true);
  CHECK(results["19"][1]["correctness"] == false);
  CHECK(results["19"][1]["sample_id"] == 1);
  const json summary = site.Summary();
  CHECK(summary["levels"][0]["fast_p"][2]["best"] == 0.5);
  CHECK(summary["levels"][0]["fast_p"][2]["mean"] == 0.25);
  CHECK(summary["authors"][0]["name"] == "gpt");

  const Outcome list = Run(site.home, {"suite", site.Tasks(), "--list"});
  CHECK(list.exit_code == 0);
  CHECK_THAT(list.out, Contains("KernelBench/level1/19_ReLU") && Contains("gpt/sample_1"));
  const Outcome none = Run(site.home, {"suite", site.Tasks(), "--only", "x", "--list"});
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, Contains("no task's name matches 'x'"));
}

TEST_CASE("compare says what changed, and its exit code is for CI", "[e2e]") {
  Site before("before");
  Site after("after");
  for (const Site* const site : {&before, &after}) {
    site->AddProblem("p");
    site->Write("p/candidates/up.cc", site == &before ? "// speedup 1\n" : "// speedup 2\n");
    site->Write("p/candidates/same.cc", "// speedup 3\n");
  }
  REQUIRE(before.Suite().exit_code == 0);
  REQUIRE(after.Suite().exit_code == 0);
  const auto compare = [&](std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"compare", before.Results(), after.Results()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(before.home, arguments);
  };
  const Outcome better = compare();
  INFO(better.out << better.err);
  CHECK(better.exit_code == 0);
  CHECK_THAT(better.out, Contains("faster") && Contains("2.00x") && Contains("1 same"));

  after.Write("p/candidates/same.cc", "// speedup 2\n");
  REQUIRE(after.Suite().exit_code == 0);
  CHECK(compare().exit_code == 1);
  CHECK(compare({"--least-change", "60"}).exit_code == 0);
  after.Write("p/candidates/same.cc", "// wrong\n");
  REQUIRE(after.Suite().exit_code == 0);
  const Outcome worse = compare({"--json", "--least-change", "60"});
  CHECK(worse.exit_code == 1);
  const json compared = json::parse(worse.out);
  CHECK(compared["counts"] == json({{"faster", 1}, {"verdict_worse", 1}}));
  CHECK(compared["before"]["measured"] == 2);
  CHECK(compared["before"]["device_seconds"] == 4.0);
  CHECK(compared["after"]["forecasts"]["measured"] == 1);

  const Outcome nothing = Run(before.home, {"compare", before.Results(), before.Tasks()});
  CHECK(nothing.exit_code == 2);
  CHECK_THAT(nothing.err, Contains("has no results"));
}

TEST_CASE("compare measures two sources", "[e2e]") {
  Site site;
  site.AddProblem("p");
  site.Write("slow.cc", "// speedup 1.5\n");
  site.Write("fast.cc", "// speedup 2\n");
  const auto compare = [&](const std::string& before, const std::string& after) {
    return Run(site.home,
               {"compare", site.Tasks() + "/" + before, site.Tasks() + "/" + after, "--problem",
                site.Tasks() + "/p", "--orchestrator", site.fake.address()});
  };
  CHECK(compare("slow.cc", "fast.cc").exit_code == 0);
  const Outcome slower = compare("fast.cc", "slow.cc");
  INFO(slower.out << slower.err);
  CHECK(slower.exit_code == 1);
  CHECK_THAT(slower.out, Contains("0.750x") || Contains("0.75x"));
  for (const v1::EvaluateRequest& request : site.fake.evaluated()) {
    CHECK(request.mode() == v1::EVALUATE_MODE_FINAL);
  }
  const Outcome without =
      Run(site.home, {"compare", site.Tasks() + "/slow.cc", site.Tasks() + "/fast.cc",
                      "--orchestrator", site.fake.address()});
  CHECK(without.exit_code == 2);
  CHECK_THAT(without.err, Contains("--problem is required"));
}

}  // namespace
}  // namespace kernelcast::testing::cli_suite_test
