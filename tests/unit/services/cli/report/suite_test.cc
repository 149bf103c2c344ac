#include "services/cli/report/suite.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/unit/services/cli/report/sample_report.h"

namespace kernelcast::cli::suite_test {
namespace {

using Catch::Matchers::Contains;

SuiteRow Row(const std::string& task, const std::string& author, double speedup,
             int64_t sample = 0) {
  SuiteRow row;
  row.task = task;
  row.author = author;
  row.name = author + "/sample_" + std::to_string(sample);
  row.sample = sample;
  row.target = "cuda";
  row.device_model = "NVIDIA H200";
  row.judged = MeasuredCandidate("k_" + task + author + std::to_string(sample), speedup);
  auto& ok = std::get<MeasuredOk>(row.judged->measurement->outcome);
  ok.speedup = {.value = speedup, .low = speedup / 1.01, .high = speedup * 1.01};
  ok.shapes.resize(1);
  ok.shapes[0].candidate = {.median_ns = 2e6 / speedup, .samples = 50};
  ok.shapes[0].reference = {.median_ns = 2e6, .samples = 60};
  return row;
}

SuiteRow Failing(const std::string& task, const std::string& author, MeasureOutcome outcome) {
  SuiteRow row = Row(task, author, 1);
  row.judged->measurement->outcome = std::move(outcome);
  row.judged->feedback = "output 0 | is <off> by, \"2\"\nsecond line";
  return row;
}

SuiteRow NotJudged(const std::string& task, const std::string& author) {
  SuiteRow row;
  row.task = task;
  row.author = author;
  row.name = author;
  row.error = absl::NotFoundError("task.py: no workloads");
  return row;
}

// Two levels; the run `b` lacks two tasks.
SuiteInput Sample() {
  SuiteInput input;
  input.title = "bench";
  input.mode = "measure";
  input.tasks = {{"level1/1_a", "level1", "", 1, "1_a.py"},
                 {"level1/2_b", "level1", "", 2, "2_b.py"},
                 {"level2/1_c", "level2", "", 1, "1_c.py"}};
  Crash cannot_load;
  cannot_load.cause = Crash::Cause::kLoad;
  SuiteRow unloadable = Failing("level2/1_c", "a", cannot_load);
  input.rows = {Row("level1/1_a", "a", 4),   Row("level1/1_a", "a", 0.5, 1),
                Row("level1/1_a", "b", 1.2), Failing("level1/2_b", "a", WrongResult{}),
                std::move(unloadable),       NotJudged("level2/1_c", "c")};
  return input;
}

TEST_CASE("A suite is summarized by level and by author", "[unit]") {
  const SuiteSummary summary = SummarizeSuite(Sample());
  CHECK(summary.all.tasks == 3);
  CHECK(summary.all.tried == 3);
  CHECK(summary.all.candidates == 6);
  CHECK(VerdictsText(summary.all) == "2 faster, 1 slower, 1 wrong result, 1 crash, 1 not judged");
  CHECK(summary.device_models == std::vector<std::string>{"NVIDIA H200"});

  REQUIRE(summary.levels.size() == 2);
  CHECK(summary.levels[0].name == "level1");
  CHECK(summary.levels[0].fast[0].best == Approx(0.5));
  CHECK(summary.levels[1].fast[0].best == 0);
  CHECK(summary.categories.empty());

  // Every author is measured by all tasks.
  REQUIRE(summary.authors.size() == 3);
  const SuiteGroup& a = summary.authors[0];
  CHECK(a.name == "a");
  CHECK(a.tried == 3);
  CHECK(a.fast[0].best == Approx(1.0 / 3));
  CHECK(a.fast[3].best == Approx(1.0 / 3));
  CHECK(a.fast[3].mean == Approx(0.5 / 3));  // one of two samples
  CHECK(a.mean.value == Approx(4));
  const SuiteGroup& b = summary.authors[1];
  CHECK(b.name == "b");
  CHECK(b.tried == 1);
  CHECK(b.fast[1].best == Approx(1.0 / 3));
  CHECK(b.fast[2].best == 0);
}

TEST_CASE("Tables of levels, categories and authors appear where they say more", "[unit]") {
  SuiteInput input = Sample();
  CHECK(FigureTables(SummarizeSuite(input)).size() == 2);
  for (SuiteTaskInfo& task : input.tasks) task.category = task.name;
  CHECK(FigureTables(SummarizeSuite(input)).size() == 3);
  input.tasks = {{"t", "", "", 0, "t"}};
  input.rows = {Row("t", "a", 2)};
  const std::vector<SuiteTable> one = FigureTables(SummarizeSuite(input));
  REQUIRE(one.size() == 1);
  CHECK(one[0].cells.size() == 1);
}

TEST_CASE("CSV has a line per candidate and quotes texts", "[unit]") {
  SuiteInput input = Sample();
  input.rows[0].name = "a,\"b\"";
  const std::string csv = SuiteCsv(input);
  CHECK(std::ranges::count(csv, '\n') == 7);
  CHECK_THAT(csv, Contains("level1/1_a,level1,,a,\"a,\"\"b\"\"\",0,faster,4,"));
  CHECK_THAT(csv, Contains("level1/2_b,level1,,a,a/sample_0,0,wrong,,,,,,"));
  CHECK_THAT(csv, Contains(",500,2000,"));  // microseconds of candidate and reference
  const size_t commas = static_cast<size_t>(std::ranges::count(csv.substr(0, csv.find('\n')), ','));
  const std::string last = csv.substr(csv.rfind('\n', csv.size() - 2) + 1);
  CHECK(static_cast<size_t>(std::ranges::count(last, ',')) == commas);
}

TEST_CASE("Markdown and HTML escape what they show", "[unit]") {
  SuiteInput input = Sample();
  input.rows[0].name = "a|<script>";
  const SuiteSummary summary = SummarizeSuite(input);
  const std::string markdown = SuiteMarkdown(input, summary);
  CHECK_THAT(markdown, Contains("a\\|\\<script>"));
  CHECK_THAT(markdown, Contains("| level1 | 2 |"));
  const std::string html = SuiteHtml(input, summary);
  CHECK_THAT(html, !Contains("<script>"));
  CHECK_THAT(html, Contains("a|&lt;script&gt;"));
  CHECK_THAT(html, Contains("output 0 | is &lt;off&gt; by"));
  CHECK_THAT(html, Contains("no workloads"));
}

TEST_CASE("Results of KernelBench's tasks have its form", "[unit]") {
  const KernelBenchResults results = KernelBenchResultsOf(Sample());
  REQUIRE(results.runs.size() == 3);
  const auto& a = results.runs.at({"level1", "a"});
  REQUIRE(a["1"].size() == 2);
  CHECK(a["1"][0]["sample_id"] == 0);
  CHECK(a["1"][0]["compiled"] == true);
  CHECK(a["1"][0]["correctness"] == true);
  CHECK(a["1"][0]["runtime"] == Approx(0.5));  // milliseconds
  CHECK(a["1"][0]["runtime_stats"]["mean"] == Approx(0.5));
  CHECK(a["1"][0]["runtime_stats"]["num_trials"] == 50);
  CHECK(a["1"][0]["metadata"]["hardware"] == "NVIDIA H200");
  CHECK(a["1"][1]["runtime"] == Approx(4));
  CHECK(a["2"][0]["correctness"] == false);
  CHECK(a["2"][0]["runtime"] == -1.0);
  CHECK(a["2"][0]["metadata"].contains("correctness_issue"));
  // A source that cannot be loaded does not compile, in KernelBench's sense.
  CHECK(results.runs.at({"level2", "a"})["1"][0]["compiled"] == false);
  // Candidates without a verdict are missing, as in KernelBench.
  CHECK(results.runs.count({"level2", "c"}) == 0);
  const auto& baseline = results.baseline;
  CHECK(baseline["level1"]["1_a.py"]["mean"] == Approx(2));
  // Its analysis divides the two: fast_p is that of the summary.
  CHECK(baseline["level1"]["1_a.py"]["mean"].get<double>() / a["1"][0]["runtime"].get<double>() ==
        Approx(4));
}

TEST_CASE("The data of a suite have no numbers that are not finite", "[unit]") {
  const SuiteInput input = Sample();
  const auto json = SuiteJson(input, SummarizeSuite(input));
  CHECK(json["all"]["verdicts"]["faster"] == 2);
  CHECK(json["all"]["fast_p"][1]["p"] == 1);
  CHECK(json["all"]["fast_p"][1]["best"] == Approx(1.0 / 3));
  CHECK(json["all"]["mean_speedup"]["low"].is_null());  // of one task
  CHECK(json["authors"][0]["name"] == "a");
}

}  // namespace
}  // namespace kernelcast::cli::suite_test
