#include "services/worker/core/sampler.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "common/base/status.h"
#include "services/worker/core/narrow_float.h"
#include "services/worker/core/tensor.h"

namespace kernelcast::worker {
namespace {

constexpr int64_t kLimit = int64_t{1} << 53;
// For an exponent this close to 1 the integral is a logarithm.
constexpr double kLogarithmic = 1e-9;

}  // namespace

absl::StatusOr<Sampler> Sampler::Make(const InitDistribution& init, const AxisValues& axes) {
  Sampler sampler;
  const Variables variables = ToVariables(axes);
  if (const auto* normal = std::get_if<Normal>(&init)) {
    sampler.kind_ = Kind::kNormal;
    sampler.a_ = normal->mean;
    sampler.b_ = normal->stddev;
  } else if (const auto* uniform = std::get_if<Uniform>(&init)) {
    sampler.kind_ = Kind::kUniform;
    sampler.a_ = uniform->low;
    sampler.b_ = uniform->high;
  } else if (const auto* integers = std::get_if<Integers>(&init)) {
    sampler.kind_ = Kind::kIntegers;
    KC_ASSIGN_OR_RETURN(sampler.low_, integers->low.EvaluateInteger(variables, -kLimit, kLimit));
    KC_ASSIGN_OR_RETURN(sampler.high_,
                        integers->high.EvaluateInteger(variables, sampler.low_, kLimit));
  } else if (const auto* log_normal = std::get_if<LogNormal>(&init)) {
    sampler.kind_ = Kind::kLogNormal;
    sampler.a_ = log_normal->mean;
    sampler.b_ = log_normal->stddev;
  } else if (const auto* power_law = std::get_if<PowerLaw>(&init)) {
    sampler.kind_ = Kind::kPowerLaw;
    sampler.exponent_ = power_law->exponent;
    sampler.a_ = power_law->low;
    sampler.b_ = power_law->high;
  } else if (const auto* zipf = std::get_if<Zipf>(&init)) {
    sampler.kind_ = Kind::kZipf;
    sampler.exponent_ = zipf->exponent;
    KC_ASSIGN_OR_RETURN(sampler.low_, zipf->low.EvaluateInteger(variables, -kLimit, kLimit));
    KC_ASSIGN_OR_RETURN(sampler.high_, zipf->high.EvaluateInteger(variables, sampler.low_, kLimit));
    const auto ranks = static_cast<double>(sampler.high_ - sampler.low_) + 1;
    sampler.hat_first_ = sampler.Hat(1.5) - 1;
    sampler.hat_last_ = sampler.Hat(ranks + 0.5);
    sampler.accept_ = 2 - sampler.InverseHat(sampler.Hat(2.5) - std::pow(2, -zipf->exponent));
  } else if (const auto* constant = std::get_if<Constant>(&init)) {
    sampler.kind_ = Kind::kConstant;
    sampler.a_ = constant->value;
  } else {
    return absl::InvalidArgumentError("values of a file are not drawn");
  }
  return sampler;
}

double Sampler::Hat(double x) const {
  const double power = 1 - exponent_;
  return std::abs(power) < kLogarithmic ? std::log(x) : std::pow(x, power) / power;
}

double Sampler::InverseHat(double x) const {
  const double power = 1 - exponent_;
  return std::abs(power) < kLogarithmic ? std::exp(x) : std::pow(power * x, 1 / power);
}

// Hoermann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
// distributions", 1996.
int64_t Sampler::Rank(Random& random) const {
  const auto ranks = static_cast<double>(high_ - low_) + 1;
  for (;;) {
    const double u = hat_last_ + random.Uniform() * (hat_first_ - hat_last_);
    const double x = InverseHat(u);
    const double rank = std::clamp(std::floor(x + 0.5), 1.0, ranks);
    if (rank - x <= accept_ || u >= Hat(rank + 0.5) - std::pow(rank, -exponent_)) {
      return static_cast<int64_t>(rank);
    }
  }
}

double Sampler::Real(Random& random) const {
  switch (kind_) {
    case Kind::kNormal: return a_ + b_ * random.Normal();
    case Kind::kUniform: return a_ + (b_ - a_) * random.Uniform();
    case Kind::kLogNormal: return std::exp(a_ + b_ * random.Normal());
    case Kind::kPowerLaw: {
      // Relative to the smallest value, so that no power overflows.
      const double u = random.Uniform();
      const double span = b_ / a_;
      const double power = 1 - exponent_;
      const double x = std::abs(power) < kLogarithmic
                           ? std::pow(span, u)
                           : std::pow(1 + u * (std::pow(span, power) - 1), 1 / power);
      return std::clamp(a_ * x, a_, b_);
    }
    case Kind::kIntegers:
    case Kind::kZipf: return static_cast<double>(Whole(random));
    case Kind::kConstant: return a_;
  }
  return 0;
}

int64_t Sampler::Whole(Random& random) const {
  if (kind_ == Kind::kIntegers) {
    return low_ + static_cast<int64_t>(random.Below(static_cast<uint64_t>(high_ - low_) + 1));
  }
  if (kind_ == Kind::kZipf) {
    return low_ + Rank(random) - 1;
  }
  return static_cast<int64_t>(std::llround(Real(random)));
}

double Quantiser::operator()(double value) const {
  if (quantisation_.step > 0) {
    value = std::nearbyint(value / quantisation_.step) * quantisation_.step;
  }
  if (!quantisation_.precision || !std::isfinite(value)) {
    return value;
  }
  const DataType precision = *quantisation_.precision;
  if (!IsNarrowFloat(precision)) {
    return static_cast<double>(static_cast<float>(value));
  }
  return DecodeNarrow(precision, EncodeNarrow(precision, value));
}

}  // namespace kernelcast::worker
