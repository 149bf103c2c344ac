#include "services/worker/core/variation.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/worker/core/verification.h"

namespace kernelcast::worker {
namespace {

// Rounding errors of an output: its own, and those of the expected values.
constexpr double kRoundings = 4;
// The noise is a random quantity, measured once.
constexpr double kNoiseFactor = 4;
// The rule speaks where rounding explains at most this part of the variation.
constexpr double kMostRounding = 0.5;
// Variation of an output that counts as constant, relative to that of the expected values.
constexpr double kConstant = 0.1;
// Sums in double precision resolve no smaller variation.
constexpr double kLeastRoundoff = 0x1p-24;

// The norm of values after their mean is taken away.
double CentredNorm(double sum, double squares, double count) {
  return std::sqrt(std::max(0.0, squares - sum * sum / count));
}

}  // namespace

VariationSums& VariationSums::operator+=(const VariationSums& other) {
  count += other.count;
  expected += other.expected;
  expected_squares += other.expected_squares;
  got += other.got;
  got_squares += other.got_squares;
  error += other.error;
  error_squares += other.error_squares;
  return *this;
}

std::optional<double> Unexplained(const VariationSums& sums, DataType dtype,
                                  std::optional<double> noise, VariationRule rule) {
  if (!IsFloat(dtype) || !noise || sums.count < kFewestToVary) return std::nullopt;
  const double variation = CentredNorm(sums.expected, sums.expected_squares, sums.count);
  const double rounding =
      (kRoundings * std::max(UnitRoundoff(dtype), kLeastRoundoff) + kNoiseFactor * *noise) *
      std::sqrt(sums.expected_squares);
  // Also where sums overflow.
  if (!(rounding < kMostRounding * variation) || !std::isfinite(variation)) return std::nullopt;
  const double error = CentredNorm(sums.error, sums.error_squares, sums.count);
  if (error <= kMostUnexplained * variation + rounding) return std::nullopt;
  const double got = CentredNorm(sums.got, sums.got_squares, sums.count);
  if (rule == VariationRule::kNotConstant && got > kConstant * variation) return std::nullopt;
  return error / variation;
}

std::string VariationText(double unexplained, const std::string& other_rules) {
  std::string text = absl::StrFormat(
      "kernelcast: an output follows its expected values; its error varies by %.2g of their "
      "variation, at most %.2g is allowed",
      unexplained, kMostUnexplained);
  if (!other_rules.empty()) {
    absl::StrAppend(&text, "; the other rules accept it (", other_rules, ")");
  }
  return text;
}

std::optional<double> VariationCheck::Judge(const Draw& draw, const VariationSums& sums,
                                            DataType dtype, std::optional<double> noise,
                                            VariationRule rule) {
  if (sums.count >= kFewestToVary) return Unexplained(sums, dtype, noise, rule);
  auto& draws = small_outputs_[{draw.axes, draw.distribution, draw.output}];
  draws[draw.id] = sums;
  VariationSums all;
  for (const auto& [id, one] : draws) all += one;
  return Unexplained(all, dtype, noise, rule);
}

}  // namespace kernelcast::worker
