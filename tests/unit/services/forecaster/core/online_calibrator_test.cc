#include "services/forecaster/core/online_calibrator.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "common/domain/bins.h"
#include "common/domain/scoring.h"

namespace kernelcast::forecaster {
namespace {

// Truths are drawn from p; the forecast is p to the power of `sharpness`, like an overconfident
// (above 1) or underconfident model.
class Source {
 public:
  explicit Source(double sharpness, uint64_t seed = 1) : sharpness_(sharpness), random_(seed) {}

  int Next(Forecast& forecast) {
    std::vector<double> p;
    for (int bin = 0; bin < 8; ++bin) p.push_back(std::pow(part_(random_), 1.5));
    std::discrete_distribution<int> truth(p.begin(), p.end());
    const int bin = truth(random_) + 1;
    forecast = Forecast();
    for (const double value : p) {
      forecast.bin_probabilities.push_back(std::pow(value, sharpness_));
    }
    REQUIRE(NormalizeSimplex(forecast.bin_probabilities).ok());
    forecast.predicted_bin = ArgmaxBin(forecast.bin_probabilities);
    return bin;
  }
  void set_sharpness(double sharpness) { sharpness_ = sharpness; }

 private:
  double sharpness_;
  std::mt19937_64 random_;
  std::exponential_distribution<double> part_{1};
};

struct Outcome {
  ForecastMetrics raw;
  ForecastMetrics calibrated;
};

// Forecasts, then learns, `count` times; scores the last `scored` of them.
Outcome Follow(OnlineCalibrator& calibrator, Source& source, int count, int scored) {
  std::vector<ScoredForecast> raw, calibrated;
  for (int i = 0; i < count; ++i) {
    Forecast forecast;
    const int bin = source.Next(forecast);
    ScoredForecast item;
    item.true_bin = bin;
    item.p = forecast.bin_probabilities;
    if (i >= count - scored) raw.push_back(item);
    calibrator.Apply("cuda", forecast);
    item.p = forecast.bin_probabilities;
    if (i >= count - scored) calibrated.push_back(item);
    CHECK(calibrator.Learn("cuda", forecast, bin, 1));
  }
  return {*ScoreForecasts(raw), *ScoreForecasts(calibrated)};
}

TEST_CASE("An overconfident forecaster is calibrated from its labels", "[calibration]") {
  OnlineCalibrator calibrator;
  Source source(2.5);
  const Outcome outcome = Follow(calibrator, source, 800, 500);
  CHECK(outcome.raw.expected_calibration_error > 0.15);
  CHECK(outcome.calibrated.expected_calibration_error < outcome.raw.expected_calibration_error / 2);
  CHECK(outcome.calibrated.negative_log_likelihood < outcome.raw.negative_log_likelihood - 0.2);
  Forecast forecast;
  source.Next(forecast);
  calibrator.Apply("cuda", forecast);
  CHECK_THAT(forecast.calibrator_version, Catch::StartsWith("vector/1;records=512;id="));
  CHECK(forecast.predicted_bin == ArgmaxBin(forecast.bin_probabilities));
  CHECK(ValidateForecast(forecast).ok());
}

TEST_CASE("Calibration keeps what a forecast knows of its open bins", "[calibration]") {
  OnlineCalibrator calibrator;
  Source source(2.5);
  Follow(calibrator, source, 800, 500);
  // Two kernels certainly faster than 4x: 7x and 14x.
  Forecast slower, faster;
  slower.bin_probabilities = {0, 0, 0, 0, 0, 0, 0.02, 0.98};
  slower.predicted_bin = 8;
  slower.stddev_log2_speedup = 0.2;
  faster = slower;
  slower.expected_log2_speedup = std::log2(7);
  faster.expected_log2_speedup = std::log2(14);
  calibrator.Apply("cuda", slower);
  calibrator.Apply("cuda", faster);
  CHECK_THAT(faster.calibrator_version, Catch::StartsWith("vector/1;"));
  CHECK(faster.expected_log2_speedup - slower.expected_log2_speedup == Approx(1));
  // The map leaves 0.79 in the open bin and a deviation of 0.54 octaves: 0.79 * 0.78, 0.79 * 0.16.
  CHECK(WinProbability(faster, 9).value() == Approx(0.616).margin(0.02));
  CHECK(WinProbability(slower, 9).value() == Approx(0.129).margin(0.02));
}

TEST_CASE("A calibrated forecaster is left unchanged", "[calibration]") {
  OnlineCalibrator calibrator;
  Source source(1);
  const Outcome outcome = Follow(calibrator, source, 600, 600);
  CHECK(outcome.calibrated.negative_log_likelihood < outcome.raw.negative_log_likelihood + 0.005);
  CHECK(outcome.calibrated.expected_calibration_error <
        outcome.raw.expected_calibration_error + 0.01);
}

TEST_CASE("Without records nothing changes, and the version says so", "[calibration]") {
  OnlineCalibrator calibrator;
  Source source(3);
  for (int i = 0; i < 20; ++i) {
    Forecast forecast;
    const int bin = source.Next(forecast);
    const std::vector<double> before = forecast.bin_probabilities;
    calibrator.Apply("cuda", forecast);
    CHECK(forecast.bin_probabilities == before);
    CHECK(forecast.calibrator_version == "none");
    calibrator.Learn("cuda", forecast, bin, 1);
  }
}

TEST_CASE("A new target starts from what the others have in common", "[calibration]") {
  OnlineCalibratorOptions options;
  options.trial_records = options.least_records = 8;
  OnlineCalibrator seasoned(options);
  OnlineCalibrator fresh(options);
  Source source(2.5);
  Follow(seasoned, source, 400, 1);
  Source other(2.5, 9);
  double gain = 0;
  for (int i = 0; i < 60; ++i) {
    Forecast forecast;
    const int bin = other.Next(forecast);
    const auto after = [&](OnlineCalibrator& calibrator) {
      Forecast calibrated = forecast;
      calibrator.Apply("cpu", calibrated);
      calibrator.Learn("cpu", calibrated, bin, 1);
      return NegativeLogLikelihood(calibrated.bin_probabilities, bin);
    };
    gain += after(fresh) - after(seasoned);
  }
  CHECK(gain > 1);
}

TEST_CASE("Drifting forecasts raise an alarm and are relearnt", "[calibration]") {
  OnlineCalibrator calibrator;
  Source source(2.5);
  Follow(calibrator, source, 500, 1);
  CHECK(calibrator.alarms() == 0);
  // From here every answer is certain and wrong.
  std::mt19937_64 random(3);
  const auto next = [&] {
    Forecast forecast;
    forecast.bin_probabilities.assign(8, 0.01);
    forecast.bin_probabilities[0] = 0.93;
    calibrator.Apply("cuda", forecast);
    return forecast;
  };
  const auto learn = [&](const Forecast& forecast) {
    calibrator.Learn("cuda", forecast, 5 + static_cast<int>(random() % 4), 1);
  };
  int steps = 0;
  while (calibrator.alarms() == 0 && steps++ < 60) learn(next());
  CHECK(steps <= 40);
  CHECK(next().calibrator_version == "none");
  // Then the new calibration is learnt.
  for (int i = 0; i < 150; ++i) learn(next());
  CHECK(next().bin_probabilities[0] < 0.1);
  CHECK(calibrator.alarms() == 1);
}

TEST_CASE("Stable forecasts raise no alarm", "[calibration]") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    OnlineCalibrator calibrator;
    Source source(2.5, seed);
    Follow(calibrator, source, 1000, 1);
    CHECK(calibrator.alarms() == 0);
  }
}

