// A suite with the real services, a real compiler and real measurements. The kernels differ by
// factors, so that the result does not depend on a quiet machine.

#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "tests/e2e/program.h"
#include "tests/support/doubling_problem.h"

namespace kernelcast::testing::cli_suite_services_test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using nlohmann::json;

const char* const kPython = "/usr/bin/python3";

void Write(const fs::path& file, const std::string& content) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << content;
}

// Eleven problems, each with a kernel that takes a third of the reference's time, or three times
// as long, or fails, and a PyTorch task in KernelBench's layout.
std::string WriteTasks(const TemporaryFolder& home, bool with_torch) {
  const fs::path tasks = home.path() / "tasks";
  fs::create_directories(tasks);
  for (int i = 0; i < 11; ++i) {
    const std::string name = absl::StrCat("task_", i + 1);
    WriteProblem(home, {.name = name,
                        .family = i % 2 == 0 ? "elementwise" : "copy",
                        .reference_repeats = "30",
                        .templates = "  - {name: one, file: one.cc}\n",
                        .kernels = {{"one.cc", DoublingKernel("1")}}});
    fs::rename(home.path() / "problems" / name, tasks / name);
    const std::string source = i == 3   ? "this does not compile\n"
                               : i == 5 ? DoublingKernel("0")  // writes nothing
                                        : DoublingKernel(i % 3 == 2 ? "90" : "10");
    // An id of its own for each, so that no result stands for another.
    Write(tasks / name / "candidates" / "ada.cc", absl::StrCat(source, "// ", name, "\n"));
  }
  if (with_torch) {
    const std::string examples = KERNELCAST_SOURCE_DIR "/examples/tasks/kernelbench/";
    const fs::path level = tasks / "KernelBench" / "level1";
    Write(level / "1_row_variance.py", ReadFile(examples + "row_variance.py").value());
    Write(tasks / "runs" / "ada" / "level_1_problem_1_sample_0_kernel.py",
          ReadFile(examples + "candidates/row_variance/one_call.py").value());
  }
  return tasks.string();
}

struct CsvRow {
  std::string task;
  std::string verdict;
  double speedup = 0;
  std::string candidate_id;
};

// No field of this suite holds a comma.
std::vector<CsvRow> ReadCsv(const std::string& path) {
  std::istringstream stream(ReadFile(path).value());
  std::vector<CsvRow> rows;
  std::string line;
  std::getline(stream, line);
  while (std::getline(stream, line)) {
    const std::vector<std::string> fields = absl::StrSplit(line, ',');
    REQUIRE(fields.size() == 18);
    rows.push_back(
        {fields[0], fields[6], fields[7].empty() ? 0 : std::stod(fields[7]), fields[17]});
  }
  return rows;
}

