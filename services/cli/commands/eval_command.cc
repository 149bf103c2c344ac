#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/cli/commands/context.h"
#include "services/cli/core/forecast_eval.h"
#include "services/cli/core/table.h"
#include "services/cli/report/analysis.h"
#include "services/cli/rpc/records.h"

namespace kernelcast::cli {
namespace {

struct EvalFlags {
  std::vector<std::string> files;
  std::string by = "all";
  bool unweighted = false;
  EvaluationOptions options;
};

Json IntervalJson(const Interval& interval) {
  if (!std::isfinite(interval.value)) return nullptr;
  return {{"value", interval.value}, {"low", interval.low}, {"high", interval.high}};
}

std::string IntervalText(const Interval& interval) {
  if (!std::isfinite(interval.value)) return "-";
  return absl::StrCat(FormatFixed(interval.value, 3), " [", FormatFixed(interval.low, 3), ", ",
                      FormatFixed(interval.high, 3), "]");
}

struct Metric {
  const char* name;
  const char* key;
  Interval ForecastEvaluation::*interval;
  const char* better;
};

const std::vector<Metric>& Metrics() {
  static const auto* const metrics = new std::vector<Metric>{
      {"accuracy", "accuracy", &ForecastEvaluation::accuracy, "higher"},
      {"off-by-one accuracy", "off_by_one_accuracy", &ForecastEvaluation::off_by_one_accuracy,
       "higher"},
      {"calibration error (ECE)", "expected_calibration_error",
       &ForecastEvaluation::expected_calibration_error, "lower"},
      {"half-Brier", "half_brier", &ForecastEvaluation::half_brier, "lower"},
      {"CRPS", "crps", &ForecastEvaluation::crps, "lower"},
      {"negative log likelihood", "negative_log_likelihood",
       &ForecastEvaluation::negative_log_likelihood, "lower"},
      {"Spearman", "spearman", &ForecastEvaluation::spearman, "higher"},
      {"pairwise accuracy", "pairwise_accuracy", &ForecastEvaluation::pairwise_accuracy, "higher"},
      {"failure Brier", "failure_brier", &ForecastEvaluation::failure_brier, "lower"}};
  return *metrics;
}

void Show(Console& console, const std::string& group, const ForecastEvaluation& evaluation,
          uint64_t skipped) {
  const Style& style = console.style();
  std::string text =
      style.Bold(OneLine(group)) +
      absl::StrCat(": ", FormatCount(evaluation.items), " forecasts with a measured speedup, ",
                   FormatCount(evaluation.failures), " of candidates that failed");
  if (evaluation.unparsable > 0) {
    absl::StrAppend(&text, ", ", FormatCount(evaluation.unparsable), " unparsable");
  }
  if (skipped > 0) {
    absl::StrAppend(&text, "; ", FormatCount(skipped),
                    " left out, their baseline is not in the records");
  }
  Table metrics({{"metric"}, {"value [95%]"}, {"better"}});
  for (const Metric& metric : Metrics()) {
    metrics.AddRow({metric.name, IntervalText(evaluation.*metric.interval), metric.better});
  }
  Table reliability({{"confidence"},
                     {"mean", Table::Align::kRight},
                     {"came true", Table::Align::kRight},
                     {"weight", Table::Align::kRight}});
  for (const ReliabilityBucket& bucket : evaluation.reliability) {
    if (bucket.weight <= 0) continue;
    reliability.AddRow({absl::StrCat(FormatShare(bucket.low), " to ", FormatShare(bucket.high)),
                        FormatShare(bucket.mean_confidence), FormatShare(bucket.accuracy),
                        FormatFixed(bucket.weight, 1)});
  }
  console.Out(absl::StrCat(text, "\n\n", metrics.Render(style), "\n", reliability.Render(style),
                           "\nintervals from ", evaluation.resamples, " bootstrap resamples\n\n"));

  Json json = {{"group", group},
               {"items", evaluation.items},
               {"failures", evaluation.failures},
               {"unparsable", evaluation.unparsable},
               {"skipped", skipped},
               {"resamples", evaluation.resamples}};
  for (const Metric& metric : Metrics()) {
    json[metric.key] = IntervalJson(evaluation.*metric.interval);
  }
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

absl::StatusOr<ExitCode> RunEval(Context& context, const EvalFlags& flags) {
  std::map<std::string, std::vector<ReportCandidate>> groups;
  for (const std::string& file : flags.files) {
    KC_RETURN_IF_ERROR(ReadRecords(file, [&](const v1::ExportRecord& record) -> absl::Status {
      KC_ASSIGN_OR_RETURN(ReportCandidate candidate, ReportCandidateFromProto(record));
      std::string group = "all forecasts";
      if (flags.by == "problem") {
        group =
            record.problem_name().empty() ? candidate.candidate.problem_id : record.problem_name();
      } else if (flags.by == "backend") {
        group = candidate.forecast.has_value() ? absl::StrCat(candidate.forecast->backend, " ",
                                                              candidate.forecast->backend_version)
                                               : "no forecast";
      } else if (flags.by == "search") {
        group = record.evaluation().search_id();
      }
      groups[group].push_back(std::move(candidate));
      return absl::OkStatus();
    }));
  }
  EvaluationOptions options = flags.options;
  options.weighted = !flags.unweighted;
  bool any = false;
  absl::Status first_problem;
  for (const auto& [group, candidates] : groups) {
    if (context.interrupt.requested()) return absl::CancelledError("interrupted");
    uint64_t skipped = 0;
    const std::vector<ForecastOutcome> outcomes = ForecastOutcomes(candidates, &skipped);
    absl::StatusOr<ForecastEvaluation> evaluation = EvaluateForecasts(outcomes, options);
    if (!evaluation.ok()) {
      if (first_problem.ok()) first_problem = evaluation.status();
      if (groups.size() > 1) {
        context.console.Warn(
            absl::StrCat(OneLine(group), ": ", std::string(evaluation.status().message())));
      }
      continue;
    }
    any = true;
    Show(context.console, group, *evaluation, skipped);
  }
  if (any) return ExitCode::kOk;
  if (!first_problem.ok()) return first_problem;
  return absl::InvalidArgumentError("the files hold no record");
}

}  // namespace

void AddEvalCommand(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<EvalFlags>();
  CLI::App* eval = AddCommand(app, context, "eval",
                              "Score forecasts against what was measured, from exported records",
                              [&context, flags] { return RunEval(context, *flags); });
  eval->add_option("FILE.jsonl", flags->files, "What kernelcast export wrote")->required();
  eval->add_option("--by", flags->by, "One evaluation for each of these")
      ->check(CLI::IsMember({"all", "problem", "backend", "search"}))
      ->capture_default_str();
  eval->add_flag("--unweighted", flags->unweighted,
                 "Count every forecast once instead of by 1 / propensity");
  eval->add_option("--resamples", flags->options.max_resamples, "Bootstrap resamples at most")
      ->check(CLI::Range(40, 100000))
      ->capture_default_str();
  eval->add_option("--seed", flags->options.seed, "Seed of the bootstrap")
      ->check(NotNegative())
      ->capture_default_str();
}

}  // namespace kernelcast::cli
