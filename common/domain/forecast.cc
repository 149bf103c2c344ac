#include "common/domain/forecast.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/student_t.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

constexpr double kSimplexTolerance = 1e-6;
// Width of an open bin, in log2 S.
constexpr double kOpenBinWidth = 1;
// Below this probability in a bin, the moments say nothing about the distribution within it.
constexpr double kLeastBinMass = 1e-9;

// P(low < T <= high), computed from the tails that do not cancel.
double StandardMass(double low, double high, double degrees_of_freedom) {
  const auto upper = [&](double t) { return StudentTUpperTail(t, degrees_of_freedom); };
  if (low >= 0) return upper(low) - upper(high);
  if (high <= 0) return upper(-high) - upper(-low);
  return 1 - upper(-low) - upper(high);
}

absl::Status CheckSimplex(std::span<const double> p) {
  double sum = 0;
  for (const double value : p) {
    if (!(value >= 0) || !(value <= 1 + kSimplexTolerance)) {
      return absl::InvalidArgumentError(
          absl::StrCat("bin_probabilities: ", NumberText(value), " is not a probability"));
    }
    sum += value;
  }
  if (std::abs(sum - 1) > kSimplexTolerance) {
    return absl::InvalidArgumentError(
        absl::StrCat("bin_probabilities: the sum is ", NumberText(sum, 10), ", not 1"));
  }
  return absl::OkStatus();
}

absl::StatusOr<const BinScheme*> SchemeOf(const Forecast& forecast) {
  absl::StatusOr<const BinScheme*> scheme = BinScheme::Find(forecast.bin_scheme_id);
  if (!scheme.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("bin_scheme_id: ", scheme.status().message()));
  }
  if (static_cast<int>(forecast.bin_probabilities.size()) != (*scheme)->size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("bin_probabilities: ", forecast.bin_probabilities.size(), " values; scheme ",
                     (*scheme)->id(), " has ", (*scheme)->size(), " bins"));
  }
  return scheme;
}

absl::Status CheckProbability(const char* field, double value) {
  if (value >= 0 && value <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", NumberText(value), " is not a probability"));
}

absl::Status CheckFinite(const char* field, double value, bool may_be_negative) {
  if (std::isfinite(value) && (may_be_negative || value >= 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", NumberText(value),
                                                 " is not a finite number",
                                                 may_be_negative ? "" : " from 0 on"));
}

}  // namespace

std::string_view Name(ForecastBasis basis) {
  switch (basis) {
    case ForecastBasis::kUnspecified: return "unspecified";
    case ForecastBasis::kPriorOnly: return "prior_only";
    case ForecastBasis::kLabels: return "labels";
    case ForecastBasis::kFacts: return "facts";
    case ForecastBasis::kRecording: return "recording";
    case ForecastBasis::kSimulation: return "simulation";
    case ForecastBasis::kModel: return "model";
  }
  return "unspecified";
}

int ArgmaxBin(const std::vector<double>& probabilities) {
  return static_cast<int>(std::ranges::max_element(probabilities) - probabilities.begin()) + 1;
}

absl::Status NormalizeSimplex(std::vector<double>& probabilities) {
  double largest = 0;
  for (const double value : probabilities) {
    if (!(value >= 0) || std::isinf(value)) {
      return absl::InvalidArgumentError(absl::StrCat(NumberText(value), " is not a probability"));
    }
    largest = std::max(largest, value);
  }
  if (largest == 0) return absl::InvalidArgumentError("all probabilities are zero");
  // Relative to the largest, so that a sum of huge or tiny values neither overflows nor underflows.
  double sum = 0;
  for (double& value : probabilities) sum += value /= largest;
  for (double& value : probabilities) value /= sum;
  return absl::OkStatus();
}

std::vector<double> BinsFromStudentT(const BinScheme& scheme, double location, double scale,
                                     double degrees_of_freedom) {
  assert(std::isfinite(location) && scale > 0 && degrees_of_freedom > 0);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> p(scheme.size());
  double low = -kInfinity;
  double sum = 0;
  for (int i = 0; i < scheme.size(); ++i) {
    const double high =
        i + 1 == scheme.size() ? kInfinity : (std::log2(scheme.edges()[i]) - location) / scale;
    p[i] = std::max(0.0, StandardMass(low, high, degrees_of_freedom));
    sum += p[i];
    low = high;
  }
  for (double& value : p) value /= sum;
  return p;
}

double StudentTUpperTail(double log2_threshold, double location, double scale,
                         double degrees_of_freedom) {
  assert(scale > 0 && degrees_of_freedom > 0);
  return StudentTUpperTail((log2_threshold - location) / scale, degrees_of_freedom);
}

