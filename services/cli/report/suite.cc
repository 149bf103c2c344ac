#include "services/cli/report/suite.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/domain/text.h"
#include "services/cli/core/text.h"
#include "services/cli/report/analysis.h"
#include "services/cli/report/charts.h"
#include "services/cli/report/html_parts.h"

namespace kernelcast::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kNoGroup = "-";

const MeasuredOk* SuiteOkOf(const SuiteRow& row) {
  if (!row.judged || !row.judged->measurement) return nullptr;
  return std::get_if<MeasuredOk>(&row.judged->measurement->outcome);
}

// The weighted geometric mean over the bench shapes, as the speedup has it.
double TimeNs(const MeasuredOk& ok, TimeStatistics ShapeTiming::*side) {
  const std::vector<double> weights = ShapeWeights(ok);
  double log_ns = 0;
  for (size_t i = 0; i < ok.shapes.size(); ++i) {
    log_ns += weights[i] * std::log((ok.shapes[i].*side).median_ns);
  }
  return ok.shapes.empty() ? 0 : std::exp(log_ns);
}

JudgedSpeedup JudgedOf(const SuiteRow& row) {
  JudgedSpeedup judged;
  judged.correct = IsCorrect(VerdictOf(row));
  if (const Ratio* const speedup = SpeedupOf(row)) judged.speedup = *speedup;
  return judged;
}

// The figures of the tasks, with the rows that `counts` accepts.
SuiteGroup GroupOf(std::string name, const std::vector<const SuiteTaskInfo*>& tasks,
                   const std::map<std::string, std::vector<const SuiteRow*>>& rows,
                   const std::function<bool(const SuiteRow&)>& counts) {
  SuiteGroup group;
  group.name = std::move(name);
  group.tasks = tasks.size();
  JudgedTasks judged;
  for (const SuiteTaskInfo* const task : tasks) {
    std::vector<JudgedSpeedup>& of_task = judged.emplace_back();
    double fastest = 0;
    const auto found = rows.find(task->name);
    if (found == rows.end()) continue;
    for (const SuiteRow* const row : found->second) {
      if (!counts(*row)) continue;
      of_task.push_back(JudgedOf(*row));
      fastest = std::max(fastest, of_task.back().speedup.value);
      ++group.verdicts[VerdictOf(*row)];
      if (row->judged) group.device_seconds += DeviceSecondsOf(*row->judged);
    }
    group.candidates += of_task.size();
    if (!of_task.empty()) ++group.tried;
    if (fastest > 0) group.speedups.push_back(fastest);
  }
  for (size_t i = 0; i < group.fast.size(); ++i) {
    group.fast[i] = FastPOf(kFastThresholds[i], judged);
  }
  group.mean = MeanSpeedupOf(judged);
  std::ranges::sort(group.speedups);
  return group;
}

// One group for each value of a field of the tasks. Empty if no task has one.
std::vector<SuiteGroup> GroupsBy(const SuiteInput& input, std::string SuiteTaskInfo::*field,
                                 const std::map<std::string, std::vector<const SuiteRow*>>& rows) {
  std::map<std::string, std::vector<const SuiteTaskInfo*>> tasks;
  for (const SuiteTaskInfo& task : input.tasks) tasks[task.*field].push_back(&task);
  std::vector<SuiteGroup> groups;
  if (tasks.size() == 1 && tasks.begin()->first.empty()) return groups;
  for (const auto& [name, of_group] : tasks) {
    groups.push_back(GroupOf(name.empty() ? std::string(kNoGroup) : name, of_group, rows,
                             [](const SuiteRow&) { return true; }));
  }
  return groups;
}

std::string MeanText(const MeanSpeedup& mean) {
  if (mean.tasks == 0) return "-";
  if (mean.tasks == 1) return FormatSpeedup(mean.value);
  return FormatSpeedup(Ratio{.value = mean.value, .low = mean.low, .high = mean.high});
}

// The better figure, and that of a drawn candidate where it differs.
std::string FastText(const FastP& fast) {
  const std::string best = FormatShare(fast.best);
  const std::string mean = FormatShare(fast.mean);
  return best == mean ? best : absl::StrCat(best, " (", mean, ")");
}

