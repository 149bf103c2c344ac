#ifndef KERNELCAST_COMMON_CALIBRATION_BIN_CALIBRATOR_H_
#define KERNELCAST_COMMON_CALIBRATION_BIN_CALIBRATOR_H_

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast {

// Maps from forecasts over bins to forecasts that come true as often as they say. All work on
// probabilities floored at kProbabilityFloor and give back a simplex.
inline constexpr double kProbabilityFloor = 1e-6;

struct IdentityMap {};

// p_i proportional to p_i^(1 / temperature).
struct TemperatureMap {
  double temperature = 1;
};

// p_i proportional to exp(scale_i ln p_i + bias_i).
struct VectorMap {
  std::vector<double> scale;
  std::vector<double> bias;
};

// Of the largest probability alone: what it becomes, by steps. The others keep their proportions.
// `upto` ascends and ends at 1; a probability belongs to the first step that reaches it.
struct StepMap {
  std::vector<double> upto;
  std::vector<double> value;
};

// For each bin, one against the rest: its probability becomes what a line through points makes of
// it, constant beyond the ends; then all are scaled to a sum of one.
struct PiecewiseMap {
  struct Line {
    std::vector<double> x;  // ascending
    std::vector<double> y;
  };
  std::vector<Line> bins;
};

using CalibrationMap = std::variant<IdentityMap, TemperatureMap, VectorMap, StepMap, PiecewiseMap>;

enum class CalibrationMethod { kNone, kTemperature, kVector, kHistogram, kIsotonic };
std::string_view Name(CalibrationMethod method);  // "vector"
// INVALID_ARGUMENT, listing them.
[[nodiscard]] absl::StatusOr<CalibrationMethod> ParseCalibrationMethod(std::string_view name);

// A map with what it was made of. Immutable in use; thread-safe.
struct BinCalibrator {
  CalibrationMethod method = CalibrationMethod::kNone;
  std::string bin_scheme_id;
  CalibrationMap map = IdentityMap{};
  // Outcomes that it was fitted to, by their weights: (sum w)^2 / sum w^2.
  double records = 0;

  // As many probabilities as the scheme has bins, on a simplex, in and out.
  std::vector<double> Apply(std::span<const double> p) const;

  // "vector/1;records=123;id=0123abcd": the id tells maps apart.
  std::string version() const;
};

// Schema "kernelcast-calibrator/1".
nlohmann::ordered_json CalibratorToJson(const BinCalibrator& calibrator);
// INVALID_ARGUMENT names the field.
[[nodiscard]] absl::StatusOr<BinCalibrator> CalibratorFromJson(const nlohmann::ordered_json& json);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CALIBRATION_BIN_CALIBRATOR_H_
