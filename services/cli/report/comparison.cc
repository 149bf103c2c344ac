#include "services/cli/report/comparison.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/domain/text.h"
#include "services/cli/core/table.h"
#include "services/cli/core/text.h"
#include "services/cli/report/analysis.h"
#include "services/cli/report/html_parts.h"

namespace kernelcast::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr ChangeKind kChangeKinds[] = {
    ChangeKind::kVerdictWorse,  ChangeKind::kSlower, ChangeKind::kVerdictChanged,
    ChangeKind::kVerdictBetter, ChangeKind::kFaster, ChangeKind::kNotCompared,
    ChangeKind::kSame};

std::string_view PhraseOf(ChangeKind kind) {
  switch (kind) {
    case ChangeKind::kFaster: return "faster";
    case ChangeKind::kSlower: return "slower";
    case ChangeKind::kSame: return "same";
    case ChangeKind::kVerdictBetter: return "now correct";
    case ChangeKind::kVerdictWorse: return "now fails";
    case ChangeKind::kVerdictChanged: return "fails differently";
    case ChangeKind::kNotCompared: return "not compared";
  }
  return "";
}

std::string ProblemIdOf(const SuiteRow& row) {
  if (!row.judged) return "";
  if (row.judged->measurement) return row.judged->measurement->problem_id;
  return row.judged->candidate.problem_id;
}

// A row that stands for a task: the fastest correct one, otherwise a failure, otherwise any.
bool StandsBefore(const SuiteRow& row, const SuiteRow& other) {
  const auto rank = [](const SuiteRow& one) {
    const SuiteVerdict verdict = VerdictOf(one);
    return IsCorrect(verdict) ? 2 : IsFailure(verdict) ? 1 : 0;
  };
  const auto value = [](const SuiteRow& one) {
    const Ratio* const speedup = SpeedupOf(one);
    return speedup == nullptr ? 0 : speedup->value;
  };
  return std::pair(rank(row), value(row)) > std::pair(rank(other), value(other));
}

// The row of each task, by the task's name or by its problem.
std::map<std::string, SuiteRow> BestRows(const ComparedSide& side, bool by_name) {
  if (!by_name && !side.best.empty()) return side.best;
  std::map<std::string, SuiteRow> best;
  for (const SuiteRow& row : side.rows) {
    const std::string key = by_name ? row.task : ProblemIdOf(row);
    if (key.empty()) continue;
    const auto [at, is_new] = best.emplace(key, row);
    if (!is_new && StandsBefore(row, at->second)) at->second = row;
  }
  return best;
}

// By task and name.
std::map<std::string, SuiteRow> NamedRows(const ComparedSide& side) {
  std::map<std::string, SuiteRow> rows;
  for (const SuiteRow& row : side.rows) rows.emplace(absl::StrCat(row.task, "\n", row.name), row);
  return rows;
}

ChangeKind KindOfVerdicts(SuiteVerdict before, SuiteVerdict after) {
  if (IsCorrect(before) && IsFailure(after)) return ChangeKind::kVerdictWorse;
  if (IsFailure(before) && IsCorrect(after)) return ChangeKind::kVerdictBetter;
  if (IsFailure(before) && IsFailure(after)) {
    return before == after ? ChangeKind::kSame : ChangeKind::kVerdictChanged;
  }
  // Speeds decide about two correct ones.
  return IsCorrect(before) && IsCorrect(after) ? ChangeKind::kSame : ChangeKind::kNotCompared;
}

std::string FigureText(SuiteVerdict verdict, const Ratio& speedup) {
  return speedup.value > 0 ? FormatSpeedup(speedup) : std::string(Phrase(verdict));
}

std::string HitsText(const HitRate& hits) {
  if (hits.forecasts == 0) return "-";
  const auto share = [&hits](uint64_t count) {
    return FormatShare(static_cast<double>(count) / static_cast<double>(hits.forecasts));
  };
  return absl::StrCat(share(hits.exact), " (", share(hits.within_one), " within one) of ",
                      hits.forecasts);
}

