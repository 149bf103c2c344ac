#ifndef KERNELCAST_COMMON_CALIBRATION_BIN_CALIBRATOR_H_
#define KERNELCAST_COMMON_CALIBRATION_BIN_CALIBRATOR_H_

#include <span>
#include <string>
#include <vector>

namespace kernelcast {

// The least probability that maps distinguish from 0.
inline constexpr double kProbabilityFloor = 1e-6;

// p_i proportional to exp(scale_i ln p_i + bias_i). Probabilities below kProbabilityFloor are
// raised to it first.
struct VectorMap {
  std::vector<double> scale;
  std::vector<double> bias;
};

// A map that calibrates bin probabilities, and its origin. Const methods are thread-safe.
struct BinCalibrator {
  std::string bin_scheme_id;
  VectorMap map;
  // Effective number of outcomes used in the fit: (sum w)^2 / sum w^2.
  double records = 0;

  // Input and output have one probability per bin of the scheme and sum to 1.
  std::vector<double> Apply(std::span<const double> p) const;

  // "vector/1;records=123;id=0123abcd". The id distinguishes maps.
  std::string version() const;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CALIBRATION_BIN_CALIBRATOR_H_
