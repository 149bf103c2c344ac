#include "services/cli/report/charts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/domain/share_interval.h"
#include "services/cli/core/text.h"
#include "services/cli/report/html_parts.h"
#include "services/cli/report/search_cost.h"
#include "services/cli/report/svg.h"

namespace kernelcast::cli {
namespace {

// Above this many points, marks lose their tooltips and whiskers and become one path.
constexpr size_t kManyPoints = 400;

std::string SpeedupAxisY(const SvgFrame& frame, const SvgScale& y) {
  std::string svg;
  for (const double tick : LogTicks(y.low(), y.high())) {
    svg += SvgLine(frame.x0(), y(tick), frame.x1(), y(tick),
                   std::fabs(tick - 1) < 1e-9 ? "one" : "grid");
    svg += SvgText(frame.x0() - 8, y(tick) + 4, "tick e", TickLabel(tick));
  }
  return svg;
}

// CSS class of a mark: the name of the candidate's route.
std::string MarkOf(const ReportCandidate& candidate) {
  return std::string(Name(RouteOf(candidate)));
}

std::string Tooltip(const ReportCandidate& candidate) {
  std::string text = NameOf(candidate.candidate);
  if (const std::string tunables = TunablesOf(candidate.candidate); !tunables.empty()) {
    absl::StrAppend(&text, " ", tunables);
  }
  if (const Ratio* speedup = SpeedupOf(candidate); speedup != nullptr) {
    absl::StrAppend(&text, ": ", FormatSpeedup(*speedup));
  } else {
    absl::StrAppend(&text, ": ", FailurePhrase(candidate));
  }
  return text;
}

// Axis range for measured speedups. The fast end is never cut; candidates slower than a sixteenth
// of the reference are shown at the edge.
struct Range {
  double low = 0;
  double high = 0;
};

std::optional<Range> SpeedupRange(const std::vector<double>& speedups) {
  if (speedups.empty()) return std::nullopt;
  double low = 1;
  double high = 1;
  for (const double speedup : speedups) {
    low = std::min(low, speedup);
    high = std::max(high, speedup);
  }
  low = std::max(low, 1.0 / 16);
  const double margin = std::max(std::pow(high / low, 0.07), 1.05);
  return Range{low / margin, high * margin};
}

struct Mark {
  double x = 0;
  double y = 0;
  const ReportCandidate* candidate = nullptr;
};

}  // namespace

std::string BestSoFarChart(const ReportInput& input, const ReportAnalysis& analysis,
                           ProgressAxis axis) {
  const SvgFrame frame{.width = 1040, .height = 330};
  std::vector<Mark> marks;
  std::vector<Mark> failures;
  std::vector<double> speedups;
  double considered = 0;
  double measured = 0;
  int64_t start_ns = 0;
  for (const ReportCandidate& candidate : input.candidates) {
    if (candidate.accepted_ns > 0 && (start_ns == 0 || candidate.accepted_ns < start_ns)) {
      start_ns = candidate.accepted_ns;
    }
  }
  double x_end = 1;
  const std::vector<double> costs = axis == ProgressAxis::kTokens
                                        ? TokensSoFar(input, analysis)
                                        : DeviceSecondsSoFar(input, analysis);
  if (costs.empty()) return "";
  const bool from_zero = axis != ProgressAxis::kConsidered && axis != ProgressAxis::kMeasured;
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    const ReportCandidate& candidate = input.candidates[i];
    if (analysis.is_confirmation[i]) continue;
    ++considered;
    const bool ran = candidate.measurement.has_value() && !candidate.reused;
    if (ran) ++measured;
    double x = considered;
    if (axis == ProgressAxis::kMeasured) x = measured;
    if (axis == ProgressAxis::kTime) {
      x = candidate.settled_ns > start_ns
              ? static_cast<double>(candidate.settled_ns - start_ns) * 1e-9
              : 0;
    }
    if (axis == ProgressAxis::kDeviceTime || axis == ProgressAxis::kTokens) x = costs[i];
    x_end = std::max(x_end, x);
    if (!ran) continue;
    if (const Ratio* speedup = SpeedupOf(candidate); speedup != nullptr) {
      marks.push_back({x, speedup->value, &candidate});
      speedups.push_back(speedup->value);
    } else {
      failures.push_back({x, 0, &candidate});
    }
  }
  std::vector<const ReportRow*> finals;
  for (const ReportRow& row : analysis.rows) {
    if (!row.final.has_value()) continue;
    finals.push_back(&row);
    speedups.push_back(row.final->value);
  }
  const std::optional<Range> range = SpeedupRange(speedups);
  if (!range.has_value()) return "";
  // Records are in order of settlement, so times should ascend, but clocks may step.
  std::stable_sort(marks.begin(), marks.end(),
                   [](const Mark& a, const Mark& b) { return a.x < b.x; });

