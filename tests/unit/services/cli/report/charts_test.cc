#include "services/cli/report/charts.h"

#include <catch2/catch.hpp>

#include "tests/unit/services/cli/report/sample_report.h"

namespace kernelcast::cli {
namespace {

TEST_CASE("Charts without data are left out") {
  const ReportInput input;
  const ReportAnalysis analysis = Analyze(input);
  CHECK(BestSoFarChart(input, analysis, ProgressAxis::kConsidered).empty());
  CHECK(ForecastScatter(input, analysis).empty());
  CHECK(ReliabilityChart(analysis).empty());
  CHECK(DecisionStrip(input, analysis).empty());
  CHECK(BinHistogram(Forecast()).empty());
}

TEST_CASE("No chart holds a coordinate that is not a number") {
  for (const int count : {1, 2, 5, 50, 1000}) {
    ReportInput input = SampleReport(count);
    // Only extreme values.
    for (ReportCandidate& candidate : input.candidates) {
      if (candidate.forecast.has_value()) candidate.forecast->stddev_log2_speedup = 1e9;
    }
    const ReportAnalysis analysis = Analyze(input);
    for (const std::string& svg :
         {BestSoFarChart(input, analysis, ProgressAxis::kConsidered),
          BestSoFarChart(input, analysis, ProgressAxis::kMeasured),
          BestSoFarChart(input, analysis, ProgressAxis::kTime), ForecastScatter(input, analysis),
          ReliabilityChart(analysis), DecisionStrip(input, analysis)}) {
      CHECK_THAT(svg, !Catch::Contains("nan"));
      CHECK_THAT(svg, !Catch::Contains("inf"));
    }
  }
}

TEST_CASE("The best-so-far curve uses only measurements") {
  ReportInput input;
  ReportCandidate promising = PrunedCandidate("k_1");
  promising.forecast->expected_log2_speedup = 10;
  input.candidates = {promising, MeasuredCandidate("k_2", 1.5)};
  const std::string svg = BestSoFarChart(input, Analyze(input), ProgressAxis::kConsidered);
  size_t dots = 0;
  for (size_t at = 0; (at = svg.find("class=\"dot", at)) != std::string::npos; ++at) ++dots;
  CHECK(dots == 1);
  CHECK_THAT(svg, !Catch::Contains("1024×"));
}

TEST_CASE("Thousands of points are drawn as few paths") {
  std::vector<ReportCandidate> candidates;
  for (int i = 0; i < 3000; ++i) {
    candidates.push_back(MeasuredCandidate("k_" + std::to_string(i), 0.5 + i * 0.001));
  }
  ReportInput input;
  input.candidates = std::move(candidates);
  const ReportAnalysis analysis = Analyze(input);
  CHECK(ForecastScatter(input, analysis).size() < 100'000);
}

TEST_CASE("Names in tooltips are escaped") {
  ReportInput input;
  ReportCandidate candidate = MeasuredCandidate("k_1", 2);
  candidate.candidate.origin = "</title><script>alert(1)</script>";
  input.candidates = {candidate};
  const ReportAnalysis analysis = Analyze(input);
  CHECK_THAT(BestSoFarChart(input, analysis, ProgressAxis::kTime), !Catch::Contains("<script"));
  CHECK_THAT(ForecastScatter(input, analysis), !Catch::Contains("<script"));
}

}  // namespace
}  // namespace kernelcast::cli
