#include "services/cli/core/search_curves.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace kernelcast::cli {
namespace {

SearchCurve Curve(const std::string& line, const std::string& problem,
                  std::vector<SearchCurve::Step> steps, double device_seconds) {
  SearchCurve curve;
  curve.line = line;
  curve.problem = problem;
  curve.steps = std::move(steps);
  curve.device_seconds = device_seconds;
  curve.measured = 10;
  return curve;
}

TEST_CASE("A mean curve is relative to the best of each problem in all lines") {
  std::vector<SearchCurve> curves = {Curve("standard", "a", {{2, 1.5}, {10, 2}}, 10),
                                     Curve("standard", "b", {{10, 3}}, 10),
                                     Curve("filtered", "a", {{5, 4}}, 8)};
  curves[2].pruned = 30;
  const std::vector<MeanCurve> means = MeanCurves(curves);
  REQUIRE(means.size() == 2);
  const MeanCurve& standard = means[0];
  CHECK(standard.line == "standard");
  CHECK(standard.searches == 2);
  CHECK(standard.device_seconds == 10);
  REQUIRE(standard.points.size() == kCurvePoints + 1);
  // Nothing is found at first: 1 of 4 and 1 of 3.
  CHECK(standard.points.front().found.value == Approx((1.0 / 4 + 1.0 / 3) / 2));
  CHECK(standard.points[kCurvePoints / 2].device_seconds == 5);
  CHECK(standard.points[kCurvePoints / 2].found.value == Approx((1.5 / 4 + 1.0 / 3) / 2));
  CHECK(standard.points.back().found.value == Approx((2.0 / 4 + 1) / 2));
  CHECK(standard.points.back().found.low == Approx(0.5));
  CHECK(standard.points.back().found.high == Approx(1));
  CHECK(standard.candidates_per_measurement.value == 1);
  // A search that has ended keeps what it found.
  CHECK(means[1].points.back().found.value == 1);
  CHECK(means[1].candidates_per_measurement.value == 4);
}

TEST_CASE("The time of each problem is scaled to its longest search") {
  // Both find their best half way.
  const std::vector<MeanCurve> means =
      MeanCurves({Curve("x", "a", {{1, 2}}, 2), Curve("x", "b", {{50, 2}}, 100)}, 10);
  const std::vector<CurvePoint>& points = means.at(0).points;
  CHECK(points.back().device_seconds == 51);
  CHECK(points[kCurvePoints / 2 - 1].found.value == 0.5);
  CHECK(points[kCurvePoints / 2].found.value == 1);
}

TEST_CASE("A search that finds nothing faster stays at the reference") {
  SearchCurve none = Curve("x", "a", {{1, 0.5}}, 4);
  none.measured = 0;
  const std::vector<MeanCurve> means = MeanCurves({none}, 10);
  REQUIRE(means.size() == 1);
  for (const CurvePoint& point : means[0].points) CHECK(point.found.value == 1);
  CHECK(std::isnan(means[0].candidates_per_measurement.value));
  CHECK(MeanCurves({}).empty());
}

}  // namespace
}  // namespace kernelcast::cli