  const SvgScale x(from_zero ? 0 : 1, x_end, frame.x0() + 6, frame.x1() - 6, false);
  const SvgScale y(range->low, range->high, frame.y0() - 14, frame.y1() + 6, true);
  std::string svg = SvgOpen(frame, "Best measured speedup so far");
  svg += SpeedupAxisY(frame, y);
  const char* title = axis == ProgressAxis::kConsidered ? "candidates considered"
                      : axis == ProgressAxis::kMeasured ? "candidates measured"
                      : axis == ProgressAxis::kTime     ? "seconds since the first candidate"
                      : axis == ProgressAxis::kTokens   ? "tokens"
                                                        : "device seconds";
  for (const double tick : LinearTicks(x.low(), x.high(), 8)) {
    if (!from_zero && tick != std::floor(tick)) continue;
    svg += SvgText(x(tick), frame.y0() + 18, "tick m", FormatNumber(tick));
  }
  svg += SvgText((frame.x0() + frame.x1()) / 2, frame.height - 4, "axis m", title);
  svg += SvgLine(frame.x0(), frame.y0(), frame.x1(), frame.y0(), "base");

  std::string crosses;
  for (const Mark& failure : failures) {
    const double cx = x(failure.x);
    const double cy = frame.y0() - 6;
    absl::StrAppend(&crosses, "M", SvgNumber(cx - 2.5), " ", SvgNumber(cy - 2.5), "l5 5m0-5l-5 5");
  }
  if (!crosses.empty()) absl::StrAppend(&svg, "<path class=fail d=\"", crosses, "\"/>");

  std::string step;
  std::string rings;
  double best = 0;
  for (const Mark& mark : marks) {
    if (mark.y <= best) continue;
    const double cx = x(mark.x);
    const double cy = y(mark.y);
    if (best > 0) {
      absl::StrAppend(&step, "H", SvgNumber(cx), "V", SvgNumber(cy));
    } else {
      absl::StrAppend(&step, "M", SvgNumber(cx), " ", SvgNumber(cy));
    }
    absl::StrAppend(&rings, "<circle class=ring cx=", SvgNumber(cx), " cy=", SvgNumber(cy),
                    " r=5><title>", Html(Tooltip(*mark.candidate)), "</title></circle>");
    best = mark.y;
  }
  if (!step.empty()) {
    absl::StrAppend(&step, "H", SvgNumber(frame.x1() - 6));
    const std::string area =
        absl::StrCat(step, "V", SvgNumber(frame.y0()), "H", SvgNumber(x(marks.front().x)), "Z");
    absl::StrAppend(&svg, "<path class=area d=\"", area, "\"/>");
  }
  if (marks.size() <= kManyPoints) {
    for (const Mark& mark : marks) {
      absl::StrAppend(&svg, "<circle class=\"dot ", MarkOf(*mark.candidate),
                      "\" cx=", SvgNumber(x(mark.x)), " cy=", SvgNumber(y(mark.y)),
                      " r=3.4><title>", Html(Tooltip(*mark.candidate)), "</title></circle>");
    }
  } else {
    std::map<std::string, std::string> paths;
    for (const Mark& mark : marks) paths[MarkOf(*mark.candidate)] += SvgDot(x(mark.x), y(mark.y));
    for (const auto& [style, path] : paths) {
      absl::StrAppend(&svg, "<path class=\"dots ", style, "\" d=\"", path, "\"/>");
    }
  }
  if (!step.empty()) {
    absl::StrAppend(&svg, "<path class=best d=\"", step, "\"/>", rings);
  }
  for (const ReportRow* row : finals) {
    const double cx = frame.x1() - 6;
    absl::StrAppend(&svg, "<path class=\"whisker strong\" d=\"M", SvgNumber(cx), " ",
                    SvgNumber(y(row->final->low)), "V", SvgNumber(y(row->final->high)),
                    "\"/><path class=final d=\"M", SvgNumber(cx), " ",
                    SvgNumber(y(row->final->value) - 5.5), "l5.5 5.5l-5.5 5.5l-5.5-5.5z\"><title>",
                    Html(NameOf(input.candidates[row->standing].candidate)), ": final ",
                    FormatSpeedup(*row->final), "</title></path>");
  }
  // The figure of the headline.
  if (analysis.shown_best.has_value()) {
    const double value = analysis.best_speedup.value;
    svg += SvgText(frame.x1() - (finals.empty() ? 8 : 16), y(value) - 9, "end e",
                   absl::StrCat(Times(value), analysis.confirmed ? " final" : " screening"));
  }
  svg += "</svg>";
  return svg;
}