bool IsWorse(ChangeKind kind) {
  return kind == ChangeKind::kSlower || kind == ChangeKind::kVerdictWorse;
}

bool IsBetter(ChangeKind kind) {
  return kind == ChangeKind::kFaster || kind == ChangeKind::kVerdictBetter;
}

std::vector<SuiteTable::Column> SideColumns() {
  return {{""}, {"measured", true}, {"device time", true}, {"forecasts in the measured bin"}, {""}};
}

std::vector<std::string> SideCells(const std::string& label, const ComparedSide& side) {
  return {label, FormatCount(side.measured), FormatSeconds(side.device_seconds),
          HitsText(side.forecasts), OneLine(side.title)};
}

std::vector<SuiteTable::Column> ChangeColumns(const RunComparison& comparison) {
  std::vector<SuiteTable::Column> columns = {{"change"}, {"task"}};
  if (comparison.by_candidate) columns.push_back({"candidate"});
  columns.insert(columns.end(), {{"before"}, {"after"}, {"after / before"}});
  return columns;
}

std::vector<std::string> ChangeCells(const RunComparison& comparison, const ComparedPair& pair) {
  std::vector<std::string> cells = {std::string(PhraseOf(pair.kind)), OneLine(pair.task)};
  if (comparison.by_candidate) cells.push_back(OneLine(pair.name));
  cells.push_back(FigureText(pair.before, pair.speedup_before));
  cells.push_back(FigureText(pair.after, pair.speedup_after));
  cells.push_back(pair.change.ratio.value > 0 ? FormatSpeedup(pair.change.ratio) : "");
  return cells;
}

// For a terminal. Names shrink, and the title of a side.
std::vector<Table::Column> TableColumns(const std::vector<SuiteTable::Column>& columns) {
  std::vector<Table::Column> shown;
  for (const SuiteTable::Column& column : columns) {
    const bool is_title = column.header.empty() && &column == &columns.back();
    const bool shrinks = is_title || column.header == "task" || column.header == "candidate";
    shown.push_back(
        {column.header, column.number ? Table::Align::kRight : Table::Align::kLeft, shrinks});
  }
  return shown;
}

// The most important changes first.
std::vector<const ComparedPair*> SortedPairs(const RunComparison& comparison) {
  std::vector<const ComparedPair*> pairs;
  for (const ChangeKind kind : kChangeKinds) {
    for (const ComparedPair& pair : comparison.pairs) {
      if (pair.kind == kind) pairs.push_back(&pair);
    }
  }
  return pairs;
}

std::vector<std::string> SummaryLines(const RunComparison& comparison) {
  std::string counts;
  for (const ChangeKind kind : kChangeKinds) {
    const auto found = comparison.counts.find(kind);
    if (found == comparison.counts.end()) continue;
    absl::StrAppend(&counts, counts.empty() ? "" : ", ", FormatCount(found->second), " ",
                    std::string(PhraseOf(kind)));
  }
  std::vector<std::string> lines = {absl::StrCat(
      FormatCount(comparison.pairs.size()),
      comparison.by_candidate ? " candidates: " : " tasks, by their fastest: ", counts)};
  if (const MeanSpeedup& mean = comparison.mean; mean.tasks > 0) {
    lines.push_back(absl::StrCat(
        "all together ",
        FormatSpeedup(Ratio{.value = mean.value, .low = mean.noise_low, .high = mean.noise_high}),
        ", the geometric mean of ", FormatCount(mean.tasks)));
  }
  if (comparison.only_before + comparison.only_after > 0) {
    lines.push_back(absl::StrCat(FormatCount(comparison.only_before), " only before, ",
                                 FormatCount(comparison.only_after), " only after"));
  }
  return lines;
}

Json RatioJson(const Ratio& ratio) {
  if (!(ratio.value > 0)) return nullptr;
  return {{"value", ratio.value}, {"low", ratio.low}, {"high", ratio.high}};
}

Json SideJson(const ComparedSide& side) {
  return {{"title", side.title},
          {"candidates", side.rows.size()},
          {"measured", side.measured},
          {"device_seconds", side.device_seconds},
          {"forecasts",
           {{"measured", side.forecasts.forecasts},
            {"in_bin", side.forecasts.exact},
            {"within_one_bin", side.forecasts.within_one}}}};
}

}  // namespace