SuiteTable TableOf(std::string id, std::string title, std::string what,
                   const std::vector<SuiteGroup>& groups) {
  SuiteTable table;
  table.id = std::move(id);
  table.title = std::move(title);
  table.columns = {{std::move(what)}, {"tasks", true}, {"candidates", true}, {"correct", true}};
  for (const double p : kFastThresholds) {
    table.columns.push_back({absl::StrCat("fast_", NumberText(p)), true});
  }
  table.columns.push_back({"mean speedup", true});
  table.columns.push_back({"verdicts"});
  for (const SuiteGroup& group : groups) {
    uint64_t correct = 0;
    for (const auto& [verdict, count] : group.verdicts) correct += IsCorrect(verdict) ? count : 0;
    std::vector<std::string> cells = {
        OneLine(group.name),
        group.tried == group.tasks
            ? FormatCount(group.tasks)
            : absl::StrCat(FormatCount(group.tried), " of ", FormatCount(group.tasks)),
        FormatCount(group.candidates), FormatCount(correct)};
    for (const FastP& fast : group.fast) cells.push_back(FastText(fast));
    cells.push_back(MeanText(group.mean));
    cells.push_back(VerdictsText(group));
    table.cells.push_back(std::move(cells));
  }
  return table;
}

Json NumberJson(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json GroupJson(const SuiteGroup& group) {
  Json json = {{"name", group.name},
               {"tasks", group.tasks},
               {"tasks_with_candidates", group.tried},
               {"candidates", group.candidates},
               {"verdicts", Json::object()}};
  for (const auto& [verdict, count] : group.verdicts)
    json["verdicts"][std::string(Name(verdict))] = count;
  json["fast_p"] = Json::array();
  for (const FastP& fast : group.fast) {
    json["fast_p"].push_back(
        {{"p", fast.p}, {"best", NumberJson(fast.best)}, {"mean", NumberJson(fast.mean)}});
  }
  json["mean_speedup"] = {{"tasks", group.mean.tasks},
                          {"value", NumberJson(group.mean.value)},
                          {"low", NumberJson(group.mean.low)},
                          {"high", NumberJson(group.mean.high)},
                          {"noise_low", NumberJson(group.mean.noise_low)},
                          {"noise_high", NumberJson(group.mean.noise_high)}};
  json["device_seconds"] = group.device_seconds;
  return json;
}

Json GroupsJson(const std::vector<SuiteGroup>& groups) {
  Json json = Json::array();
  for (const SuiteGroup& group : groups) json.push_back(GroupJson(group));
  return json;
}

std::string CsvField(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string CsvNumber(double value) {
  return std::isfinite(value) && value != 0 ? NumberText(value, 9) : std::string();
}

// Text in a cell of a Markdown table.
std::string MarkdownCell(std::string_view text) {
  std::string cell;
  for (const char c : OneLine(text)) {
    if (c == '|' || c == '\\' || c == '`' || c == '*' || c == '_' || c == '<' || c == '[') {
      cell += '\\';
    }
    cell += c;
  }
  return cell;
}

std::string MarkdownTable(const SuiteTable& table) {
  std::string text = "|";
  for (const SuiteTable::Column& column : table.columns) {
    absl::StrAppend(&text, " ", MarkdownCell(column.header), " |");
  }
  text += "\n|";
  for (const SuiteTable::Column& column : table.columns) text += column.number ? "---:|" : "---|";
  text += "\n";
  for (const std::vector<std::string>& row : table.cells) {
    text += "|";
    for (const std::string& cell : row) absl::StrAppend(&text, " ", MarkdownCell(cell), " |");
    text += "\n";
  }
  return text;
}

std::string VerdictChip(SuiteVerdict verdict) {
  return Chip(verdict == SuiteVerdict::kFaster ? "good"
              : IsFailure(verdict)             ? "warn"
                                               : "",
              Phrase(verdict));
}

// All speedups of each author on one axis.
std::string StripsHtml(const std::vector<SuiteGroup>& authors) {
  double low = 1;
  double high = 1;
  for (const SuiteGroup& author : authors) {
    if (author.speedups.empty()) continue;
    low = std::min(low, author.speedups.front());
    high = std::max(high, author.speedups.back());
  }
  if (!(high > low)) return "";
  std::string html = "<div class=scroll><table class=plain><tbody>";
  for (const SuiteGroup& author : authors) {
    if (author.speedups.empty()) continue;
    absl::StrAppend(&html, "<tr><td>", Html(author.name), "</td><td>",
                    SpeedupStrip(author.speedups, low, high), "</td><td class=n>",
                    Times(author.speedups.back()), "</td></tr>");
  }
  return html + "</tbody></table></div>";
}

std::string CandidatesTable(const SuiteInput& input) {
  std::string html =
      "<div class=scroll><table class=plain><thead><tr><th>task<th>candidate<th>author<th>verdict"
      "<th class=n>speedup<th class=n>time<th class=n>reference<th></tr></thead><tbody>";
  for (const SuiteRow& row : input.rows) {
    const MeasuredOk* const ok = SuiteOkOf(row);
    const Ratio* const speedup = SpeedupOf(row);
    const std::string failure = FailureTextOf(row);
    absl::StrAppend(&html, "<tr><td>", Html(row.task), "</td><td>", Html(row.name), "</td><td>",
                    Html(row.author), "</td><td>", VerdictChip(VerdictOf(row)), "</td><td class=n>",
                    speedup == nullptr ? "" : SpeedupHtml(*speedup), "</td><td class=n>",
                    ok == nullptr ? "" : Html(FormatTimeNs(TimeNs(*ok, &ShapeTiming::candidate))),
                    "</td><td class=n>",
                    ok == nullptr ? "" : Html(FormatTimeNs(TimeNs(*ok, &ShapeTiming::reference))),
                    "</td><td>");
    if (!failure.empty()) {
      absl::StrAppend(&html, "<details><summary>why</summary><pre>", Html(failure),
                      "</pre></details>");
    }
    html += "</td></tr>";
  }
  return html + "</tbody></table></div>";
}

constexpr std::string_view kFastNote =
    "fast_p is the share of tasks with a correct candidate more than p times as fast as the "
    "reference; a task without one counts as not solved. In brackets: for one candidate of each "
    "task, drawn at random. The mean speedup is the geometric mean over tasks of the fastest "
    "correct candidate, with its 95% interval over tasks.";

// Whether the source was loaded, in KernelBench's sense.
bool Compiled(const SuiteRow& row) {
  if (VerdictOf(row) == SuiteVerdict::kCompileError) return false;
  const auto* const crash = row.judged && row.judged->measurement
                                ? std::get_if<Crash>(&row.judged->measurement->outcome)
                                : nullptr;
  return crash == nullptr || crash->cause != Crash::Cause::kLoad;
}

constexpr double kNsPerMs = 1e6;

Json KernelBenchStats(double mean_ns, uint64_t trials, const std::string& hardware,
                      const std::string& device) {
  return {{"mean", mean_ns / kNsPerMs},
          {"num_trials", trials},
          {"hardware", hardware},
          {"device", device}};
}

Json KernelBenchResult(const SuiteRow& row) {
  const SuiteVerdict verdict = VerdictOf(row);
  const std::string failure = FailureTextOf(row);
  Json metadata = {{"hardware", row.device_model}, {"device", row.target}};
  if (IsFailure(verdict)) {
    const char* const key = !Compiled(row)                    ? "compilation_error"
                            : verdict == SuiteVerdict::kWrong ? "correctness_issue"
                                                              : "runtime_error";
    metadata[key] = failure;
    metadata["verdict"] = Name(verdict);
  }
  Json result = {{"sample_id", std::max<int64_t>(row.sample, 0)},
                 {"compiled", Compiled(row)},
                 {"correctness", IsCorrect(verdict)},
                 {"metadata", std::move(metadata)},
                 {"runtime", -1.0},
                 {"runtime_stats", Json::object()}};
  if (const MeasuredOk* const ok = SuiteOkOf(row)) {
    uint64_t samples = 0;
    for (const ShapeTiming& shape : ok->shapes) samples += shape.candidate.samples;
    const double time_ns = TimeNs(*ok, &ShapeTiming::candidate);
    result["runtime"] = time_ns / kNsPerMs;
    result["runtime_stats"] = KernelBenchStats(time_ns, samples, row.device_model, row.target);
  }
  return result;
}

}  // namespace

SuiteVerdict VerdictOf(const SuiteRow& row) {
  if (!row.judged) return SuiteVerdict::kNotJudged;
  if (row.judged->compile_error) return SuiteVerdict::kCompileError;
  if (!row.judged->rejection.empty()) return SuiteVerdict::kNotJudged;
  if (!row.judged->measurement) return SuiteVerdict::kPruned;
  struct Visitor {
    SuiteVerdict operator()(const MeasuredOk& ok) const {
      return ok.speedup.low > 1    ? SuiteVerdict::kFaster
             : ok.speedup.high < 1 ? SuiteVerdict::kSlower
                                   : SuiteVerdict::kSame;
    }
    SuiteVerdict operator()(const WrongResult&) const { return SuiteVerdict::kWrong; }
    SuiteVerdict operator()(const Crash&) const { return SuiteVerdict::kCrash; }
    SuiteVerdict operator()(const Timeout&) const { return SuiteVerdict::kTimeout; }
    SuiteVerdict operator()(const Exploit&) const { return SuiteVerdict::kExploit; }
    SuiteVerdict operator()(const EnvironmentUnstable&) const { return SuiteVerdict::kUnstable; }
    SuiteVerdict operator()(const Passed&) const { return SuiteVerdict::kPassed; }
  };
  return std::visit(Visitor(), row.judged->measurement->outcome);
}

const Ratio* SpeedupOf(const SuiteRow& row) {
  return row.judged ? SpeedupOf(*row.judged) : nullptr;
}

std::string FailureTextOf(const SuiteRow& row) {
  if (!row.judged) return std::string(row.error.message());
  if (!row.judged->rejection.empty()) return row.judged->rejection;
  const SuiteVerdict verdict = VerdictOf(row);
  if (!IsFailure(verdict) && verdict != SuiteVerdict::kUnstable) return "";
  return row.judged->feedback.empty() ? FailurePhrase(*row.judged) : row.judged->feedback;
}

SuiteSummary SummarizeSuite(const SuiteInput& input) {
  std::map<std::string, std::vector<const SuiteRow*>> rows;
  std::set<std::string> authors;
  std::set<std::string> models;
  SuiteSummary summary;
  LearningCounter forecasts;
  for (const SuiteRow& row : input.rows) {
    rows[row.task].push_back(&row);
    authors.insert(row.author);
    if (!row.device_model.empty()) models.insert(row.device_model);
    if (row.judged) forecasts.Add(*row.judged);
  }
  for (const HitRate& rate : {forecasts.learning().before, forecasts.learning().after}) {
    summary.forecasts.forecasts += rate.forecasts;
    summary.forecasts.exact += rate.exact;
    summary.forecasts.within_one += rate.within_one;
  }
  summary.device_models.assign(models.begin(), models.end());
  std::vector<const SuiteTaskInfo*> tasks;
  for (const SuiteTaskInfo& task : input.tasks) tasks.push_back(&task);
  const auto all = [](const SuiteRow&) { return true; };
  summary.all = GroupOf("all", tasks, rows, all);
  summary.levels = GroupsBy(input, &SuiteTaskInfo::level, rows);
  summary.categories = GroupsBy(input, &SuiteTaskInfo::category, rows);
  for (const std::string& author : authors) {
    summary.authors.push_back(
        GroupOf(author.empty() ? std::string(kNoGroup) : author, tasks, rows,
                [&author](const SuiteRow& row) { return row.author == author; }));
  }
  std::ranges::stable_sort(summary.authors, [](const SuiteGroup& a, const SuiteGroup& b) {
    const auto key = [](const SuiteGroup& group) {
      return std::tuple(group.fast[1].best, group.fast[0].best,
                        group.mean.tasks > 0 ? group.mean.value : 0);
    };
    return key(a) > key(b);
  });
  return summary;
}

std::string HtmlTable(const SuiteTable& table) {
  std::string html = "<div class=scroll><table class=plain><thead><tr>";
  for (const SuiteTable::Column& column : table.columns) {
    absl::StrAppend(&html, column.number ? "<th class=n>" : "<th>", Html(column.header));
  }
  html += "</tr></thead><tbody>";
  for (const std::vector<std::string>& row : table.cells) {
    html += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&html, table.columns[i].number ? "<td class=n>" : "<td>", Html(row[i]),
                      "</td>");
    }
    html += "</tr>";
  }
  return html + "</tbody></table></div>";
}