std::string ForecastScatter(const ReportInput& input, const ReportAnalysis& analysis) {
  const SvgFrame frame{.width = 500, .height = 400, .left = 56, .bottom = 46};
  const std::map<std::string, double> by_id = SpeedupsById(input.candidates);
  struct Point {
    double forecast;
    double low;
    double high;
    const Ratio* measured;
    const ReportCandidate* candidate;
  };
  std::vector<Point> points;
  std::vector<double> values;
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    const ReportCandidate& candidate = input.candidates[i];
    const Ratio* measured = SpeedupOf(candidate);
    if (measured == nullptr || !candidate.forecast.has_value() || candidate.reused ||
        analysis.is_confirmation[i]) {
      continue;
    }
    const Forecast& forecast = *candidate.forecast;
    double scale = 1;
    if (!forecast.baseline_candidate_id.empty()) {
      const auto baseline = by_id.find(forecast.baseline_candidate_id);
      if (baseline == by_id.end()) continue;
      scale = baseline->second;
    }
    const double centre = std::exp2(forecast.expected_log2_speedup) * scale;
    const double spread = std::exp2(std::min(forecast.stddev_log2_speedup, 8.0));
    if (!std::isfinite(centre)) continue;
    points.push_back({centre, centre / spread, centre * spread, measured, &candidate});
    values.push_back(centre);
    values.push_back(measured->value);
  }
  const std::optional<Range> range = SpeedupRange(values);
  if (!range.has_value()) return "";
  const SvgScale x(range->low, range->high, frame.x0(), frame.x1(), true);
  const SvgScale y(range->low, range->high, frame.y0(), frame.y1(), true);
  std::string svg = SvgOpen(frame, "Forecast against measured speedup");
  for (const double tick : LogTicks(range->low, range->high)) {
    const char* style = std::fabs(tick - 1) < 1e-9 ? "one" : "grid";
    svg += SvgLine(frame.x0(), y(tick), frame.x1(), y(tick), style);
    svg += SvgLine(x(tick), frame.y0(), x(tick), frame.y1(), style);
    svg += SvgText(frame.x0() - 8, y(tick) + 4, "tick e", TickLabel(tick));
    svg += SvgText(x(tick), frame.y0() + 18, "tick m", TickLabel(tick));
  }
  svg += SvgLine(frame.x0(), frame.y0(), frame.x1(), frame.y1(), "ideal");
  const bool many = points.size() > kManyPoints;
  std::string whiskers;
  for (const Point& point : points) {
    if (many) break;
    const double cx = x(point.forecast);
    const double cy = y(point.measured->value);
    absl::StrAppend(&whiskers, "M", SvgNumber(x(point.low)), " ", SvgNumber(cy), "H",
                    SvgNumber(x(point.high)), "M", SvgNumber(cx), " ",
                    SvgNumber(y(point.measured->low)), "V", SvgNumber(y(point.measured->high)));
  }
  if (!whiskers.empty()) absl::StrAppend(&svg, "<path class=whisker d=\"", whiskers, "\"/>");
  std::map<std::string, std::string> paths;
  for (const Point& point : points) {
    const double cx = x(point.forecast);
    const double cy = y(point.measured->value);
    const std::string style = MarkOf(*point.candidate);
    if (many) {
      paths[style] += SvgDot(cx, cy);
      continue;
    }
    absl::StrAppend(&svg, "<circle class=\"dot ", style, "\" cx=", SvgNumber(cx),
                    " cy=", SvgNumber(cy), " r=3.4><title>", Html(Tooltip(*point.candidate)),
                    ", forecast ", FormatSpeedup(point.forecast), "</title></circle>");
  }
  for (const auto& [style, path] : paths) {
    absl::StrAppend(&svg, "<path class=\"dots ", style, "\" d=\"", path, "\"/>");
  }
  svg += SvgText((frame.x0() + frame.x1()) / 2, frame.height - 6, "axis m", "forecast speedup");
  svg += SvgTextUpwards(13, (frame.y0() + frame.y1()) / 2, "axis m", "measured speedup") + "</svg>";
  return svg;
}