TEST_CASE("A suite continues after everything was killed, and agrees with the export",
          "[e2e][suite]") {
  const bool with_torch =
      std::system((std::string(kPython) + " -c 'import torch' 2>/dev/null").c_str()) == 0;
  if (!with_torch) WARN("no PyTorch in " << kPython << ": its task is left out");
  const TemporaryFolder home("suite");
  const std::string tasks = WriteTasks(home, with_torch);
  const size_t count = with_torch ? 12 : 11;
  const std::string results = home.File("results");
  const std::vector<std::string> command = {"suite",    tasks, "--output", results,
                                            "--target", "cpu", "--python", kPython};
  std::vector<std::string> one_by_one = command;
  one_by_one.insert(one_by_one.end(), {"--in-flight", "2"});
  {
    Program killed(home, one_by_one);
    REQUIRE(killed.AwaitErr(absl::StrCat("3/", count, " ")));
    const std::vector<pid_t> services = ChildrenOf(killed.pid());
    CHECK(services.size() == 3);
    for (const pid_t service : services) kill(service, SIGKILL);
    killed.Signal(SIGKILL);
    CHECK(killed.Wait(60).exit_code == -SIGKILL);
  }
  CHECK_FALSE(fs::exists(results + "/report.html"));

  // Other load may leave a measurement without a verdict, and the next run measures it again.
  Outcome outcome;
  for (int attempt = 0; attempt < 5; ++attempt) {
    outcome = Run(home, command);
    if (attempt == 0) CHECK_THAT(outcome.err, Contains("kept from earlier runs: "));
    if (outcome.exit_code != 1) break;
  }
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.exit_code == 0);

  const json summary = json::parse(ReadFile(results + "/summary.json").value());
  const json& all = summary["all"];
  CHECK(all["tasks"] == count);
  CHECK(all["candidates"] == count);
  CHECK(all["verdicts"]["compile_error"] == 1);
  CHECK(all["verdicts"]["wrong"] == 1);
  CHECK(all["verdicts"]["slower"] >= 2);  // tasks 3 and 9
  CHECK(summary["categories"].size() == (with_torch ? 3 : 2));

  // The tables have what the log has.
  const std::vector<CsvRow> rows = ReadCsv(results + "/results.csv");
  REQUIRE(rows.size() == count);
  const Outcome exported = Run(home, {"export", "--all"});
  REQUIRE(exported.exit_code == 0);
  std::map<std::string, std::vector<json>> evaluations;  // by candidate
  std::istringstream lines(exported.out);
  for (std::string line; std::getline(lines, line);) {
    const json evaluation = json::parse(line)["evaluation"];
    evaluations[evaluation["candidate_id"]].push_back(evaluation);
  }
  std::map<std::string, size_t> verdicts;
  std::set<std::string> names;
  for (const CsvRow& row : rows) {
    INFO(row.task);
    CHECK(names.insert(row.task).second);
    ++verdicts[row.verdict];
    const auto found = evaluations.find(row.candidate_id);
    REQUIRE(found != evaluations.end());
    // Each was measured once, unless the machine was too noisy.
    const size_t verdicts_in_log =
        static_cast<size_t>(std::ranges::count_if(found->second, [](const json& evaluation) {
          return !evaluation.value("measured", json()).contains("environment_unstable");
        }));
    CHECK(verdicts_in_log == 1);
    const json& last = found->second.back();
    if (row.speedup > 0) {
      CHECK(last["measured"]["ok"]["speedup"]["value"].get<double>() == Approx(row.speedup));
    } else {
      CHECK_FALSE(last.value("measured", json()).contains("ok"));
    }
  }
  CHECK(evaluations.size() == rows.size());
  for (const auto& [verdict, number] : verdicts) CHECK(all["verdicts"][verdict] == number);
  if (with_torch) {
    const json kernelbench =
        json::parse(ReadFile(results + "/kernelbench/level1/ada/eval_results.json").value());
    CHECK(kernelbench["1"][0]["correctness"] == true);
    CHECK(kernelbench["1"][0]["runtime"].get<double>() > 0);
  }

  // The suite equals itself; a kernel that becomes slower is found.
  CHECK(Run(home, {"compare", results, results}).exit_code == 0);
  const std::string before = home.File("before");
  fs::copy(results, before, fs::copy_options::recursive);
  Write(fs::path(tasks) / "task_1" / "candidates" / "ada.cc", DoublingKernel("60"));
  for (int attempt = 0; attempt < 5; ++attempt) {
    outcome = Run(home, command);
    if (outcome.exit_code != 1) break;
  }
  INFO(outcome.out << outcome.err);
  CHECK(outcome.exit_code == 0);
  const Outcome compared = Run(home, {"compare", before, results, "--json"});
  INFO(compared.out << compared.err);
  CHECK(compared.exit_code == 1);
  const json changes = json::parse(compared.out);
  CHECK(changes["counts"] == json({{"same", count - 1}, {"slower", 1}}));
}

}  // namespace
}  // namespace kernelcast::testing::cli_suite_services_test
