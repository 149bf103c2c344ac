#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/config/number_flags.h"
#include "services/cli/commands/ask_model.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/problem_argument.h"
#include "services/cli/commands/row_flags.h"
#include "services/cli/core/abstention.h"
#include "services/cli/core/forecast_eval.h"
#include "services/cli/core/paths.h"
#include "services/cli/core/search_curves.h"
#include "services/cli/core/table.h"
#include "services/cli/report/eval_html.h"
#include "services/cli/rpc/outcome_files.h"

namespace kernelcast::cli {
namespace {

constexpr int kShownExample = 120;

struct EvalFlags {
  std::vector<std::string> files;
  RowFlags rows;
  std::string by = "all";
  bool unweighted = false;
  std::string confidence = "max-prob";
  std::string report;
  std::vector<std::string> problems;
  EvaluationOptions options;
  AskFlags ask;
};

Json IntervalJson(const Interval& interval) {
  if (!std::isfinite(interval.value)) return nullptr;
  return {{"value", interval.value}, {"low", interval.low}, {"high", interval.high}};
}

Json NumberJson(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

std::string IntervalText(const Interval& interval) {
  if (!std::isfinite(interval.value)) return "-";
  return absl::StrCat(FormatFixed(interval.value, 3), " [", FormatFixed(interval.low, 3), ", ",
                      FormatFixed(interval.high, 3), "]");
}

struct ParsedMetric {
  const char* name;
  const char* key;
  double ForecastMetrics::*metric;
};

constexpr ParsedMetric kParsedMetrics[] = {
    {"accuracy", "accuracy", &ForecastMetrics::accuracy},
    {"off-by-one", "off_by_one_accuracy", &ForecastMetrics::off_by_one_accuracy},
    {"ECE", "expected_calibration_error", &ForecastMetrics::expected_calibration_error},
    {"half-Brier", "half_brier", &ForecastMetrics::half_brier},
    {"CRPS", "crps", &ForecastMetrics::crps},
    {"NLL", "negative_log_likelihood", &ForecastMetrics::negative_log_likelihood}};

std::string Heading(const Style& style, const std::string& group,
                    const ForecastEvaluation& evaluation) {
  std::string text =
      style.Bold(OneLine(group)) +
      absl::StrCat(": ", FormatCount(evaluation.items), " forecasts with a measured speedup, ",
                   FormatCount(evaluation.failures), " of candidates that failed");
  if (evaluation.unparsable == 0) return text;
  absl::StrAppend(&text, ", ", FormatCount(evaluation.unparsable),
                  " unparsable, which count as uniform");
  if (evaluation.parsed.items > 0) {
    text += "\nof the others alone:";
    for (const ParsedMetric& metric : kParsedMetrics) {
      absl::StrAppend(&text, metric.name == kParsedMetrics[0].name ? " " : ", ", metric.name, " ",
                      FormatFixed(evaluation.parsed.*metric.metric, 3));
    }
  }
  return text;
}

Json CurveJson(const std::vector<RiskPoint>& curve) {
  Json json = Json::array();
  for (const RiskPoint& point : curve) {
    json.push_back({{"coverage", point.coverage}, {"risk", point.risk}});
  }
  return json;
}

void Show(Console& console, const std::string& group, const ForecastEvaluation& evaluation) {
  const Style& style = console.style();
  Table metrics({{"metric"}, {"value [95%]"}, {"better"}});
  for (const EvaluatedMetric& metric : EvaluatedMetrics()) {
    metrics.AddRow({metric.name, IntervalText(evaluation.*metric.interval), metric.better});
  }
  std::string text = absl::StrCat(Heading(style, group, evaluation), "\n\n", metrics.Render(style));
  Table reliability({{"confidence"},
                     {"mean", Table::Align::kRight},
                     {"correct", Table::Align::kRight},
                     {"weight", Table::Align::kRight}});
  for (const ReliabilityBucket& bucket : evaluation.reliability) {
    if (bucket.weight <= 0) continue;
    reliability.AddRow({absl::StrCat(FormatShare(bucket.low), " to ", FormatShare(bucket.high)),
                        FormatShare(bucket.mean_confidence), FormatShare(bucket.accuracy),
                        FormatFixed(bucket.weight, 1)});
  }
  Table risks({{"coverage", Table::Align::kRight}, {"risk", Table::Align::kRight}});
  for (const RiskPoint& point : evaluation.risk_points) {
    risks.AddRow({FormatShare(point.coverage), FormatFixed(point.risk, 3)});
  }
  absl::StrAppend(&text, "\n", reliability.Render(style), "\n", risks.Render(style),
                  "risk: share of wrong bins among the most confident forecasts\n");
  if (evaluation.pools > 0) {
    Table shares({{"measured", Table::Align::kRight},
                  {"best found / best"},
                  {"random", Table::Align::kRight},
                  {"best among them"},
                  {"random", Table::Align::kRight},
                  {"winners among them"},
                  {"random", Table::Align::kRight}});
    for (const ShareEvaluation& share : evaluation.shares) {
      shares.AddRow({FormatShare(share.share), IntervalText(share.best_found),
                     FormatFixed(share.random_best_found, 3), IntervalText(share.best_recalled),
                     FormatFixed(share.random_best_recalled, 3), IntervalText(share.winner_recall),
                     FormatFixed(share.random_winner_recall, 3)});
    }
    absl::StrAppend(&text, "\n", shares.Render(style), "means over ", evaluation.pools,
                    evaluation.pools == 1 ? " pool" : " pools",
                    " of candidates, those forecast fastest measured\n");
  }
  console.Out(
      absl::StrCat(text, "\nintervals from ", evaluation.resamples, " bootstrap resamples\n\n"));

  Json json = {{"group", group},
               {"items", evaluation.items},
               {"failures", evaluation.failures},
               {"unparsable", evaluation.unparsable},
               {"resamples", evaluation.resamples}};
  for (const EvaluatedMetric& metric : EvaluatedMetrics()) {
    json[metric.key] = IntervalJson(evaluation.*metric.interval);
  }
  Json& parsed = json["parsed"] = {{"items", evaluation.parsed.items}};
  if (evaluation.parsed.items > 0) {
    for (const ParsedMetric& metric : kParsedMetrics) {
      parsed[metric.key] = NumberJson(evaluation.parsed.*metric.metric);
    }
  }
  json["pools"] = evaluation.pools;
  Json& shares = json["shares"] = Json::array();
  for (const ShareEvaluation& share : evaluation.shares) {
    shares.push_back({{"share", share.share},
                      {"best_found", IntervalJson(share.best_found)},
                      {"best_recalled", IntervalJson(share.best_recalled)},
                      {"winner_recall", IntervalJson(share.winner_recall)},
                      {"random_best_found", NumberJson(share.random_best_found)},
                      {"random_best_recalled", NumberJson(share.random_best_recalled)},
                      {"random_winner_recall", NumberJson(share.random_winner_recall)}});
  }
  Json& curve = json["risk_coverage"] = Json::array();
  for (const CoveragePoint& point : evaluation.risk_coverage) {
    curve.push_back(
        {{"coverage", point.coverage}, {"risk", point.risk}, {"confidence", point.confidence}});
  }
  json["risk_at_coverage"] = CurveJson(evaluation.risk_points);
  Json& buckets = json["reliability"] = Json::array();
  for (const ReliabilityBucket& bucket : evaluation.reliability) {
    buckets.push_back({{"low", bucket.low},
                       {"high", bucket.high},
                       {"weight", bucket.weight},
                       {"mean_confidence", bucket.mean_confidence},
                       {"accuracy", bucket.accuracy}});
  }
  console.Line(json);
}

// Shows the bins of rows without a forecast.
void ShowLabels(Console& console, const LabelFile& labels) {
  std::string text = absl::StrCat(labels.file, ": ", std::string(Name(labels.format)));
  uint64_t rows = 0;
  for (const uint64_t count : labels.counts.by_bin) rows += count;
  absl::StrAppend(&text, ", ", FormatCount(rows), " rows, by bin:");
  for (const uint64_t count : labels.counts.by_bin) absl::StrAppend(&text, " ", count);
  if (labels.counts.odd_labels > 0) {
    absl::StrAppend(&text, "; ", FormatCount(labels.counts.odd_labels),
                    " have another bin than their scheme makes of their speedup");
  }
  console.Out(text + "\n");
  console.Line({{"file", labels.file},
                {"format", std::string(Name(labels.format))},
                {"rows", rows},
                {"by_bin", labels.counts.by_bin},
                {"odd_labels", labels.counts.odd_labels}});
}

// The risk of a surrogate that abstains and of the thresholds, at the same coverages.
std::string CurvesText(const Style& style, const AbstentionEvaluation& of) {
  std::vector<Table::Column> columns = {{"coverage", Table::Align::kRight},
                                        {"its own", Table::Align::kRight}};
  std::string text = absl::StrCat("\nabstention of ", OneLine(of.surrogate));
  for (size_t i = 0; i < of.thresholds.size(); ++i) {
    const std::string name = absl::StrCat("threshold ", i + 1);
    absl::StrAppend(&text, "\n", name, ": on the confidence of ",
                    OneLine(of.thresholds[i].surrogate));
    columns.push_back({name, Table::Align::kRight});
  }
  Table table(columns);
  for (size_t i = 0; i < of.curve.size(); ++i) {
    std::vector<std::string> row = {FormatShare(of.curve[i].coverage),
                                    FormatFixed(of.curve[i].risk, 3)};
    for (const AbstentionEvaluation::Threshold& threshold : of.thresholds) {
      row.push_back(FormatFixed(threshold.curve[i].risk, 3));
    }
    table.AddRow(row);
  }
  return absl::StrCat(text, "\n", table.Render(style));
}

// Shows what the answers of each surrogate took, and what its abstentions are worth.
void ShowSurrogates(Console& console, const std::map<std::string, AnswerUsage>& usage,
                    const std::vector<AbstentionEvaluation>& abstentions) {
  if (usage.empty()) return;
  const Style& style = console.style();
  const bool has_price =
      std::ranges::any_of(usage, [](const auto& named) { return named.second.cost_dollars > 0; });
  std::vector<Table::Column> columns = {
      {"surrogate", Table::Align::kLeft, true}, {"answers", Table::Align::kRight},
      {"abstained", Table::Align::kRight},      {"unparsable", Table::Align::kRight},
      {"input tokens", Table::Align::kRight},   {"output tokens", Table::Align::kRight},
      {"seconds", Table::Align::kRight}};
  if (has_price) columns.push_back({"dollars", Table::Align::kRight});
  Table answers(columns);
  std::string faults;
  Json json = Json::array();
  for (const auto& [name, taken] : usage) {
    std::vector<std::string> row = {OneLine(name),
                                    FormatCount(taken.rows),
                                    FormatCount(taken.abstained),
                                    FormatCount(taken.parse_failed),
                                    FormatCount(static_cast<uint64_t>(taken.input_tokens)),
                                    FormatCount(static_cast<uint64_t>(taken.output_tokens)),
                                    FormatFixed(taken.elapsed_s, 1)};
    if (has_price) row.push_back(FormatFixed(taken.cost_dollars, 4));
    answers.AddRow(row);
    Json unreadable = Json::object();
    for (const auto& [fault, kind] : taken.unreadable) {
      unreadable[fault] = {{"count", kind.count}, {"example", kind.example}};
      absl::StrAppend(&faults, OneLine(name), ": ", FormatCount(kind.count), " ", OneLine(fault),
                      ", the first: ", Truncate(OneLine(kind.example), kShownExample), "\n");
    }
    json.push_back({{"surrogate", name},
                    {"answers", taken.rows},
                    {"abstained", taken.abstained},
                    {"unparsable", taken.parse_failed},
                    {"unreadable", unreadable},
                    {"input_tokens", taken.input_tokens},
                    {"output_tokens", taken.output_tokens},
                    {"elapsed_s", taken.elapsed_s},
                    {"cost_dollars", taken.cost_dollars}});
  }
  std::string text = answers.Render(style) + faults;
  if (!abstentions.empty()) {
    Table risks({{"abstention", Table::Align::kLeft, true},
                 {"coverage", Table::Align::kRight},
                 {"risk", Table::Align::kRight}});
    for (const AbstentionEvaluation& of : abstentions) {
      const auto number = [](double risk) {
        return std::isfinite(risk) ? FormatFixed(risk, 3) : std::string("-");
      };
      risks.AddRow(
          {OneLine(of.surrogate) + ", its own", FormatShare(of.coverage), number(of.risk)});
      Json thresholds = Json::array();
      for (const auto& [name, risk, curve] : of.thresholds) {
        risks.AddRow({OneLine(name) + ", threshold", FormatShare(of.coverage), number(risk)});
        thresholds.push_back({{"surrogate", name},
                              {"risk", NumberJson(risk)},
                              {"risk_at_coverage", CurveJson(curve)}});
      }
      for (Json& surrogate : json) {
        if (surrogate["surrogate"] != of.surrogate) continue;
        surrogate["coverage"] = of.coverage;
        surrogate["risk"] = NumberJson(of.risk);
        surrogate["risk_at_coverage"] = CurveJson(of.curve);
        surrogate["thresholds"] = thresholds;
      }
    }
    absl::StrAppend(&text, "\n", risks.Render(style),
                    "risk: share of wrong bins among the forecasts that are trusted\n");
    for (const AbstentionEvaluation& of : abstentions) text += CurvesText(style, of);
  }
  console.Out(text + "\n");
  console.Line({{"surrogates", json}});
}

// Compares the searches of several files.
void ShowSearches(Console& console, const std::vector<MeanCurve>& curves) {
  if (curves.size() < 2) return;
  Table table({{"searches of", Table::Align::kLeft, true},
               {"number", Table::Align::kRight},
               {"device s", Table::Align::kRight},
               {"candidates / measurement"},
               {"half way: found / best"},
               {"at the end"}});
  Json json = Json::array();
  for (const MeanCurve& curve : curves) {
    table.AddRow({OneLine(curve.line), FormatCount(curve.searches),
                  FormatFixed(curve.device_seconds, 1),
                  IntervalText(curve.candidates_per_measurement),
                  IntervalText(curve.points[curve.points.size() / 2].found),
                  IntervalText(curve.points.back().found)});
    Json points = Json::array();
    for (const CurvePoint& point : curve.points) {
      points.push_back(
          {{"device_seconds", point.device_seconds}, {"found", IntervalJson(point.found)}});
    }
    json.push_back({{"file", curve.line},
                    {"searches", curve.searches},
                    {"device_seconds", curve.device_seconds},
                    {"candidates_per_measurement", IntervalJson(curve.candidates_per_measurement)},
                    {"best_so_far", points}});
  }
  console.Out(absl::StrCat(table.Render(console.style()),
                           "found: best speedup relative to the best of the problem in all "
                           "files\n\n"));
  console.Line({{"searches", json}});
}

std::string GroupOf(const NamedOutcome& named, const std::string& by) {
  if (by == "problem") return named.problem;
  if (by == "backend") return named.backend;
  if (by == "search") return named.search;
  return "all forecasts";
}

absl::StatusOr<ExitCode> RunEval(Context& context, const EvalFlags& flags) {
  Console& console = context.console;
  std::vector<std::string> names = flags.files;
  if (flags.ask.llm.any()) {
    if (flags.rows.format != "auto") {
      return absl::InvalidArgumentError("--format and --llm exclude each other");
    }
    KC_RETURN_IF_ERROR(NameProblems(context, flags.problems));
    KC_RETURN_IF_ERROR(AskModel(context, flags.ask, flags.files, flags.rows.bin_scheme));
  }
  if (!flags.ask.predictions.empty()) names.push_back(flags.ask.predictions);
  KC_ASSIGN_OR_RETURN(const OutcomeFiles files, ReadRowFiles(names, flags.rows));
  for (const std::string& note : files.notes) console.Note(OneLine(note));
  if (files.unknown_baseline > 0) {
    console.Warn(absl::StrCat(FormatCount(files.unknown_baseline),
                              " forecasts left out, their baseline is not in the records"));
  }
  EvaluationOptions options = flags.options;
  options.weighted = !flags.unweighted;
  KC_ASSIGN_OR_RETURN(options.confidence, ParseConfidenceKind(flags.confidence));
  std::map<std::string, std::vector<ForecastOutcome>> groups;
  for (const NamedOutcome& named : files.outcomes) {
    if (!named.outcome.abstained) groups[GroupOf(named, flags.by)].push_back(named.outcome);
  }
  KC_ASSIGN_OR_RETURN(const std::vector<AbstentionEvaluation> abstentions,
                      EvaluateAbstentions(files.outcomes, options.confidence, options.weighted));
  if (groups.empty() && !files.labels.empty()) {
    for (const LabelFile& labels : files.labels) ShowLabels(console, labels);
    return ExitCode::kOk;
  }
  std::vector<EvaluatedGroup> evaluated;
  absl::Status first_problem;
  for (const auto& [group, outcomes] : groups) {
    if (context.interrupt.requested()) return absl::CancelledError("interrupted");
    absl::StatusOr<ForecastEvaluation> evaluation = EvaluateForecasts(outcomes, options);
    if (!evaluation.ok()) {
      if (first_problem.ok()) first_problem = evaluation.status();
      if (groups.size() > 1) {
        console.Warn(
            absl::StrCat(OneLine(group), ": ", std::string(evaluation.status().message())));
      }
      continue;
    }
    Show(console, group, *evaluation);
    evaluated.push_back({group, *std::move(evaluation)});
  }
  ShowSurrogates(console, files.usage, abstentions);
  const std::vector<MeanCurve> searches =
      MeanCurves(files.curves, options.max_resamples, options.seed);
  ShowSearches(console, searches);
  if (evaluated.empty() && (searches.size() < 2 || !first_problem.ok())) {
    if (!first_problem.ok()) return first_problem;
    return absl::InvalidArgumentError(
        "the files hold no forecast with what became of its candidate");
  }
  if (!flags.report.empty()) {
    const std::string page =
        RenderEvaluation(evaluated, searches, absl::StrCat("kernelcast ", std::string(Version())),
                         Clock::Real().WallNs());
    KC_RETURN_IF_ERROR(WriteFileAtomically(flags.report, page));
    console.Note(absl::StrCat("report: ", flags.report));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddEvalCommand(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<EvalFlags>();
  CLI::App* eval = AddCommand(
      app, context, "eval",
      "Score forecasts against measurements, from exported records or published rows; with "
      "--llm, ask a model about the rows first",
      [&context, flags] { return RunEval(context, *flags); });
  eval->add_option("FILE.jsonl", flags->files,
                   "Records from kernelcast export, or rows of a published format; prediction rows "
                   "with their evaluation rows")
      ->required();
  AddRowFlags(*eval, flags->rows);
  AddAskFlags(*eval, flags->ask);
  AddProblemsOption(*eval, flags->problems);
  eval->add_option("--by", flags->by, "Group the evaluation by this")
      ->check(CLI::IsMember({"all", "problem", "backend", "search"}))
      ->capture_default_str();
  eval->add_flag("--unweighted", flags->unweighted,
                 "Weight all forecasts equally instead of by 1 / propensity");
  eval->add_option("--confidence", flags->confidence,
                   "Confidence measure that orders the risk-coverage curve")
      ->check(CLI::IsMember({"max-prob", "entropy", "margin"}))
      ->capture_default_str();
  eval->add_option("--report", flags->report, "Also write the figures with charts, as one page")
      ->type_name("FILE.html");
  eval->add_option("--resamples", flags->options.max_resamples,
                   "Maximum number of bootstrap resamples")
      ->check(WholeNumberFrom(40, 100000))
      ->capture_default_str();
  eval->add_option("--seed", flags->options.seed, "Seed of the bootstrap")
      ->check(WholeNumberFrom(0))
      ->capture_default_str();
}

}  // namespace kernelcast::cli