std::string VerdictsText(const SuiteGroup& group) {
  std::string text;
  for (const SuiteVerdict verdict : kSuiteVerdicts) {
    const auto found = group.verdicts.find(verdict);
    if (found == group.verdicts.end()) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", FormatCount(found->second), " ",
                    std::string(Phrase(verdict)));
  }
  return text;
}

std::vector<SuiteTable> FigureTables(const SuiteSummary& summary) {
  std::vector<SuiteTable> tables;
  std::vector<SuiteGroup> levels = summary.levels;
  levels.push_back(summary.all);
  tables.push_back(TableOf("levels", "By level", "level", levels));
  if (summary.levels.empty()) tables.back().title = "All tasks";
  if (summary.levels.empty()) tables.back().columns.front().header.clear();
  if (summary.categories.size() > 1) {
    tables.push_back(TableOf("categories", "By category", "category", summary.categories));
  }
  if (summary.authors.size() > 1) {
    tables.push_back(TableOf("authors", "Leaderboard", "author", summary.authors));
  }
  return tables;
}

std::vector<std::string> SuiteLines(const SuiteInput& input, const SuiteSummary& summary) {
  const SuiteGroup& all = summary.all;
  std::vector<std::string> lines;
  lines.push_back(absl::StrCat(
      FormatCount(all.tasks), all.tasks == 1 ? " task" : " tasks",
      all.tried < all.tasks
          ? absl::StrCat(", ", FormatCount(all.tasks - all.tried), " of them without a candidate")
          : "",
      ", ", FormatCount(all.candidates), all.candidates == 1 ? " candidate" : " candidates"));
  if (all.candidates > 0) lines.push_back(VerdictsText(all));
  if (!summary.device_models.empty()) {
    lines.push_back(absl::StrCat("measured on ", OneLine(CommaList(summary.device_models)), ", ",
                                 FormatSeconds(all.device_seconds), " of device time"));
  }
  if (const HitRate& hits = summary.forecasts; hits.forecasts > 0) {
    const auto share = [&hits](uint64_t count) {
      return FormatShare(static_cast<double>(count) / static_cast<double>(hits.forecasts));
    };
    lines.push_back(absl::StrCat("forecasts in the measured bin: ", share(hits.exact), " (",
                                 share(hits.within_one), " within one bin) of ",
                                 FormatCount(hits.forecasts)));
  }
  if (!input.unmatched.empty()) {
    lines.push_back(absl::StrCat(FormatCount(input.unmatched.size()),
                                 " files among candidates belong to no task"));
  }
  return lines;
}

