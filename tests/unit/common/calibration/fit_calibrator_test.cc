#include "common/calibration/fit_calibrator.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "common/domain/bins.h"
#include "common/domain/scoring.h"

namespace kernelcast {
namespace {

// Sixty records from a formula shared with a Python reference (scipy's optimisers); the figures
// below are the reference's.
std::vector<CalibrationRecord> Sample() {
  std::vector<CalibrationRecord> records;
  for (int i = 0; i < 60; ++i) {
    CalibrationRecord& record = records.emplace_back();
    double sum = 0;
    for (int bin = 1; bin <= 8; ++bin) {
      record.p.push_back(1 + (i * bin * 3 + bin * bin) % 11 + (i * 5 % 8 == bin - 1 ? 9 : 0));
      sum += record.p.back();
    }
    for (double& p : record.p) p /= sum;
    record.true_bin = (i * 5 % 8 + (i % 3 == 0 ? 1 + i % 2 : 0)) % 8 + 1;
    record.weight = i % 4 == 0 ? 2.5 : 1;
  }
  return records;
}

TEST_CASE("Vector scaling finds the reference optimum", "[calibration]") {
  CHECK(EffectiveRecords(Sample()) == Approx(49.054054054054056).epsilon(1e-9));
  const VectorMap map = FitVector(Sample());
  const std::vector<double> scale = {2.0121596641990935, 0.7400010282109956, 2.053302964727784,
                                     1.314064426815746,  2.2032078666722676, 1.1521244637558954,
                                     2.029926048479527,  1.4578705275821993};
  const std::vector<double> bias = {0.732755360840422,    -1.0220331417713846, 0.3262143915727362,
                                    -0.47679187585530025, 1.035429832646022,   -0.5070319008380768,
                                    -0.05702854300356809, -0.03151412359085325};
  for (size_t i = 0; i < 8; ++i) {
    CAPTURE(i);
    CHECK(map.scale[i] == Approx(scale[i]).epsilon(1e-7));
    CHECK(map.bias[i] == Approx(bias[i]).epsilon(1e-7).margin(1e-8));
  }
  VectorFit options;
  options.pull = 20;
  options.toward.scale.assign(8, 0.8);
  for (int i = 0; i < 8; ++i) options.toward.bias.push_back(-0.5 + i / 7.0);
  const VectorMap pulled = FitVector(Sample(), options);
  CHECK(pulled.scale[0] == Approx(0.7889811924277889).epsilon(1e-7));
  CHECK(pulled.scale[1] == Approx(0.5748424751612262).epsilon(1e-7));
  CHECK(pulled.bias[6] == Approx(0.21079983281073741).epsilon(1e-7));
  CHECK(pulled.bias[7] == Approx(0.4426154503856911).epsilon(1e-7));
}

TEST_CASE("Vector scaling starts at identity, and few records move it little", "[calibration]") {
  VectorFit options;
  options.toward = {{0.5, 0.6, 0.7}, {0.1, 0, -0.1}};
  const VectorMap none = FitVector({}, options);
  CHECK(none.scale == options.toward.scale);
  CHECK(none.bias == options.toward.bias);
  options.pull = 50;
  const std::vector<CalibrationRecord> one = {{{0.2, 0.5, 0.3}, 3, 1}};
  const VectorMap moved = FitVector(one, options);
  for (size_t i = 0; i < 3; ++i) CHECK(std::abs(moved.bias[i] - options.toward.bias[i]) < 0.03);
}

TEST_CASE("Vector scaling corrects overconfident forecasts", "[calibration][property]") {
  // Truths are drawn from p; the forecast is p at temperature 1/2.
  std::mt19937_64 random(11);
  std::exponential_distribution<double> part(1);
  std::vector<CalibrationRecord> records;
  for (int i = 0; i < 4000; ++i) {
    CalibrationRecord& record = records.emplace_back();
    double sum = 0;
    for (int bin = 0; bin < 8; ++bin) sum += record.p.emplace_back(part(random));
    std::discrete_distribution<int> truth(record.p.begin(), record.p.end());
    record.true_bin = truth(random) + 1;
    double squares = 0;
    for (double& p : record.p) squares += p *= p;
    for (double& p : record.p) p /= squares;
  }
  const auto score = [&](const auto& calibrated) {
    std::vector<ScoredForecast> items;
    for (const CalibrationRecord& record : records) {
      ScoredForecast& item = items.emplace_back();
      item.p = calibrated(record.p);
      item.true_bin = record.true_bin;
    }
    return *ScoreForecasts(items);
  };
  const ForecastMetrics before = score([](const std::vector<double>& p) { return p; });
  CHECK(before.expected_calibration_error > 0.1);
  const BinCalibrator calibrator = {std::string(BinScheme::kDefaultId), FitVector(records)};
  const ForecastMetrics after =
      score([&](const std::vector<double>& p) { return calibrator.Apply(p); });
  CHECK(after.expected_calibration_error < 0.05);
  CHECK(after.negative_log_likelihood < before.negative_log_likelihood);
}

TEST_CASE("Hopeless records are fitted without leaving the parameter range", "[calibration]") {
  // Always certain and wrong; then always certain and right.
  const std::vector<CalibrationRecord> wrong(20, {{1, 0, 0}, 2, 1});
  const std::vector<CalibrationRecord> right(20, {{1, 0, 0}, 1, 1});
  for (const auto& records : {wrong, right}) {
    const BinCalibrator calibrator = {std::string(BinScheme::kDefaultId), FitVector(records)};
    double sum = 0;
    for (const double p : calibrator.Apply(std::vector<double>{0.2, 0.8, 0})) {
      CHECK(p >= 0);
      CHECK(std::isfinite(p));
      sum += p;
    }
    CHECK(sum == Approx(1));
  }
}

TEST_CASE("Records that cannot be fitted are reported", "[calibration]") {
  const auto error = [](const std::vector<CalibrationRecord>& records) {
    return std::string(CheckRecords(records).message());
  };
  CHECK(error({}) == "there is no record with a weight");
  CHECK(error({{{0.5, 0.5}, 1, 0}}) == "there is no record with a weight");
  CHECK(error({{{0.5, 0.5}, 1, 1}, {{0.5, 0.5}, 3, 1}}) == "records[1].true_bin: out of range");
  CHECK_THAT(error({{{0.5, 0.5}, 1, 1}, {{1}, 1, 1}}),
             Catch::StartsWith("records[1].p: must have"));
  CHECK_THAT(error({{{-0.5, 1.5}, 1, 1}}), Catch::StartsWith("records[0].p: a value"));
  CHECK_THAT(error({{{0.5, 0.5}, 1, std::numeric_limits<double>::infinity()}}),
             Catch::StartsWith("records[0].weight"));
}

}  // namespace
}  // namespace kernelcast
