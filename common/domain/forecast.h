#ifndef KERNELCAST_COMMON_DOMAIN_FORECAST_H_
#define KERNELCAST_COMMON_DOMAIN_FORECAST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/bins.h"

namespace kernelcast {

struct TokenUsage {
  uint64_t input_tokens = 0;
  uint64_t cached_input_tokens = 0;
  uint64_t output_tokens = 0;
  double cost_dollars = 0;
};

// Of a pool: what one of its backends said.
struct ForecastComponent {
  std::string backend;
  std::string backend_version;
  double weight = 0;
  std::vector<double> bin_probabilities;
  double failure_probability = 0;
};

// A distribution over the speedup of one candidate relative to a named baseline. Field meanings as
// in kernel.proto.
struct Forecast {
  std::string candidate_id;
  std::string bin_scheme_id = std::string(BinScheme::kDefaultId);
  std::vector<double> bin_probabilities;  // P(bin | correct): sums to one
  double failure_probability = 0;
  int predicted_bin = 0;
  double expected_log2_speedup = 0;
  double stddev_log2_speedup = 0;
  double raw_probability_sum = 1;
  bool argmax_mismatch = false;
  std::string baseline_candidate_id;
  std::string backend;
  std::string backend_version;
  std::string calibrator_version;
  uint64_t labels_seen = 0;
  std::string rationale;
  TokenUsage token_usage;
  int64_t latency_ns = 0;
  std::string prompt_version;
  std::vector<ForecastComponent> components;
};

inline constexpr size_t kMaxForecastComponents = 8;

struct Abstention {
  enum class Cause { kModelDeferred, kUnparsable, kEndpointUnavailable, kBudget, kNotCovered };
  Cause cause = Cause::kModelDeferred;
  std::string backend;
  std::string reason;
};

// 1-based index of the largest probability; the lowest bin wins ties.
int ArgmaxBin(const std::vector<double>& probabilities);

// Scales to a sum of one. INVALID_ARGUMENT when a value is negative or not finite or all are zero.
[[nodiscard]] absl::Status NormalizeSimplex(std::vector<double>& probabilities);

// Bin probabilities of log2 S ~ location + scale * Student-t(degrees of freedom). Degrees above 200
// are treated as the normal distribution. `scale` > 0.
std::vector<double> BinsFromStudentT(const BinScheme& scheme, double location, double scale,
                                     double degrees_of_freedom);

// P(log2 S > log2_threshold) under the same distribution.
double StudentTUpperTail(double log2_threshold, double location, double scale,
                         double degrees_of_freedom);

// P(correct and S > threshold) from the binned forecast. Within the bin that holds the threshold
// the mass is spread evenly in log2 S; within an open bin, as a normal distribution with the
// forecast's moments would spread it, so that thresholds far beyond the last edge still tell
// forecasts apart. `threshold` is finite and not negative.
[[nodiscard]] absl::StatusOr<double> WinProbability(const Forecast& forecast, double threshold);

// Checks lengths, simplex (to 1e-6), ranges and the scheme's id, of the components too.
[[nodiscard]] absl::Status ValidateForecast(const Forecast& forecast);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_FORECAST_H_