TEST_CASE("Replaying the labels gives the same maps and calibrated forecasts", "[calibration]") {
  // Records keep the forecasts as given, calibrated where they were.
  OnlineCalibrator live;
  Source source(2.5);
  std::vector<std::pair<Forecast, int>> kept;
  int calibrated = 0;
  for (int i = 0; i < 300; ++i) {
    Forecast forecast;
    const int bin = source.Next(forecast);
    live.Apply("cuda", forecast);
    calibrated += forecast.calibrator_version != "none" ? 1 : 0;
    CHECK(live.Learn("cuda", forecast, bin, i % 3 == 0 ? 4 : 1));
    kept.emplace_back(forecast, bin);
  }
  CHECK(calibrated > 100);
  OnlineCalibrator again;
  for (int i = 0; i < 300; ++i) {
    CHECK(again.Learn("cuda", kept[static_cast<size_t>(i)].first,
                      kept[static_cast<size_t>(i)].second, i % 3 == 0 ? 4 : 1));
  }
  Forecast a;
  source.Next(a);
  Forecast b = a;
  live.Apply("cuda", a);
  again.Apply("cuda", b);
  CHECK(a.calibrator_version == b.calibrator_version);
  CHECK(a.bin_probabilities == b.bin_probabilities);
}

TEST_CASE("Audits are weighted by what they represent", "[calibration]") {
  // Confident forecasts are mostly pruned, and wrong; the few audited ones represent all.
  const auto fitted = [](double weight) {
    OnlineCalibrator calibrator;
    std::mt19937_64 random(7);
    for (int i = 0; i < 400; ++i) {
      Forecast forecast;
      forecast.bin_probabilities = {0.9, 0.05, 0.01, 0.01, 0.01, 0.01, 0.005, 0.005};
      const bool audit = i % 5 == 0;
      calibrator.Apply("cuda", forecast);
      calibrator.Learn("cuda", forecast, audit ? 2 : 1, audit ? weight : 1);
    }
    Forecast forecast;
    forecast.bin_probabilities = {0.9, 0.05, 0.01, 0.01, 0.01, 0.01, 0.005, 0.005};
    calibrator.Apply("cuda", forecast);
    return forecast.bin_probabilities[1];
  };
  CHECK(fitted(1) == Approx(0.2).margin(0.04));
  CHECK(fitted(4) == Approx(0.5).margin(0.06));
  // No single label dominates.
  CHECK(fitted(1000) == Approx(fitted(5)));
}

TEST_CASE("Labels that cannot be learnt from are reported", "[calibration]") {
  OnlineCalibrator calibrator;
  Forecast forecast;
  CHECK_FALSE(calibrator.Learn("cuda", forecast, 1, 1));
  forecast.bin_probabilities.assign(8, 0.125);
  CHECK_FALSE(calibrator.Learn("cuda", forecast, 9, 1));
  forecast.calibrator_version = "vector/1;records=1;id=00000000";
  CHECK_FALSE(calibrator.Learn("cuda", forecast, 1, 1));
  // Another calibrator's work is kept.
  forecast.calibrator_version = "scale/1;records=23;multiplier=1.180";
  CHECK(calibrator.Learn("cuda", forecast, 1, 1));
  CHECK(calibrator.records() == 1);
}

}  // namespace
}  // namespace kernelcast::forecaster
