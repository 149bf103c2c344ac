#ifndef KERNELCAST_SERVICES_CLI_REPORT_CHARTS_H_
#define KERNELCAST_SERVICES_CLI_REPORT_CHARTS_H_

#include <string>
#include <utility>
#include <vector>

#include "services/cli/report/analysis.h"
#include "services/cli/report/model.h"

namespace kernelcast::cli {

// Charts as inline SVG, coloured by classes of the page's style sheet. Each function returns "" if
// there is nothing to draw.

enum class ProgressAxis { kConsidered, kMeasured, kTime, kDeviceTime, kTokens };

// Best measured speedup against progress, and every measurement.
std::string BestSoFarChart(const ReportInput& input, const ReportAnalysis& analysis,
                           ProgressAxis axis);

// Forecast against measured speedup, both over the reference.
std::string ForecastScatter(const ReportInput& input, const ReportAnalysis& analysis);

// Observed accuracy by forecast confidence, with the number of forecasts.
std::string ReliabilityChart(const ReportAnalysis& analysis);

// The same for any buckets that cover 0 to 1.
std::string ReliabilityChart(const std::vector<ReliabilityPoint>& points);

// A share over a share, or over a number.
struct ChartLine {
  std::string name;
  const char* style = "best";  // classes: "best", "calibline", "ideal", or "line" and a route
  std::vector<std::pair<double, double>> points;
};
struct LineChartOptions {
  std::string label;
  std::string x_axis;
  std::string y_axis;
  bool logarithmic_x = false;  // starting at 1%
  double low_y = 0;
  double high_x = 0;  // above 0: x is a number from 0 to this
};
std::string LineChart(const std::vector<ChartLine>& lines, const LineChartOptions& options);

// Decisions from the first candidate to the last, as stacked shares.
std::string DecisionStrip(const ReportInput& input, const ReportAnalysis& analysis);

// The distribution of a forecast, small enough for a table cell.
std::string BinHistogram(const Forecast& forecast);

// All measured speedups of an origin, on an axis from `low` to `high` that all origins share.
std::string SpeedupStrip(const std::vector<double>& speedups, double low, double high);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_CHARTS_H_
