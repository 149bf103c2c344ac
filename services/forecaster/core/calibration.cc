#include "services/forecaster/core/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "common/domain/student_t.h"

namespace kernelcast::forecaster {
namespace {

constexpr std::array<double, 2> kLevels = {0.5, 0.8};
constexpr double kMinMultiplier = 0.5;
constexpr double kMaxMultiplier = 3.0;
constexpr double kMaxWeightRatio = 20.0;
constexpr double kPriorDegreesOfFreedom = 10.0;

}  // namespace

std::string ScaleCalibration::version() const {
  char text[80];
  std::snprintf(text, sizeof(text), "%s;records=%.0f;multiplier=%.3f",
                std::string(kCalibratorVersion).c_str(), records, multiplier);
  return text;
}

ScaleCalibration FitScale(std::span<const PrequentialRecord> records, const ScaleCalibration& prior,
                          double prior_records) {
  // For each record and level, the smallest multiplier at which the interval covers the true value.
  struct Threshold {
    double weight;
    std::array<double, kLevels.size()> multipliers;
  };
  std::vector<Threshold> thresholds;
  thresholds.reserve(records.size());
  double smallest = std::numeric_limits<double>::infinity();
  for (const PrequentialRecord& record : records) {
    if (record.weight > 0) smallest = std::min(smallest, record.weight);
  }
  double weights = 0;
  double squares = 0;
  for (const PrequentialRecord& record : records) {
    if (!(record.weight > 0) || !(record.predicted.scale > 0)) continue;
    Threshold& threshold = thresholds.emplace_back();
    threshold.weight = std::min(record.weight, kMaxWeightRatio * smallest);
    weights += threshold.weight;
    squares += threshold.weight * threshold.weight;
    const double deviation =
        std::abs(record.measured_log2_speedup - record.predicted.location) / record.predicted.scale;
    for (size_t i = 0; i < kLevels.size(); ++i) {
      threshold.multipliers[i] =
          deviation / StudentTQuantile(0.5 * (1 + kLevels[i]), record.predicted.degrees_of_freedom);
    }
  }
  if (thresholds.empty()) return {prior.multiplier, 0};
  const double effective = weights * weights / squares;

  std::array<double, kLevels.size()> prior_quantiles;
  for (size_t i = 0; i < kLevels.size(); ++i) {
    prior_quantiles[i] = StudentTQuantile(0.5 * (1 + kLevels[i]), kPriorDegreesOfFreedom);
  }
  const auto excess = [&](double multiplier) {
    double sum = 0;
    for (size_t i = 0; i < kLevels.size(); ++i) {
      double covered = 0;
      for (const Threshold& threshold : thresholds) {
        if (multiplier >= threshold.multipliers[i]) covered += threshold.weight;
      }
      const double prior_covered =
          1 - 2 * StudentTUpperTail(prior_quantiles[i] * multiplier / prior.multiplier,
                                    kPriorDegreesOfFreedom);
      sum += (effective * covered / weights + prior_records * prior_covered) /
                 (effective + prior_records) -
             kLevels[i];
    }
    return sum;
  };
  double low = kMinMultiplier;
  double high = kMaxMultiplier;
  for (int i = 0; i < 40; ++i) {
    const double middle = 0.5 * (low + high);
    (excess(middle) < 0 ? low : high) = middle;
  }
  return {0.5 * (low + high), effective};
}

}  // namespace kernelcast::forecaster
