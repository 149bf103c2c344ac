#include "services/cli/core/calibration_fit.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "common/domain/bins.h"

namespace kernelcast::cli {
namespace {

// Forecasts of `problems` that are too confident by a factor of two.
std::vector<NamedOutcome> TooSure(int problems, int each, double sharpness = 2) {
  std::mt19937_64 random(5);
  std::exponential_distribution<double> part(1);
  std::vector<NamedOutcome> outcomes;
  for (int i = 0; i < problems * each; ++i) {
    NamedOutcome& named = outcomes.emplace_back();
    named.problem = "p" + std::to_string(i % problems);
    std::vector<double>& p = named.outcome.forecast.bin_probabilities;
    for (int bin = 0; bin < 8; ++bin) p.push_back(part(random));
    std::discrete_distribution<int> truth(p.begin(), p.end());
    const int bin = truth(random) + 1;
    named.outcome.speedup = std::exp2(BinScheme::Default().Log2Midpoint(bin));
    for (double& value : p) value = std::pow(value, sharpness);
    REQUIRE(NormalizeSimplex(p).ok());
  }
  return outcomes;
}

CalibrationOptions Everything() {
  CalibrationOptions options;
  options.methods = {CalibrationMethod::kTemperature, CalibrationMethod::kVector};
  return options;
}

TEST_CASE("Fits are evaluated on held-out problems and the best method is named") {
  const auto fit = FitCalibrators(TooSure(6, 250), Everything());
  REQUIRE(fit.ok());
  CHECK(fit->items == 1500);
  CHECK(fit->problems == 6);
  CHECK(fit->folds == 5);
  REQUIRE(fit->methods.size() == 3);
  const MethodResult& before = fit->methods[0];
  CHECK(before.method == CalibrationMethod::kNone);
  CHECK(before.held_out.expected_calibration_error > 0.12);
  CHECK(before.error_by_chance < 0.05);
  for (size_t i = 1; i < fit->methods.size(); ++i) {
    const MethodResult& result = fit->methods[i];
    CAPTURE(Name(result.method));
    CHECK(result.held_out.expected_calibration_error <
          before.held_out.expected_calibration_error / 1.5);
    CHECK(result.held_out.items == 1500);
    CHECK(result.calibrator.records == Approx(1500));
    CHECK(result.median_problem_error < before.median_problem_error);
  }
  // The distortion has one parameter.
  CHECK(fit->methods[fit->best].method == CalibrationMethod::kTemperature);
}

TEST_CASE("Calibrated forecasts have only the error of chance") {
  const auto fit = FitCalibrators(TooSure(4, 200, 1), {});
  REQUIRE(fit.ok());
  CHECK(fit->methods[0].held_out.expected_calibration_error ==
        Approx(fit->methods[0].error_by_chance).margin(0.03));
  CHECK(fit->methods[0].median_problem_error_by_chance > fit->methods[0].error_by_chance);
}

TEST_CASE("A problem's own labels never fit the calibrator that scores it") {
  // The truths of one problem are always bin 8; a fit that had seen them would know.
  std::vector<NamedOutcome> outcomes = TooSure(2, 200, 1);
  for (NamedOutcome& named : outcomes) {
    named.outcome.forecast.bin_probabilities.assign(8, 0.125);
    named.outcome.speedup = named.problem == "p0" ? 8.0 : 0.1;
  }
  CalibrationOptions options;
  options.methods = {CalibrationMethod::kVector};
  const auto fit = FitCalibrators(outcomes, options);
  REQUIRE(fit.ok());
  CHECK(fit->methods[1].held_out.negative_log_likelihood >
        fit->methods[0].held_out.negative_log_likelihood);
  CHECK(fit->methods[fit->best].method == CalibrationMethod::kNone);
}

TEST_CASE("Rows that cannot be evaluated or fitted together are refused") {
  CHECK_FALSE(FitCalibrators({}, Everything()).ok());
  CHECK_THAT(std::string(FitCalibrators(TooSure(1, 50), Everything()).status().message()),
             Catch::Contains("one problem"));
  std::vector<NamedOutcome> mixed = TooSure(2, 10);
  mixed[3].outcome.forecast.bin_scheme_id = BinScheme::kPaperFormulaId;
  CHECK_THAT(std::string(FitCalibrators(mixed, Everything()).status().message()),
             Catch::Contains("two bin schemes"));
  std::vector<NamedOutcome> unusable = TooSure(2, 2);
  for (NamedOutcome& named : unusable) named.outcome.speedup.reset();
  CHECK_FALSE(FitCalibrators(unusable, Everything()).ok());
}

}  // namespace
}  // namespace kernelcast::cli
