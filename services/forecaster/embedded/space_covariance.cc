#include "services/forecaster/embedded/space_covariance.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kernelcast::forecaster {
namespace {

// A different identifier matters less than the other end of a numeric range, and a compiler flag
// less than either.
constexpr float kValueScale = 1 / 1.5f;
constexpr float kFlagScale = 1 / 2.0f;

// A tunable that only one of the two has counts as if the other had its middle value, plus this
// squared distance.
constexpr double kMissingSquare = 0.25;

float OrZero(float value) { return std::isnan(value) ? 0.0f : value; }

// Number of tunables that are not missing.
int CountHad(const std::vector<float>& tunables) {
  return static_cast<int>(std::count_if(tunables.begin(), tunables.end(),
                                        [](float value) { return !std::isnan(value); }));
}

// Contribution of two values of a tunable to the similarity and to the squared distance.
struct TunableLikeness {
  double alike = 0;
  double square = 0;
};

TunableLikeness CompareTunable(float a, float b, double weight, double inverse_length) {
  const bool has_a = !std::isnan(a);
  const bool has_b = !std::isnan(b);
  if (!has_a && !has_b) return {};
  if (!has_a || !has_b) {
    const double from_middle = ((has_a ? a : b) - 0.5) * inverse_length;
    return {0, weight * (from_middle * from_middle + kMissingSquare)};
  }
  if (a == b) return {1, 0};
  const double distance = (a - b) * inverse_length;
  const double square = weight * distance * distance;
  return {Matern(std::sqrt(square)), square};
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
        // Steps between a template's values are assumed to matter equally, because its author chose
        // them.
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

PositionTable::PositionTable(std::span<const SpacePosition> positions) {
  const size_t n = positions.size();
  for (const SpacePosition& position : positions) {
    templates_.push_back(position.template_index);
    tunables_had_.push_back(CountHad(position.tunables));
    fact_counts_.push_back(position.facts.size());
    facts_.resize(std::max(facts_.size(), position.facts.size()));
    predicted_.push_back(position.predicted);
    transferred_.push_back(position.transferred);
    widths_.push_back(position.width);
  }
  tunables_.resize(n == 0 ? 0 : positions[0].tunables.size());
  for (size_t c = 0; c < tunables_.size(); ++c) {
    Column& column = tunables_[c];
    for (const SpacePosition& position : positions) {
      const float value = position.tunables[c];
      const auto found = std::find_if(column.values.begin(), column.values.end(), [&](float known) {
        return known == value || (std::isnan(known) && std::isnan(value));
      });
      column.index.push_back(static_cast<uint16_t>(found - column.values.begin()));
      if (found == column.values.end()) column.values.push_back(value);
    }
  }
  for (size_t c = 0; c < facts_.size(); ++c) {
    for (const SpacePosition& position : positions) {
      facts_[c].push_back(c < position.facts.size() ? position.facts[c] : 0.0f);
    }
  }
}

void PositionTable::Compare(const SpacePosition& position, const LikenessLengths& lengths,
                            Facts facts, std::span<Likeness> out) const {
  const size_t n = out.size();
  const size_t first = size() - n;
  const double inverse = 1 / lengths.tunables;
  std::vector<double> alike(n, 0.0);    // sum over the tunables
  std::vector<double> squares(n, 0.0);  // squared distance
  std::vector<TunableLikeness> by_value;
  for (size_t c = 0; c < tunables_.size(); ++c) {
    const double weight = lengths.weights.empty() ? 1.0f : lengths.weights[c];
    by_value.clear();
    for (const float value : tunables_[c].values) {
      by_value.push_back(CompareTunable(value, position.tunables[c], weight, inverse));
    }
    const uint16_t* const index = tunables_[c].index.data() + first;
    for (size_t i = 0; i < n; ++i) {
      alike[i] += by_value[index[i]].alike;
      squares[i] += by_value[index[i]].square;
    }
  }
  std::vector<float> fact_squares(n, 0.0f);
  const size_t fact_count = position.facts.size();
  if (facts == Facts::kCompared && fact_count <= facts_.size()) {
    for (size_t c = 0; c < fact_count; ++c) {
      const float* const column = facts_[c].data() + first;
      for (size_t i = 0; i < n; ++i) {
        const float difference = column[i] - position.facts[c];
        fact_squares[i] += difference * difference;
      }
    }
  }
  const int had = CountHad(position.tunables);
  for (size_t i = 0; i < n; ++i) {
    Likeness likeness;
    likeness.predicted = predicted_[first + i] * position.predicted;
    likeness.transferred = transferred_[first + i] * position.transferred;
    likeness.width = widths_[first + i] * position.width;
    const int tunables_had = tunables_had_[first + i];
    likeness.same_template = templates_[first + i] == position.template_index;
    // Normalised so that it is a covariance and is 1 for equal positions.
    if (tunables_had > 0 && had > 0) {
      likeness.shared_effects = alike[i] / std::sqrt(static_cast<double>(tunables_had) * had);
    } else if (tunables_had == had) {
      likeness.shared_effects = 1;
    }
    if (likeness.same_template) {
      likeness.main_effects = likeness.shared_effects;
      likeness.interactions = Matern(std::sqrt(squares[i]));
    }
    if (facts == Facts::kCompared && fact_counts_[first + i] == fact_count) {
      likeness.facts = fact_count == 0 ? 1
                                       : Matern(std::sqrt(static_cast<double>(fact_squares[i]) /
                                                          static_cast<double>(fact_count)) /
                                                lengths.facts);
    }
    out[i] = likeness;
  }
}

double CovarianceWeights::operator()(const Likeness& likeness) const {
  double value = constant + shared_effects * likeness.shared_effects + facts * likeness.facts;
  if (likeness.same_template) {
    value +=
        same_template + main_effects * likeness.main_effects + interactions * likeness.interactions;
  }
  return slope * likeness.predicted + transferred * likeness.transferred + likeness.width * value;
}

double CovarianceWeights::Variance() const {
  return constant + same_template + main_effects + interactions + shared_effects + facts;
}

}  // namespace kernelcast::forecaster