std::string ReliabilityChart(const ReportAnalysis& analysis) {
  return analysis.scored_forecasts == 0 ? "" : ReliabilityChart(analysis.reliability);
}

std::string LineChart(const std::vector<ChartLine>& lines, const LineChartOptions& options) {
  const SvgFrame frame{.width = 500, .height = 330, .left = 56};
  const double low_x = options.logarithmic_x ? 0.01 : 0;
  const bool number = options.high_x > 0;
  const double high_x = number ? options.high_x : 1;
  const SvgScale x(low_x, high_x, frame.x0(), frame.x1(), options.logarithmic_x);
  const SvgScale y(options.low_y, 1, frame.y0(), frame.y1(), false);
  std::string svg = SvgOpen(frame, options.label);
  for (int i = 0; i <= 5; ++i) {
    const double tick = options.low_y + (1 - options.low_y) * i / 5.0;
    svg += SvgLine(frame.x0(), y(tick), frame.x1(), y(tick), i == 0 ? "base" : "grid");
    svg += SvgText(frame.x0() - 8, y(tick) + 4, "tick e", FormatShare(tick));
  }
  const std::vector<double> ticks = number ? LinearTicks(0, high_x, 6)
                                    : options.logarithmic_x
                                        ? std::vector<double>{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1}
                                        : std::vector<double>{0, 0.2, 0.4, 0.6, 0.8, 1};
  for (const double tick : ticks) {
    svg += SvgText(x(tick), frame.y0() + 18, "tick m",
                   number ? FormatNumber(tick) : FormatShare(tick));
  }
  for (const ChartLine& line : lines) {
    std::string path;
    for (const auto& [at, value] : line.points) {
      if (!std::isfinite(value)) continue;
      absl::StrAppend(&path, path.empty() ? "M" : "L", SvgNumber(x(at)), " ", SvgNumber(y(value)));
    }
    if (path.empty()) continue;
    absl::StrAppend(&svg, "<path fill=none class=\"", line.style, "\" d=\"", path, "\"><title>",
                    Html(line.name), "</title></path>");
  }
  svg += SvgText((frame.x0() + frame.x1()) / 2, frame.height - 4, "axis m", options.x_axis);
  svg += SvgTextUpwards(13, (frame.y0() + frame.y1()) / 2, "axis m", options.y_axis) + "</svg>";
  return svg;
}

