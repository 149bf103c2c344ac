#ifndef KERNELCAST_COMMON_DOMAIN_KERNEL_REWARD_H_
#define KERNELCAST_COMMON_DOMAIN_KERNEL_REWARD_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/domain/decision.h"
#include "common/domain/forecast.h"
#include "common/domain/measurement.h"

namespace kernelcast {

// Rewards for writing kernels. docs/reference/scoring.md has the formulas.

// Changes whenever the same evaluation may get another reward.
inline constexpr std::string_view kKernelRewardVersion = "kernel-reward/1";

enum class RewardShape { kSpeedup, kLog2Speedup, kSpeedOfLight };
enum class RewardEstimator { kDoublyRobust, kInversePropensity };

// Rules whose penalties are subtracted: one of the outcomes, and "not_faster" for a correct kernel
// whose interval does not lie above the baseline.
inline constexpr std::string_view kRewardRules[] = {"compile_error", "wrong_result", "crash",
                                                    "timeout",       "exploit",      "not_faster"};

struct KernelRewardSpec {
  RewardShape shape = RewardShape::kSpeedup;
  RewardEstimator estimator = RewardEstimator::kDoublyRobust;
  // Speedup of the baseline over the reference.
  double baseline_speedup = 1;
  // The shape's value is cut to [-limit, limit]. 0: no limit.
  double limit = 0;
  // Added for a correct kernel.
  double correctness = 0;
  std::map<std::string, double, std::less<>> penalties;  // by rule
  // Whether a candidate that could not be measured is rewarded by its forecast, which is biased.
  bool accept_forecasts = false;
};

// INVALID_ARGUMENT: "penalties: 'slow' is not one of compile_error, ...".
[[nodiscard]] absl::Status ValidateRewardSpec(const KernelRewardSpec& spec);

// A settled evaluation.
struct RewardedEvaluation {
  Decision decision;
  // The forecast on which the decision was made. Null: none.
  const Forecast* forecast = nullptr;
  // Null: not measured.
  const Measurement* measurement = nullptr;
  bool compile_error = false;
  // Why a rejected candidate has no verdict. Empty: it was not rejected, or did not compile.
  std::string rejection;
};

struct KernelReward {
  // kMeasured: the value of the measurement, or of a compile error. kEstimated: an unbiased
  // estimate of that, whose expectation is over the audit draw. kForecast: the value of the
  // forecast.
  enum class Basis { kMeasured, kEstimated, kForecast };

  // Empty: the evaluation says nothing about the kernel; `no_verdict` says why.
  std::optional<double> value;
  std::string no_verdict;
  Basis basis = Basis::kMeasured;
  // Probability with which the candidate was measured.
  double propensity = 1;
  // Value of the measurement; empty if it was not measured.
  std::optional<double> measured;
  // Control variate, from the forecast; empty without one.
  std::optional<double> control;
  // Rules that applied, with or without a penalty.
  std::vector<std::string> rules;
};

// The reward of an evaluation. The specification must be valid. Pure.
KernelReward RewardKernel(const KernelRewardSpec& spec, const RewardedEvaluation& evaluation);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_KERNEL_REWARD_H_