std::string_view Name(ChangeKind kind) {
  switch (kind) {
    case ChangeKind::kFaster: return "faster";
    case ChangeKind::kSlower: return "slower";
    case ChangeKind::kSame: return "same";
    case ChangeKind::kVerdictBetter: return "verdict_better";
    case ChangeKind::kVerdictWorse: return "verdict_worse";
    case ChangeKind::kVerdictChanged: return "verdict_changed";
    case ChangeKind::kNotCompared: return "not_compared";
  }
  return "";
}

void CountRows(ComparedSide& side) {
  LearningCounter forecasts;
  for (const SuiteRow& row : side.rows) {
    if (!row.judged) continue;
    side.device_seconds += DeviceSecondsOf(*row.judged);
    side.measured += row.judged->measurement && !row.judged->reused ? 1 : 0;
    forecasts.Add(*row.judged);
  }
  for (const HitRate& rate : {forecasts.learning().before, forecasts.learning().after}) {
    side.forecasts.forecasts += rate.forecasts;
    side.forecasts.exact += rate.exact;
    side.forecasts.within_one += rate.within_one;
  }
}

RunComparison CompareRuns(const ComparedSide& before, const ComparedSide& after,
                          double least_change) {
  RunComparison comparison;
  const bool named = before.named && after.named;
  std::map<std::string, SuiteRow> rows_before;
  std::map<std::string, SuiteRow> rows_after;
  const auto shares_a_key = [&] {
    return std::ranges::any_of(
        rows_before, [&](const auto& entry) { return rows_after.count(entry.first) != 0; });
  };
  if (named) {
    rows_before = NamedRows(before);
    rows_after = NamedRows(after);
    comparison.by_candidate = shares_a_key();
  }
  if (!comparison.by_candidate) {
    rows_before = BestRows(before, named);
    rows_after = BestRows(after, named);
  }
  std::vector<SpeedChange> changes;
  std::vector<size_t> changed_pairs;
  JudgedTasks ratios;
  for (const auto& [key, row] : rows_before) {
    const auto found = rows_after.find(key);
    if (found == rows_after.end()) {
      ++comparison.only_before;
      continue;
    }
    const SuiteRow& now = found->second;
    ComparedPair& pair = comparison.pairs.emplace_back();
    pair.task = row.task;
    if (comparison.by_candidate) pair.name = row.name;
    pair.before = VerdictOf(row);
    pair.after = VerdictOf(now);
    pair.kind = KindOfVerdicts(pair.before, pair.after);
    pair.reason = FailureTextOf(now);
    if (const Ratio* const speedup = SpeedupOf(row)) pair.speedup_before = *speedup;
    if (const Ratio* const speedup = SpeedupOf(now)) pair.speedup_after = *speedup;
    pair.change = SpeedChangeOf(pair.speedup_before, pair.speedup_after);
    if (!(pair.change.ratio.value > 0)) continue;
    changes.push_back(pair.change);
    changed_pairs.push_back(comparison.pairs.size() - 1);
    ratios.push_back({{true, pair.change.ratio}});
  }
  comparison.only_after = static_cast<uint64_t>(std::ranges::count_if(
      rows_after, [&](const auto& entry) { return rows_before.count(entry.first) == 0; }));
  const std::vector<bool> beyond = BeyondNoise(changes, least_change);
  for (size_t i = 0; i < changes.size(); ++i) {
    if (!beyond[i]) continue;
    comparison.pairs[changed_pairs[i]].kind =
        changes[i].ratio.value > 1 ? ChangeKind::kFaster : ChangeKind::kSlower;
  }
  for (const ComparedPair& pair : comparison.pairs) ++comparison.counts[pair.kind];
  comparison.worse = comparison.counts.count(ChangeKind::kSlower) != 0 ||
                     comparison.counts.count(ChangeKind::kVerdictWorse) != 0;
  comparison.mean = MeanSpeedupOf(ratios);
  return comparison;
}

