#ifndef KERNELCAST_SERVICES_CLI_REPORT_SUITE_H_
#define KERNELCAST_SERVICES_CLI_REPORT_SUITE_H_

#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "services/cli/core/suite_statistics.h"
#include "services/cli/report/learning.h"
#include "services/cli/report/model.h"

namespace kernelcast::cli {

// Results of a suite: many tasks, each with candidates. Texts are neither escaped nor trusted.

struct SuiteRow {
  std::string task;
  std::string name;  // unique in the task
  std::string author;
  int64_t sample = -1;  // KernelBench's; -1: none
  std::string content;  // id of problem and candidate, before a target was chosen
  std::string target;
  std::string device_model;
  // The result, or why there is none.
  std::optional<ReportCandidate> judged;
  absl::Status error;
};
SuiteVerdict VerdictOf(const SuiteRow& row);
// The speedup, or nullptr if it was not timed or is not correct.
const Ratio* SpeedupOf(const SuiteRow& row);
// Why it failed or was not judged; may have several lines. Empty for others.
std::string FailureTextOf(const SuiteRow& row);

struct SuiteTaskInfo {
  std::string name;
  std::string level;
  std::string category;
  int64_t number = 0;  // KernelBench's problem id; 0: none
  std::string file;    // name of the task's file or folder
  // SuiteRow::content of each candidate, by name. In stored results only.
  std::map<std::string, std::string> candidates = {};
};

struct SuiteInput {
  std::string title;
  std::string mode;
  std::vector<SuiteTaskInfo> tasks;    // also those without candidates
  std::vector<SuiteRow> rows;          // in the order of the tasks
  std::vector<std::string> unmatched;  // files that belong to no task
  int64_t generated_ns = 0;
  std::string generator_version;
};

// Figures of some of the tasks, or of one author's candidates of all tasks.
struct SuiteGroup {
  std::string name;
  uint64_t tasks = 0;
  uint64_t tried = 0;  // tasks with a candidate
  uint64_t candidates = 0;
  std::map<SuiteVerdict, uint64_t> verdicts;
  std::array<FastP, std::size(kFastThresholds)> fast;
  MeanSpeedup mean;
  double device_seconds = 0;
  std::vector<double> speedups;  // of the fastest candidate of each task, ascending
};

struct SuiteSummary {
  SuiteGroup all;
  // Empty where the tasks have none.
  std::vector<SuiteGroup> levels;
  std::vector<SuiteGroup> categories;
  std::vector<SuiteGroup> authors;  // best first: by fast_1, then by the geometric mean
  HitRate forecasts;                // those with a measured speedup
  std::vector<std::string> device_models;
};
SuiteSummary SummarizeSuite(const SuiteInput& input);

// A table for a terminal, Markdown and HTML.
struct SuiteTable {
  std::string id;  // a word
  std::string title;
  struct Column {
    std::string header;
    bool number = false;
  };
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> cells;
};
// Figures by level, by category and by author. Tables with one row that repeats the whole are left
// out.
std::vector<SuiteTable> FigureTables(const SuiteSummary& summary);
// Escapes the cells.
std::string HtmlTable(const SuiteTable& table);
// "12 faster, 3 slower, 2 crash".
std::string VerdictsText(const SuiteGroup& group);
// The lines above the tables: numbers of tasks and candidates, verdicts, devices, forecasts.
std::vector<std::string> SuiteLines(const SuiteInput& input, const SuiteSummary& summary);

// Keys: title, mode, and the fields of SuiteSummary. Numbers that are not finite are null.
nlohmann::ordered_json SuiteJson(const SuiteInput& input, const SuiteSummary& summary);
// One line per candidate, after a line of names.
std::string SuiteCsv(const SuiteInput& input);
std::string SuiteMarkdown(const SuiteInput& input, const SuiteSummary& summary);
// A page that loads nothing.
std::string SuiteHtml(const SuiteInput& input, const SuiteSummary& summary);

// Results of KernelBench's tasks in the form of its files. Times are medians, in milliseconds.
// Candidates without a verdict are left out.
struct KernelBenchResults {
  // eval_results.json of each level and run (the author).
  std::map<std::pair<std::string, std::string>, nlohmann::ordered_json> runs;
  // The times of the references, by level and file; null without a timed candidate.
  nlohmann::ordered_json baseline;
};
KernelBenchResults KernelBenchResultsOf(const SuiteInput& input);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_SUITE_H_