std::string ReliabilityChart(const std::vector<ReliabilityPoint>& points) {
  const SvgFrame frame{.width = 500, .height = 400, .left = 56, .bottom = 132};
  const SvgScale x(0, 1, frame.x0(), frame.x1(), false);
  const SvgScale y(0, 1, frame.y0(), frame.y1(), false);
  std::string svg = SvgOpen(frame, "Reliability of forecasts");
  for (int i = 0; i <= 5; ++i) {
    const double tick = i / 5.0;
    svg += SvgLine(frame.x0(), y(tick), frame.x1(), y(tick), i == 0 ? "base" : "grid");
    svg += SvgText(frame.x0() - 8, y(tick) + 4, "tick e", FormatShare(tick));
    svg += SvgText(x(tick), frame.height - 28, "tick m", FormatShare(tick));
  }
  svg += SvgLine(frame.x0(), frame.y0(), frame.x1(), frame.y1(), "ideal");
  double heaviest = 0;
  uint64_t most = 1;
  for (const ReliabilityPoint& point : points) {
    heaviest = std::max(heaviest, point.weight);
    most = std::max(most, point.items);
  }
  std::string path;
  std::string marks;
  // Counts below the plot, on the same confidence axis.
  const double counts_low = frame.height - 44;
  const double counts_high = frame.y0() + 26;
  std::string bars;
  for (const ReliabilityPoint& point : points) {
    if (point.items == 0) continue;
    const double cx = x(point.mean_confidence);
    const double cy = y(point.accuracy);
    const ShareInterval interval =
        WilsonInterval(point.accuracy, point.weight * point.weight / point.squared_weight);
    absl::StrAppend(&path, path.empty() ? "M" : "L", SvgNumber(cx), " ", SvgNumber(cy));
    const double radius = 3.5 + 6.5 * std::sqrt(point.weight / heaviest);
    absl::StrAppend(&marks, "<path class=\"whisker strong\" d=\"M", SvgNumber(cx), " ",
                    SvgNumber(y(interval.low)), "V", SvgNumber(y(interval.high)),
                    "\"/><circle class=calib cx=", SvgNumber(cx), " cy=", SvgNumber(cy),
                    " r=", SvgNumber(radius), "><title>confidence ",
                    FormatShare(point.mean_confidence), ", correct ", FormatShare(point.accuracy),
                    ", ", point.items, " forecasts of which ", point.audits, " audits, weight ",
                    FormatFixed(point.weight, 1), "</title></circle>");
    const double bar_left = x(point.low) + 2;
    const double bar_width = x(point.high) - x(point.low) - 4;
    const auto height_of = [&](uint64_t items) {
      return (counts_low - counts_high) * static_cast<double>(items) / static_cast<double>(most);
    };
    const double all = height_of(point.items);
    const double audits = height_of(point.audits);
    absl::StrAppend(&bars, "<rect class=count x=", SvgNumber(bar_left),
                    " y=", SvgNumber(counts_low - all), " width=", SvgNumber(bar_width),
                    " height=", SvgNumber(all), " />");
    if (point.audits > 0) {
      absl::StrAppend(&bars, "<rect class=\"count audited\" x=", SvgNumber(bar_left),
                      " y=", SvgNumber(counts_low - audits), " width=", SvgNumber(bar_width),
                      " height=", SvgNumber(audits), " />");
    }
    bars +=
        SvgText(bar_left + bar_width / 2, counts_low - all - 5, "tick m", FormatCount(point.items));
  }
  if (!path.empty()) absl::StrAppend(&svg, "<path class=calibline d=\"", path, "\"/>");
  svg += marks + bars;
  svg += SvgLine(frame.x0(), counts_low, frame.x1(), counts_low, "base");
  svg += SvgText((frame.x0() + frame.x1()) / 2, frame.height - 6, "axis m",
                 "confidence in the forecast bin");
  svg += SvgTextUpwards(13, (frame.y0() + frame.y1()) / 2, "axis m", "correct");
  svg += SvgTextUpwards(13, (counts_low + counts_high) / 2, "axis m", "count") + "</svg>";
  return svg;
}

