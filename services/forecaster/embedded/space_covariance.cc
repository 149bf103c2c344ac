#include "services/forecaster/embedded/space_covariance.h"

#include <cmath>
#include <numbers>

namespace kernelcast::forecaster {
namespace {

// Another identifier changes less than the other end of a range of numbers, and a compiler flag
// less than either.
constexpr float kValueScale = 1 / 1.5f;
constexpr float kFlagScale = 1 / 2.0f;

// A tunable that only one of two has counts as if the other had its middle value, and this much
// further off.
constexpr double kMissingSquare = 0.25;

float OrZero(float value) { return std::isnan(value) ? 0.0f : value; }

float WeightOf(const LikenessLengths& lengths, size_t column) {
  return lengths.weights.empty() ? 1.0f : lengths.weights[column];
}

}  // namespace

double Matern(double distance) {
  const double scaled = std::numbers::sqrt3 * distance;
  return (1 + scaled) * std::exp(-scaled);
}

SpacePosition PositionOf(const TunableEncoder& encoder, const CandidateFeatures& features) {
  SpacePosition position;
  position.template_index = features.template_index;
  for (size_t i = 0; i < features.tunables.size(); ++i) {
    const float value = features.tunables[i];
    switch (encoder.kind(i)) {
      case TunableEncoder::Kind::kTemplate: break;
      case TunableEncoder::Kind::kNumber:
        // The steps between a template's values are taken to matter alike: whoever wrote it chose
        // them so.
        position.tunables.push_back(encoder.Rank(features.template_index, i, value));
        break;
      case TunableEncoder::Kind::kValue: position.tunables.push_back(value * kValueScale); break;
      case TunableEncoder::Kind::kFlag: position.tunables.push_back(value * kFlagScale); break;
    }
  }
  position.facts = features.facts;
  for (float& fact : position.facts) fact = OrZero(fact);
  return position;
}

Likeness Compare(const SpacePosition& a, const SpacePosition& b, const LikenessLengths& lengths) {
  Likeness likeness;
  likeness.same_template = a.template_index == b.template_index;
  const double inverse = 1 / lengths.tunables;
  double sum = 0;
  double square = 0;
  int of_a = 0;
  int of_b = 0;
  for (size_t i = 0; i < a.tunables.size(); ++i) {
    const float x = a.tunables[i];
    const float y = b.tunables[i];
    const bool has_a = !std::isnan(x);
    const bool has_b = !std::isnan(y);
    of_a += has_a ? 1 : 0;
    of_b += has_b ? 1 : 0;
    if (!has_a || !has_b) {
      if (has_a != has_b) {
        const double from_middle = ((has_a ? x : y) - 0.5) * inverse;
        square += WeightOf(lengths, i) * (from_middle * from_middle + kMissingSquare);
      }
      continue;
    }
    if (x == y) {
      sum += 1;
      continue;
    }
    const double distance = (x - y) * inverse;
    const double weighted = WeightOf(lengths, i) * distance * distance;
    square += weighted;
    sum += Matern(std::sqrt(weighted));
  }
  // Normalised such that it is a covariance, and one for equal positions.
  if (of_a > 0 && of_b > 0) {
    likeness.shared_effects = sum / std::sqrt(static_cast<double>(of_a) * of_b);
  } else if (of_a == of_b) {
    likeness.shared_effects = 1;
  }
  if (likeness.same_template) {
    likeness.main_effects = likeness.shared_effects;
    likeness.interactions = Matern(std::sqrt(square));
  }
  if (a.facts.size() == b.facts.size() && !a.facts.empty()) {
    float facts = 0;
    for (size_t i = 0; i < a.facts.size(); ++i) {
      const float difference = a.facts[i] - b.facts[i];
      facts += difference * difference;
    }
    likeness.facts =
        Matern(std::sqrt(static_cast<double>(facts) / static_cast<double>(a.facts.size())) /
               lengths.facts);
  } else if (a.facts.empty() && b.facts.empty()) {
    likeness.facts = 1;
  }
  return likeness;
}

double CovarianceWeights::operator()(const Likeness& likeness) const {
  double value = constant + shared_effects * likeness.shared_effects + facts * likeness.facts;
  if (likeness.same_template) {
    value +=
        same_template + main_effects * likeness.main_effects + interactions * likeness.interactions;
  }
  return value;
}

double CovarianceWeights::Variance() const {
  return constant + same_template + main_effects + interactions + shared_effects + facts;
}

}  // namespace kernelcast::forecaster