Json SuiteJson(const SuiteInput& input, const SuiteSummary& summary) {
  Json json = {{"title", input.title},
               {"mode", input.mode},
               {"generated_at", FormatUtc(input.generated_ns)},
               {"generator", input.generator_version},
               {"device_models", summary.device_models},
               {"all", GroupJson(summary.all)},
               {"levels", GroupsJson(summary.levels)},
               {"categories", GroupsJson(summary.categories)},
               {"authors", GroupsJson(summary.authors)},
               {"forecasts",
                {{"measured", summary.forecasts.forecasts},
                 {"in_bin", summary.forecasts.exact},
                 {"within_one_bin", summary.forecasts.within_one}}},
               {"unmatched_files", input.unmatched}};
  return json;
}

std::string SuiteCsv(const SuiteInput& input) {
  std::map<std::string, const SuiteTaskInfo*> tasks;
  for (const SuiteTaskInfo& task : input.tasks) tasks.emplace(task.name, &task);
  std::string text =
      "task,level,category,author,candidate,sample,verdict,speedup,speedup_low,speedup_high,"
      "candidate_us,reference_us,forecast_speedup,failure_probability,target,device_model,"
      "device_seconds,candidate_id\n";
  for (const SuiteRow& row : input.rows) {
    const auto found = tasks.find(row.task);
    const SuiteTaskInfo none;
    const SuiteTaskInfo& task = found == tasks.end() ? none : *found->second;
    const MeasuredOk* const ok = SuiteOkOf(row);
    const Ratio speedup = ok == nullptr ? Ratio() : ok->speedup;
    const Forecast* const forecast =
        row.judged && row.judged->forecast ? &*row.judged->forecast : nullptr;
    const std::string fields[] = {
        row.task,
        task.level,
        task.category,
        row.author,
        row.name,
        row.sample < 0 ? std::string() : absl::StrCat(row.sample),
        std::string(Name(VerdictOf(row))),
        CsvNumber(speedup.value),
        CsvNumber(speedup.low),
        CsvNumber(speedup.high),
        ok == nullptr ? "" : CsvNumber(TimeNs(*ok, &ShapeTiming::candidate) / 1e3),
        ok == nullptr ? "" : CsvNumber(TimeNs(*ok, &ShapeTiming::reference) / 1e3),
        forecast == nullptr ? "" : CsvNumber(std::exp2(forecast->expected_log2_speedup)),
        forecast == nullptr ? "" : CsvNumber(forecast->failure_probability),
        row.target,
        row.device_model,
        row.judged ? CsvNumber(DeviceSecondsOf(*row.judged)) : "",
        row.judged ? row.judged->candidate.candidate_id : ""};
    std::string_view separator;
    for (const std::string& field : fields) {
      text += separator;
      text += CsvField(field);
      separator = ",";
    }
    text += "\n";
  }
  return text;
}

