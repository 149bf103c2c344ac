#ifndef KERNELCAST_COMMON_DOMAIN_FORECAST_H_
#define KERNELCAST_COMMON_DOMAIN_FORECAST_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/bins.h"
#include "common/domain/model_answer.h"

namespace kernelcast {

// Pool backend only: the forecast of one backend in the pool.
struct ForecastComponent {
  std::string backend;
  std::string backend_version;
  double weight = 0;
  std::vector<double> bin_probabilities;
  double failure_probability = 0;
};

// The kernel that a model was asked to compare with.
struct ForecastAnchor {
  std::string candidate_id;
  double speedup = 1;  // over the reference
};

// A distribution over the speedup of one candidate relative to a named baseline. kernel.proto
// defines the fields. The basis of a forecast. kernel.proto defines the values.
enum class ForecastBasis {
  kUnspecified,
  kPriorOnly,
  kLabels,
  kFacts,
  kRecording,
  kSimulation,
  kModel,
};
std::string_view Name(ForecastBasis basis);  // "prior_only"

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
  // Not set: the backend does not learn from labels.
  std::optional<uint64_t> labels_seen = {};
  std::string device_model;
  std::string rationale;
  TokenUsage token_usage;
  int64_t latency_ns = 0;
  std::string prompt_version;
  std::vector<ForecastComponent> components;
  // Empty: the backend has no model.
  std::optional<ModelAnswer> model;
  // Empty: the reference.
  std::optional<ForecastAnchor> anchor;
  ForecastBasis basis = ForecastBasis::kUnspecified;
  // Equal for candidates that the backend cannot tell apart. Empty: unknown.
  std::string evidence_id;
};

inline constexpr size_t kMaxForecastComponents = 8;

struct Abstention {
  enum class Cause { kModelDeferred, kUnparsable, kEndpointUnavailable, kBudget, kNotCovered };
  Cause cause = Cause::kModelDeferred;
  std::string backend;
  std::string reason;
  // As in Forecast::model.
  std::optional<ModelAnswer> model = std::nullopt;
};

// 1-based index of the largest probability. The lowest bin wins ties.
int ArgmaxBin(const std::vector<double>& probabilities);

// Scales to a sum of 1. INVALID_ARGUMENT: a value is negative or not finite, or all are zero.
[[nodiscard]] absl::Status NormalizeSimplex(std::vector<double>& probabilities);

// Bin probabilities of log2 S ~ location + scale * Student-t(degrees of freedom). Above 200 degrees
// of freedom the normal distribution is used. `scale` must be > 0.
std::vector<double> BinsFromStudentT(const BinScheme& scheme, double location, double scale,
                                     double degrees_of_freedom);

// P(log2 S > log2_threshold) under the same distribution.
double StudentTUpperTail(double log2_threshold, double location, double scale,
                         double degrees_of_freedom);

// P(correct and S > threshold) from the binned forecast. Within the bin that contains the
// threshold, the probability is spread like a normal distribution with the forecast's moments. This
// separates forecasts at thresholds inside a wide bin and far beyond the last edge. If the moments
// say nothing about the bin, it is spread evenly in log2 S. `threshold` must be finite and not
// negative.
[[nodiscard]] absl::StatusOr<double> WinProbability(const Forecast& forecast, double threshold);

// Checks lengths, sums (to 1e-6), ranges and the scheme's id, including those of the components.
[[nodiscard]] absl::Status ValidateForecast(const Forecast& forecast);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_FORECAST_H_
