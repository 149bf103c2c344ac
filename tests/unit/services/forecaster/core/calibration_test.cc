#include "services/forecaster/core/calibration.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "common/domain/student_t.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

// Truths whose deviation is `ratio` times the predicted one.
std::vector<PrequentialRecord> Records(int count, double ratio, uint64_t seed = 1) {
  std::vector<PrequentialRecord> records;
  for (int i = 0; i < count; ++i) {
    PrequentialRecord& record = records.emplace_back();
    record.predicted = {0.3, 0.5, 500};
    record.measured_log2_speedup = 0.3 + 0.5 * ratio * NormalDraw(seed * 10'007 + i);
  }
  return records;
}

TEST_CASE("Without records the scale is unchanged", "[forecaster][calibration]") {
  CHECK(FitScale({}).multiplier == 1);
  CHECK(FitScale({}, {1.7, 3}).multiplier == 1.7);
}

TEST_CASE("The factor between prediction and truth is estimated", "[forecaster][calibration]") {
  for (const double ratio : {0.6, 1.0, 1.8}) {
    CAPTURE(ratio);
    CHECK(FitScale(Records(2000, ratio)).multiplier == Approx(ratio).epsilon(0.08));
  }
}

TEST_CASE("After scaling the intervals have their stated coverage", "[forecaster][calibration]") {
  const std::vector<PrequentialRecord> seen = Records(400, 1.6, 2);
  const double multiplier = FitScale(seen).multiplier;
  int covered = 0;
  const std::vector<PrequentialRecord> later = Records(1000, 1.6, 3);
  for (const PrequentialRecord& record : later) {
    const double half_width = multiplier * record.predicted.scale *
                              StudentTQuantile(0.9, record.predicted.degrees_of_freedom);
    if (std::abs(record.measured_log2_speedup - record.predicted.location) <= half_width) ++covered;
  }
  CHECK(covered / 1000.0 == Approx(0.8).margin(0.04));
}

TEST_CASE("Few records change the factor little", "[forecaster][calibration]") {
  const double few = FitScale(Records(4, 2.5)).multiplier;
  const double many = FitScale(Records(400, 2.5)).multiplier;
  CHECK(few < 1.8);
  CHECK(many > 2.2);
}

TEST_CASE("The factor stays within bounds for any records", "[forecaster][calibration]") {
  CHECK(FitScale(Records(500, 100)).multiplier <= 3);
  CHECK(FitScale(Records(500, 0.001)).multiplier >= 0.5);
}

TEST_CASE("A record that represents many is weighted accordingly", "[forecaster][calibration]") {
  // Half of the records are far off but were certain to be measured; each of the other half
  // represents ten.
  std::vector<PrequentialRecord> records = Records(200, 3.0, 4);
  std::vector<PrequentialRecord> audited = Records(200, 1.0, 5);
  for (PrequentialRecord& record : audited) record.weight = 10;
  std::vector<PrequentialRecord> unweighted = records;
  for (PrequentialRecord record : audited) {
    record.weight = 1;
    unweighted.push_back(record);
  }
  records.insert(records.end(), audited.begin(), audited.end());
  CHECK(FitScale(records).multiplier < FitScale(unweighted).multiplier - 0.2);
}

TEST_CASE("The version states what the factor rests on", "[forecaster][calibration]") {
  CHECK(ScaleCalibration{1.18, 23}.version() == "scale/1;records=23;multiplier=1.180");
}

}  // namespace
}  // namespace kernelcast::forecaster