std::string SuiteMarkdown(const SuiteInput& input, const SuiteSummary& summary) {
  std::string text = absl::StrCat("# ", MarkdownCell(input.title), "\n\n");
  for (const std::string& line : SuiteLines(input, summary)) {
    absl::StrAppend(&text, "- ", MarkdownCell(line), "\n");
  }
  for (const SuiteTable& table : FigureTables(summary)) {
    absl::StrAppend(&text, "\n## ", table.title, "\n\n", MarkdownTable(table));
  }
  absl::StrAppend(&text, "\n", MarkdownCell(kFastNote), "\n");
  SuiteTable rows{"candidates",
                  "Candidates",
                  {{"task"}, {"candidate"}, {"author"}, {"verdict"}, {"speedup", true}},
                  {}};
  for (const SuiteRow& row : input.rows) {
    const Ratio* const speedup = SpeedupOf(row);
    rows.cells.push_back({row.task, row.name, row.author, std::string(Phrase(VerdictOf(row))),
                          speedup == nullptr ? "" : FormatSpeedup(*speedup)});
  }
  absl::StrAppend(&text, "\n## ", rows.title, "\n\n", MarkdownTable(rows), "\nMade by ",
                  input.generator_version, ", ", FormatUtc(input.generated_ns), ".\n");
  return text;
}

