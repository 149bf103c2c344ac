#include "services/cli/report/eval_html.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/domain/decision.h"
#include "services/cli/core/text.h"
#include "services/cli/report/charts.h"
#include "services/cli/report/html_parts.h"

namespace kernelcast::cli {
namespace {

// Maximum number of points of a curve.
constexpr size_t kMaxPoints = 400;

std::string Cell(const Interval& interval) {
  if (!std::isfinite(interval.value)) return "<td class=n>-</td>";
  return absl::StrCat("<td class=n>", FormatFixed(interval.value, 3), " <small>[",
                      FormatFixed(interval.low, 3), ", ", FormatFixed(interval.high, 3),
                      "]</small></td>");
}

std::string Metrics(const ForecastEvaluation& evaluation) {
  std::string rows;
  for (const EvaluatedMetric& metric : EvaluatedMetrics()) {
    absl::StrAppend(&rows, "<tr><td>", Html(metric.name), "</td>",
                    Cell(evaluation.*metric.interval), "<td>", metric.better, "</td></tr>");
  }
  return absl::StrCat(
      "<div class=scroll><table class=plain><thead><tr><th>metric<th class=n>value "
      "[95%]<th>better</tr></thead><tbody>",
      rows, "</tbody></table></div>");
}

std::string Shares(const ForecastEvaluation& evaluation) {
  std::string rows;
  const auto number = [](double value) {
    return absl::StrCat("<td class=n>", FormatFixed(value, 3), "</td>");
  };
  for (const ShareEvaluation& share : evaluation.shares) {
    absl::StrAppend(&rows, "<tr><td class=n>", FormatShare(share.share), "</td>",
                    Cell(share.best_found), number(share.random_best_found),
                    Cell(share.best_recalled), number(share.random_best_recalled),
                    Cell(share.winner_recall), number(share.random_winner_recall), "</tr>");
  }
  return absl::StrCat(
      "<div class=scroll><table class=plain><thead><tr><th class=n>measured<th class=n>best found "
      "/ best<th class=n>random<th class=n>best among them<th class=n>random<th class=n>winners "
      "among them<th class=n>random</tr></thead><tbody>",
      rows, "</tbody></table></div>");
}

std::string Reliability(const ForecastEvaluation& evaluation) {
  std::vector<ReliabilityPoint> points;
  for (const ReliabilityBucket& bucket : evaluation.reliability) {
    ReliabilityPoint& point = points.emplace_back();
    point.low = bucket.low;
    point.high = bucket.high;
    point.mean_confidence = bucket.mean_confidence;
    point.accuracy = bucket.accuracy;
    point.weight = bucket.weight;
    point.squared_weight = bucket.squared_weight;
    point.items = bucket.weight > 0 ? bucket.items : 0;
  }
  return ReliabilityChart(points);
}

std::string RiskCoverage(const ForecastEvaluation& evaluation) {
  ChartLine curve{"risk of what is trusted", "best", {}};
  const size_t step = evaluation.risk_coverage.size() / kMaxPoints + 1;
  for (size_t i = 0; i < evaluation.risk_coverage.size(); ++i) {
    // Always keep the last point.
    if (i % step != 0 && i + 1 != evaluation.risk_coverage.size()) continue;
    const CoveragePoint& point = evaluation.risk_coverage[i];
    curve.points.emplace_back(point.coverage, point.risk);
  }
  const double error = 1 - evaluation.accuracy.value;
  const ChartLine flat{"trusting at random", "ideal", {{0, error}, {1, error}}};
  return LineChart({flat, curve}, {.label = "Risk against coverage",
                                   .x_axis = "coverage: share of forecasts that are trusted",
                                   .y_axis = "wrong bins among them"});
}

std::string Recall(const ForecastEvaluation& evaluation) {
  ChartLine found{"forecast fastest first", "best", {}};
  ChartLine random{"at random", "ideal", {}};
  ChartLine winners{"share of winners found", "calibline", {}};
  for (const ShareEvaluation& share : evaluation.shares) {
    found.points.emplace_back(share.share, share.best_found.value);
    random.points.emplace_back(share.share, share.random_best_found);
    winners.points.emplace_back(share.share, share.winner_recall.value);
  }
  for (ChartLine* line : {&found, &random, &winners}) line->points.emplace_back(1, 1);
  return LineChart({random, winners, found}, {.label = "Best found against the share measured",
                                              .x_axis = "share of the pool that is measured",
                                              .y_axis = "found / best",
                                              .logarithmic_x = true});
}

std::string Panel(std::string_view title, std::string_view note, const std::string& body) {
  return absl::StrCat("<section class=panel><h2>", Html(title), "</h2><p class=note>", Html(note),
                      "</p>", body, "</section>");
}

std::string Group(const EvaluatedGroup& group) {
  const ForecastEvaluation& evaluation = group.evaluation;
  std::string note =
      absl::StrCat(FormatCount(evaluation.items), " forecasts with a measured speedup, ",
                   FormatCount(evaluation.failures), " of candidates that failed");
  if (evaluation.unparsable > 0) {
    absl::StrAppend(&note, ", ", FormatCount(evaluation.unparsable),
                    " unparsable, which count as uniform");
  }
  absl::StrAppend(&note, ". Intervals are of ", evaluation.resamples, " bootstrap resamples.");
  std::string html = Panel(group.name, note, Metrics(evaluation));
  absl::StrAppend(&html, "<div class=pair>",
                  Panel("Can the forecasts be trusted?",
                        "Forecasts with a confidence of 70% should be correct 70% of the time.",
                        Reliability(evaluation)),
                  Panel("Risk against coverage",
                        "How often the surest forecasts are wrong. Dotted: trusting at random.",
                        RiskCoverage(evaluation)),
                  "</div>");
  if (evaluation.pools > 0) {
    absl::StrAppend(
        &html, "<div class=pair>",
        Panel("Best found against the share measured",
              absl::StrCat("Those forecast fastest are measured, the mean over ", evaluation.pools,
                           evaluation.pools == 1 ? " pool" : " pools",
                           ". Dotted: choosing at random; pale: the share of winners found."),
              Recall(evaluation)),
        Panel("In figures", "Compared with random choice.", Shares(evaluation)), "</div>");
  }
  return html;
}

// The routes whose colours lines have, in turn.
constexpr std::array kLineColours = {Route::kSelected, Route::kDeferred, Route::kPromoted,
                                     Route::kAudited, Route::kBootstrap};

std::string Searches(const std::vector<MeanCurve>& searches) {
  if (searches.empty()) return "";
  std::vector<std::string> styles;
  for (size_t i = 0; i < searches.size(); ++i) {
    styles.push_back(
        absl::StrCat("line ", std::string(Name(kLineColours[i % kLineColours.size()]))));
  }
  std::vector<ChartLine> lines;
  std::string legend;
  std::string rows;
  for (size_t i = 0; i < searches.size(); ++i) {
    const MeanCurve& curve = searches[i];
    ChartLine& line = lines.emplace_back();
    line.name = curve.line;
    line.style = styles[i].c_str();
    for (const CurvePoint& point : curve.points) {
      line.points.emplace_back(point.device_seconds, point.found.value);
    }
    absl::StrAppend(&legend, "<li class=\"", styles[i], "\">", Html(curve.line), "</li>");
    absl::StrAppend(
        &rows, "<tr><td>", Html(curve.line), "</td><td class=n>", FormatCount(curve.searches),
        "</td><td class=n>", FormatFixed(curve.device_seconds, 1), "</td>",
        Cell(curve.candidates_per_measurement), Cell(curve.points.back().found), "</tr>");
  }
  const std::string chart =
      LineChart(lines, {.label = "Best so far against device seconds",
                        .x_axis = "device seconds, mean over problems",
                        .y_axis = "best so far / best",
                        .high_x = searches.front().points.back().device_seconds});
  return absl::StrCat(
      "<div class=pair>",
      Panel(
          "Best so far against device seconds",
          "The mean over the searches of each file, relative to the best of the problem in all "
          "files. The time of each problem is scaled to its longest search. Confirmations are left "
          "out.",
          absl::StrCat(chart, "<ul class=legend>", legend, "</ul>")),
      Panel("Searches", "Candidates are those measured, and those pruned on a forecast.",
            absl::StrCat("<div class=scroll><table class=plain><thead><tr><th>file<th "
                         "class=n>searches<th class=n>device s<th class=n>candidates / "
                         "measurement<th class=n>found / best</tr></thead><tbody>",
                         rows, "</tbody></table></div>")),
      "</div>");
}

}  // namespace

const std::vector<EvaluatedMetric>& EvaluatedMetrics() {
  static const auto* const metrics = new std::vector<EvaluatedMetric>{
      {"accuracy", "accuracy", &ForecastEvaluation::accuracy, "higher"},
      {"off-by-one accuracy", "off_by_one_accuracy", &ForecastEvaluation::off_by_one_accuracy,
       "higher"},
      {"calibration error (ECE)", "expected_calibration_error",
       &ForecastEvaluation::expected_calibration_error, "lower"},
      {"half-Brier", "half_brier", &ForecastEvaluation::half_brier, "lower"},
      {"CRPS", "crps", &ForecastEvaluation::crps, "lower"},
      {"negative log likelihood", "negative_log_likelihood",
       &ForecastEvaluation::negative_log_likelihood, "lower"},
      {"area under risk-coverage", "area_under_risk_coverage",
       &ForecastEvaluation::area_under_risk_coverage, "lower"},
      {"Spearman", "spearman", &ForecastEvaluation::spearman, "higher"},
      {"pairwise accuracy", "pairwise_accuracy", &ForecastEvaluation::pairwise_accuracy, "higher"},
      {"regret (log2)", "regret", &ForecastEvaluation::regret, "lower"},
      {"failure Brier", "failure_brier", &ForecastEvaluation::failure_brier, "lower"}};
  return *metrics;
}

std::string RenderEvaluation(const std::vector<EvaluatedGroup>& groups,
                             const std::vector<MeanCurve>& searches,
                             const std::string& generator_version, int64_t generated_ns) {
  std::string page = PageStart("Forecasts · Kernelcast evaluation", "evaluation of forecasts");
  page += Searches(searches);
  for (const EvaluatedGroup& group : groups) page += Group(group);
  absl::StrAppend(&page, "</main><footer>Made by ", Html(generator_version), ", ",
                  Html(FormatUtc(generated_ns)),
                  ". This page is complete in itself and loads nothing.</footer></body></html>\n");
  return page;
}

}  // namespace kernelcast::cli