std::string DecisionStrip(const ReportInput& input, const ReportAnalysis& analysis) {
  static constexpr std::array kDrawn = {Route::kSelected,  Route::kPromoted,  Route::kDeferred,
                                        Route::kAudited,   Route::kRequested, Route::kUnforecast,
                                        Route::kBootstrap, Route::kReused,    Route::kPruned,
                                        Route::kDuplicate, Route::kRejected};
  std::vector<size_t> kinds;
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    const ReportCandidate& candidate = input.candidates[i];
    if (analysis.is_confirmation[i]) continue;
    const Fate fate = FateOf(candidate);
    const Route route = fate == Fate::kPruned     ? Route::kPruned
                        : fate == Fate::kRejected ? Route::kRejected
                                                  : RouteOf(candidate);
    kinds.push_back(
        static_cast<size_t>(std::find(kDrawn.begin(), kDrawn.end(), route) - kDrawn.begin()));
  }
  if (kinds.empty()) return "";
  const SvgFrame frame{.width = 1040, .height = 168, .left = 52, .top = 8};
  const size_t columns = std::min<size_t>(kinds.size(), 130);
  const double column = (frame.x1() - frame.x0()) / static_cast<double>(columns);
  const double height = frame.y0() - frame.y1();
  std::array<std::string, kDrawn.size()> paths;
  for (size_t c = 0; c < columns; ++c) {
    const size_t begin = c * kinds.size() / columns;
    const size_t end = (c + 1) * kinds.size() / columns;
    std::array<size_t, kDrawn.size()> counts{};
    for (size_t i = begin; i < end; ++i) ++counts[kinds[i]];
    double y = frame.y0();
    for (size_t k = 0; k < counts.size(); ++k) {
      if (counts[k] == 0) continue;
      const double part =
          height * static_cast<double>(counts[k]) / static_cast<double>(end - begin);
      const double left = frame.x0() + static_cast<double>(c) * column;
      const double width = column - (column > 4 ? 1 : 0);
      absl::StrAppend(&paths[k], "M", SvgNumber(left), " ", SvgNumber(y - part), "h",
                      SvgNumber(width), "v", SvgNumber(part), "h", SvgNumber(-width), "z");
      y -= part;
    }
  }
  std::string svg = SvgOpen(frame, "Decisions from the first candidate to the last");
  for (size_t k = 0; k < paths.size(); ++k) {
    if (!paths[k].empty()) {
      absl::StrAppend(&svg, "<path class=\"fill ", std::string(Name(kDrawn[k])), "\" d=\"",
                      paths[k], "\"/>");
    }
  }
  for (const double share : {0.0, 0.5, 1.0}) {
    svg += SvgText(frame.x0() - 8, frame.y0() - share * height + 4, "tick e", FormatShare(share));
  }
  const SvgScale x(0, static_cast<double>(kinds.size()), frame.x0(), frame.x1(), false);
  for (const double tick : LinearTicks(0, static_cast<double>(kinds.size()), 10)) {
    if (tick != std::floor(tick)) continue;
    svg += SvgText(x(tick), frame.y0() + 16, "tick m", FormatNumber(tick));
  }
  svg += SvgText((frame.x0() + frame.x1()) / 2, frame.height - 4, "axis m", "candidates, in order");
  svg += "</svg>";
  return svg;
}

std::string BinHistogram(const Forecast& forecast) {
  const size_t bins = forecast.bin_probabilities.size();
  if (bins == 0) return "";
  constexpr double kHeight = 20;
  constexpr double kStep = 7;
  const double success = std::clamp(1 - forecast.failure_probability, 0.0, 1.0);
  const auto top =
      std::max_element(forecast.bin_probabilities.begin(), forecast.bin_probabilities.end()) -
      forecast.bin_probabilities.begin();
  const auto bar = [&](size_t position, double probability) {
    const double height = std::clamp(probability, 0.0, 1.0) * (kHeight - 1) + 0.6;
    return absl::StrCat("M", SvgNumber(static_cast<double>(position) * kStep), " 20v",
                        SvgNumber(-height), "h5v", SvgNumber(height), "z");
  };
  std::string others;
  for (size_t b = 0; b < bins; ++b) {
    if (static_cast<std::ptrdiff_t>(b) != top) {
      others += bar(b, forecast.bin_probabilities[b] * success);
    }
  }
  return absl::StrCat(
      "<svg class=hist viewBox=\"0 0 ", SvgNumber(static_cast<double>(bins + 1) * kStep + 3),
      " 20\"><path d=\"", others, "\"/><path class=top d=\"",
      bar(static_cast<size_t>(top), forecast.bin_probabilities[static_cast<size_t>(top)] * success),
      "\"/><path class=bad d=\"M", SvgNumber(static_cast<double>(bins) * kStep + 3), " 20v",
      SvgNumber(-(std::clamp(forecast.failure_probability, 0.0, 1.0) * (kHeight - 1) + 0.6)),
      "h5V20z\"/></svg>");
}

std::string SpeedupStrip(const std::vector<double>& speedups, double low, double high) {
  const SvgScale x(low, high, 4, 256, true);
  std::string dots;
  for (const double speedup : speedups) dots += SvgDot(x(speedup), 10);
  std::string svg =
      absl::StrCat("<svg class=strip viewBox=\"0 0 260 20\"><path class=rail d=\"M4 10H256\"/>",
                   "<path class=one d=\"M", SvgNumber(x(1)), " 3V17\"/>");
  if (!dots.empty()) absl::StrAppend(&svg, "<path class=dots d=\"", dots, "\"/>");
  if (!speedups.empty()) {
    absl::StrAppend(&svg, "<circle cx=", SvgNumber(x(speedups.back())), " cy=10 r=4 />");
  }
  svg += "</svg>";
  return svg;
}

}  // namespace kernelcast::cli