namespace {

// Share of the probability of the bin (low, high] that lies above the threshold, all in log2 S. An
// open bin has one infinite edge. The share is that of a normal distribution with the forecast's
// moments, restricted to the bin. If the moments say nothing about the bin, the probability is
// spread evenly, in an open bin over one octave next to its edge.
double BinShareAbove(const Forecast& forecast, double low, double high, double threshold) {
  if (threshold <= low) return 1;
  if (threshold >= high) return 0;
  const double sigma = forecast.stddev_log2_speedup;
  const auto above = [&](double x) {
    return 0.5 * std::erfc((x - forecast.expected_log2_speedup) / (sigma * std::numbers::sqrt2));
  };
  if (sigma > 0) {
    const double bin = above(low) - above(high);
    if (bin > kLeastBinMass) return std::clamp((above(threshold) - above(high)) / bin, 0.0, 1.0);
  }
  if (std::isinf(high)) return std::max(0.0, 1 - (threshold - low) / kOpenBinWidth);
  if (std::isinf(low)) return std::min(1.0, (high - threshold) / kOpenBinWidth);
  return (high - threshold) / (high - low);
}

}  // namespace

absl::StatusOr<double> WinProbability(const Forecast& forecast, double threshold) {
  KC_ASSIGN_OR_RETURN(const BinScheme* scheme, SchemeOf(forecast));
  KC_RETURN_IF_ERROR(CheckSimplex(forecast.bin_probabilities));
  KC_RETURN_IF_ERROR(CheckProbability("failure_probability", forecast.failure_probability));
  KC_RETURN_IF_ERROR(CheckFinite("threshold", threshold, /*may_be_negative=*/false));
  const double log2_threshold = std::log2(threshold);  // -inf for a threshold of 0
  const std::span<const double> edges = scheme->edges();
  const int last = scheme->size() - 1;
  double win = 0;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (int i = last; i >= 0; --i) {
    const double low = i == 0 ? -kInfinity : std::log2(edges[i - 1]);
    const double high = i == last ? kInfinity : std::log2(edges[i]);
    win += BinShareAbove(forecast, low, high, log2_threshold) * forecast.bin_probabilities[i];
  }
  return std::clamp((1 - forecast.failure_probability) * win, 0.0, 1.0);
}

absl::Status ValidateForecast(const Forecast& forecast) {
  KC_ASSIGN_OR_RETURN(const BinScheme* scheme, SchemeOf(forecast));
  KC_RETURN_IF_ERROR(CheckSimplex(forecast.bin_probabilities));
  KC_RETURN_IF_ERROR(CheckProbability("failure_probability", forecast.failure_probability));
  const std::vector<double>& p = forecast.bin_probabilities;
  if (forecast.predicted_bin < 1 || forecast.predicted_bin > scheme->size()) {
    return absl::InvalidArgumentError(absl::StrCat("predicted_bin: ", forecast.predicted_bin,
                                                   " is not from 1 to ", scheme->size()));
  }
  const int argmax = ArgmaxBin(p);
  if (p[forecast.predicted_bin - 1] < p[argmax - 1] - kSimplexTolerance) {
    return absl::InvalidArgumentError(absl::StrCat("predicted_bin: ", forecast.predicted_bin,
                                                   " is not the most probable bin, ", argmax));
  }
  KC_RETURN_IF_ERROR(CheckFinite("expected_log2_speedup", forecast.expected_log2_speedup, true));
  KC_RETURN_IF_ERROR(CheckFinite("stddev_log2_speedup", forecast.stddev_log2_speedup, false));
  KC_RETURN_IF_ERROR(CheckFinite("raw_probability_sum", forecast.raw_probability_sum, false));
  KC_RETURN_IF_ERROR(
      CheckFinite("token_usage.cost_dollars", forecast.token_usage.cost_dollars, false));
  if (forecast.latency_ns < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("latency_ns: ", forecast.latency_ns, " is negative"));
  }
  if (forecast.components.size() > kMaxForecastComponents) {
    return absl::InvalidArgumentError(absl::StrCat("components: ", forecast.components.size(),
                                                   " are more than ", kMaxForecastComponents));
  }
  for (const ForecastComponent& component : forecast.components) {
    if (component.bin_probabilities.size() != p.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "components: ", component.bin_probabilities.size(), " bin_probabilities; scheme ",
          scheme->id(), " has ", scheme->size(), " bins"));
    }
    KC_RETURN_IF_ERROR(CheckSimplex(component.bin_probabilities));
    KC_RETURN_IF_ERROR(
        CheckProbability("components.failure_probability", component.failure_probability));
    KC_RETURN_IF_ERROR(CheckProbability("components.weight", component.weight));
  }
  return absl::OkStatus();
}

}  // namespace kernelcast