std::string SuiteHtml(const SuiteInput& input, const SuiteSummary& summary) {
  std::string page = PageStart(absl::StrCat(input.title, " · Kernelcast suite"), "suite");
  std::string lines;
  for (const std::string& line : SuiteLines(input, summary)) {
    absl::StrAppend(&lines, "<p class=about>", Html(line), "</p>");
  }
  page += Section("suite", input.title, "", lines);
  for (const SuiteTable& table : FigureTables(summary)) {
    const bool leaderboard = table.id == "authors";
    page += Section(table.id, table.title,
                    leaderboard ? "Below: the speedup of each task's fastest candidate."
                                : std::string(kFastNote),
                    HtmlTable(table) + (leaderboard ? StripsHtml(summary.authors) : ""));
  }
  page += Section("candidates", "Candidates", "", CandidatesTable(input));
  absl::StrAppend(&page, "</main><footer>Made by ", Html(input.generator_version), ", ",
                  Html(FormatUtc(input.generated_ns)),
                  ". This page is complete in itself and loads nothing.</footer></body></html>\n");
  return page;
}

KernelBenchResults KernelBenchResultsOf(const SuiteInput& input) {
  std::map<std::string, const SuiteTaskInfo*> tasks;
  for (const SuiteTaskInfo& task : input.tasks) {
    if (task.number > 0) tasks.emplace(task.name, &task);
  }
  struct Reference {
    std::vector<double> times_ns;
    uint64_t samples = 0;
    std::string hardware;
    std::string device;
  };
  std::map<const SuiteTaskInfo*, Reference> references;
  KernelBenchResults results;
  for (const SuiteRow& row : input.rows) {
    const auto found = tasks.find(row.task);
    if (found == tasks.end() || IsOpen(VerdictOf(row)) || VerdictOf(row) == SuiteVerdict::kPruned) {
      continue;
    }
    const SuiteTaskInfo& task = *found->second;
    results.runs[{task.level, row.author}][absl::StrCat(task.number)].push_back(
        KernelBenchResult(row));
    if (const MeasuredOk* const ok = SuiteOkOf(row)) {
      Reference& reference = references[&task];
      reference.times_ns.push_back(TimeNs(*ok, &ShapeTiming::reference));
      for (const ShapeTiming& shape : ok->shapes) reference.samples += shape.reference.samples;
      reference.hardware = row.device_model;
      reference.device = row.target;
    }
  }
  for (auto& [task, reference] : references) {
    std::ranges::sort(reference.times_ns);
    const double middle_ns = reference.times_ns[reference.times_ns.size() / 2];
    results.baseline[task->level][task->file] =
        KernelBenchStats(middle_ns, reference.samples, reference.hardware, reference.device);
  }
  return results;
}

}  // namespace kernelcast::cli
