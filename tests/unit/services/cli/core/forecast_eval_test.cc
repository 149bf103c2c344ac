#include "services/cli/core/forecast_eval.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace kernelcast::cli {
namespace {

ForecastOutcome Outcome(int predicted_bin, double confidence, double speedup, double log2) {
  ForecastOutcome outcome;
  const int bins = BinScheme::Default().size();
  outcome.forecast.bin_probabilities.assign(static_cast<size_t>(bins),
                                            (1 - confidence) / (bins - 1));
  outcome.forecast.bin_probabilities[static_cast<size_t>(predicted_bin - 1)] = confidence;
  outcome.forecast.predicted_bin = predicted_bin;
  outcome.forecast.expected_log2_speedup = log2;
  outcome.speedup = speedup;
  return outcome;
}

TEST_CASE("Perfect forecasts score perfectly with zero-width intervals") {
  std::vector<ForecastOutcome> outcomes;
  for (int i = 0; i < 30; ++i) {
    const double log2 = -3 + 6 * i / 29.0;
    const double speedup = std::exp2(log2);
    outcomes.push_back(Outcome(*BinScheme::Default().Label(speedup), 1, speedup, log2));
  }
  const auto evaluation = EvaluateForecasts(outcomes);
  REQUIRE(evaluation.ok());
  CHECK(evaluation->items == 30);
  CHECK(evaluation->accuracy.value == Approx(1));
  CHECK(evaluation->accuracy.low == Approx(1));
  CHECK(evaluation->half_brier.value == Approx(0).margin(1e-12));
  CHECK(evaluation->spearman.value == Approx(1));
  CHECK(evaluation->pairwise_accuracy.value == Approx(1));
  CHECK(evaluation->failure_brier.value == Approx(0));
}

TEST_CASE("The bootstrap interval of an accuracy has its theoretical width") {
  std::vector<ForecastOutcome> outcomes;
  for (int i = 0; i < 400; ++i) outcomes.push_back(Outcome(5, 0.6, i % 4 == 0 ? 3.0 : 1.2, 0.2));
  const auto evaluation = EvaluateForecasts(outcomes);
  REQUIRE(evaluation.ok());
  CHECK(evaluation->accuracy.value == Approx(0.75));
  const double half_width = 1.96 * std::sqrt(0.75 * 0.25 / 400);
  CHECK(evaluation->accuracy.low == Approx(0.75 - half_width).margin(0.012));
  CHECK(evaluation->accuracy.high == Approx(0.75 + half_width).margin(0.012));
  CHECK(evaluation->expected_calibration_error.value == Approx(0.15));
}

TEST_CASE("Audits are weighted for the pruned candidates they represent") {
  std::vector<ForecastOutcome> outcomes = {Outcome(5, 0.9, 1.2, 0.2), Outcome(5, 0.9, 3.0, 0.2)};
  outcomes[0].weight = 9;
  CHECK(EvaluateForecasts(outcomes)->accuracy.value == Approx(0.9));
  EvaluationOptions unweighted;
  unweighted.weighted = false;
  CHECK(EvaluateForecasts(outcomes, unweighted)->accuracy.value == Approx(0.5));
}

TEST_CASE("Failures are scored by P(failure) alone, and unparsable forecasts as uniform") {
  std::vector<ForecastOutcome> outcomes = {Outcome(5, 0.9, 1.2, 0.2), Outcome(5, 0.9, 1.2, 0.2)};
  outcomes[1].speedup.reset();
  outcomes[1].failed = true;
  outcomes[1].forecast.failure_probability = 0.5;
  ForecastOutcome unparsable = Outcome(5, 0.9, 1.2, 0.2);
  unparsable.forecast.bin_probabilities.clear();
  outcomes.push_back(unparsable);
  const auto evaluation = EvaluateForecasts(outcomes);
  REQUIRE(evaluation.ok());
  CHECK(evaluation->items == 2);
  CHECK(evaluation->failures == 1);
  CHECK(evaluation->unparsable == 1);
  CHECK(evaluation->failure_brier.value == Approx(0.25 / 3));
}

TEST_CASE("The same seed gives the same intervals") {
  std::vector<ForecastOutcome> outcomes;
  for (int i = 0; i < 40; ++i) outcomes.push_back(Outcome(1 + i % 8, 0.5, 0.2 + 0.1 * i, 0.1 * i));
  CHECK(EvaluateForecasts(outcomes)->crps.low == EvaluateForecasts(outcomes)->crps.low);
}

TEST_CASE("Rows that cannot be scored together are refused") {
  CHECK_FALSE(EvaluateForecasts({}).ok());
  std::vector<ForecastOutcome> outcomes = {Outcome(5, 0.9, 1.2, 0.2), Outcome(5, 0.9, 1.2, 0.2)};
  outcomes[1].forecast.bin_scheme_id = std::string(BinScheme::kPaperFormulaId);
  CHECK_THAT(std::string(EvaluateForecasts(outcomes).status().message()),
             Catch::Contains("two bin schemes"));
  outcomes[1] = Outcome(5, 0.9, 1.2, 0.2);
  outcomes[1].forecast.bin_probabilities.pop_back();
  CHECK_FALSE(EvaluateForecasts(outcomes).ok());
}

}  // namespace
}  // namespace kernelcast::cli