std::string ComparisonText(const ComparedSide& before, const ComparedSide& after,
                           const RunComparison& comparison, bool all, const Style& style,
                           int width) {
  Table sides(TableColumns(SideColumns()));
  sides.AddRow(SideCells("before", before));
  sides.AddRow(SideCells("after", after));
  std::string text = sides.Render(style, width);
  Table changes(TableColumns(ChangeColumns(comparison)));
  for (const ComparedPair* const pair : SortedPairs(comparison)) {
    if (pair->kind == ChangeKind::kSame && !all) continue;
    std::vector<std::string> cells = ChangeCells(comparison, *pair);
    if (IsWorse(pair->kind)) cells.front() = style.Red(cells.front());
    if (IsBetter(pair->kind)) cells.front() = style.Green(cells.front());
    changes.AddRow(std::move(cells));
  }
  if (!changes.empty()) absl::StrAppend(&text, "\n", changes.Render(style, width));
  absl::StrAppend(&text, "\n", Join(SummaryLines(comparison), "\n"), "\n");
  return text;
}

std::string ComparisonHtml(const ComparedSide& before, const ComparedSide& after,
                           const RunComparison& comparison, const std::string& links) {
  std::string page =
      PageStart(absl::StrCat(OneLine(before.title), " and ", OneLine(after.title), " · Kernelcast"),
                "comparison", links);
  std::string lines;
  for (const std::string& line : SummaryLines(comparison)) {
    absl::StrAppend(&lines, "<p class=about>", Html(line), "</p>");
  }
  const SuiteTable sides = {
      "sides", "", SideColumns(), {SideCells("before", before), SideCells("after", after)}};
  page += Section("sides",
                  comparison.worse ? "Something is slower beyond noise, or fails now"
                                   : "Nothing is slower beyond noise, and nothing more fails",
                  "", lines + HtmlTable(sides));
  SuiteTable changed = {"changes", "", ChangeColumns(comparison), {}};
  SuiteTable same = changed;
  for (const ComparedPair* const pair : SortedPairs(comparison)) {
    (pair->kind == ChangeKind::kSame ? same : changed)
        .cells.push_back(ChangeCells(comparison, *pair));
  }
  page +=
      Section("changes", "What changed", "",
              changed.cells.empty() ? Empty("Nothing changed beyond noise.") : HtmlTable(changed));
  if (!same.cells.empty()) {
    page += Section("same", "What stayed the same", "", HtmlTable(same));
  }
  return page + "</main></body></html>\n";
}

Json ComparisonJson(const ComparedSide& before, const ComparedSide& after,
                    const RunComparison& comparison) {
  Json pairs = Json::array();
  for (const ComparedPair& pair : comparison.pairs) {
    Json json = {{"task", pair.task}};
    if (comparison.by_candidate) json["name"] = pair.name;
    json["change"] = Name(pair.kind);
    json["before"] = {{"verdict", Name(pair.before)}, {"speedup", RatioJson(pair.speedup_before)}};
    json["after"] = {{"verdict", Name(pair.after)}, {"speedup", RatioJson(pair.speedup_after)}};
    if (!pair.reason.empty()) json["after"]["reason"] = pair.reason;
    json["ratio"] = RatioJson(pair.change.ratio);
    pairs.push_back(std::move(json));
  }
  Json counts = Json::object();
  for (const auto& [kind, count] : comparison.counts) counts[std::string(Name(kind))] = count;
  const MeanSpeedup& mean = comparison.mean;
  Json all = nullptr;
  if (mean.tasks > 0) {
    all = {{"value", mean.value}, {"low", mean.noise_low}, {"high", mean.noise_high}};
  }
  return {{"before", SideJson(before)},
          {"after", SideJson(after)},
          {"by", comparison.by_candidate ? "candidate" : "task"},
          {"worse", comparison.worse},
          {"counts", std::move(counts)},
          {"mean_ratio", std::move(all)},
          {"only_before", comparison.only_before},
          {"only_after", comparison.only_after},
          {"pairs", std::move(pairs)}};
}

}  // namespace kernelcast::cli
