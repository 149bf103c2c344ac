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

// Maps that calibrate bin probabilities. All maps floor probabilities at kProbabilityFloor and
// return probabilities that sum to 1.
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

using CalibrationMap = std::variant<IdentityMap, TemperatureMap, VectorMap>;

enum class CalibrationMethod { kNone, kTemperature, kVector };
std::string_view Name(CalibrationMethod method);  // "vector"
// INVALID_ARGUMENT lists the methods.
[[nodiscard]] absl::StatusOr<CalibrationMethod> ParseCalibrationMethod(std::string_view name);

// A map and its origin. Const methods are thread-safe.
struct BinCalibrator {
  CalibrationMethod method = CalibrationMethod::kNone;
  std::string bin_scheme_id;
  CalibrationMap map = IdentityMap{};
  // Effective number of outcomes used in the fit: (sum w)^2 / sum w^2.
  double records = 0;

  // Input and output have one probability per bin of the scheme and sum to 1.
  std::vector<double> Apply(std::span<const double> p) const;

  // "vector/1;records=123;id=0123abcd". The id distinguishes maps.
  std::string version() const;
};

// Schema "kernelcast-calibrator/1".
nlohmann::ordered_json CalibratorToJson(const BinCalibrator& calibrator);
// INVALID_ARGUMENT names the field.
[[nodiscard]] absl::StatusOr<BinCalibrator> CalibratorFromJson(const nlohmann::ordered_json& json);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CALIBRATION_BIN_CALIBRATOR_H_
