#include "services/forecaster/embedded/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

namespace kernelcast::forecaster {
namespace {

// Variance of the constant term, relative to the overall variance.
constexpr double kMeanVariance = 0.5;
constexpr double kPriorShape = 1.5;
// Tunables that only one of two candidates has count as half their range apart.
constexpr float kOneSidedSquare = 0.25f;
// Facts that hardly vary among the labels are not blown up beyond this deviation.
constexpr float kFactDeviationFloor = 0.1f;
constexpr double kNoiseCentre = 0.03;
constexpr double kNoiseLogDeviation = 1.5;

// How far, in natural log, the weight of a tunable is taken to lie from one.
constexpr double kWeightLogDeviation = 1.0;
// With fewer points the tunables are not weighted one by one.
constexpr size_t kLeastPointsForWeights = 8;

// Matern covariance of smoothness 3/2 at a distance in units of the length.
double Matern(double distance) {
  const double scaled = std::numbers::sqrt3 * distance;
  return (1 + scaled) * std::exp(-scaled);
}

// Squared distance of two values of a tunable, each of which may be missing.
float SquaredDifference(float a, float b) {
  const bool a_missing = std::isnan(a);
  const bool b_missing = std::isnan(b);
  if (a_missing || b_missing) return a_missing != b_missing ? kOneSidedSquare : 0.0f;
  return (a - b) * (a - b);
}

// `matrix` is n x n, symmetric; overwritten with its factor.
bool Cholesky(std::vector<double>& matrix, size_t n, double& half_log_determinant) {
  half_log_determinant = 0;
  for (size_t i = 0; i < n; ++i) {
    double* row = &matrix[i * n];
    for (size_t j = 0; j < i; ++j) {
      const double* other = &matrix[j * n];
      double sum = row[j];
      for (size_t k = 0; k < j; ++k) sum -= row[k] * other[k];
      row[j] = sum / other[j];
    }
    double sum = row[i];
    for (size_t k = 0; k < i; ++k) sum -= row[k] * row[k];
    if (!(sum > 1e-12)) return false;
    row[i] = std::sqrt(sum);
    half_log_determinant += std::log(row[i]);
  }
  return true;
}

// Solves L x = b in place.
void ForwardSubstitute(const std::vector<double>& lower, size_t n, std::vector<double>& b) {
  for (size_t i = 0; i < n; ++i) {
    double sum = b[i];
    for (size_t k = 0; k < i; ++k) sum -= lower[i * n + k] * b[k];
    b[i] = sum / lower[i * n + i];
  }
}

}  // namespace

double GaussianProcess::Kernel::operator()(bool same, double tunable_distance,
                                           double fact_distance) const {
  double value = kMeanVariance + facts * Matern(fact_distance / facts_length);
  if (same) {
    value += same_template + within_template * Matern(tunable_distance / within_length);
  }
  if (tunables > 0) value += tunables * Matern(tunable_distance / tunables_length);
  return value;
}

double GaussianProcess::Kernel::Variance() const {
  return kMeanVariance + same_template + within_template + tunables + facts;
}

double GaussianProcess::TunableDistance(const std::vector<float>& a,
                                        const std::vector<float>& b) const {
  float sum = 0;
  for (size_t i = 0; i < tunable_weights_.size(); ++i) {
    sum += tunable_weights_[i] * SquaredDifference(a[i], b[i]);
  }
  return std::sqrt(sum);
}

double GaussianProcess::FactDistance(const std::vector<float>& a,
                                     const std::vector<float>& b) const {
  if (a.empty()) return 0;
  float sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum / active_facts_);
}

std::vector<float> GaussianProcess::ScaleFacts(const std::vector<float>& facts) const {
  std::vector<float> scaled(fact_means_.size(), 0.0f);
  if (facts.size() != fact_means_.size()) return scaled;
  for (size_t i = 0; i < facts.size(); ++i) {
    if (!std::isnan(facts[i])) scaled[i] = (facts[i] - fact_means_[i]) * fact_inverse_scales_[i];
  }
  return scaled;
}

GaussianProcess GaussianProcess::Fit(std::vector<SpacePosition> points,
                                     std::span<const double> values, double prior_scale) {
  GaussianProcess process;
  const size_t n = points.size();
  const double prior_rate =
      kPriorShape * prior_scale * prior_scale / (Kernel().Variance() + Kernel().noise);
  process.shape_ = kPriorShape;
  process.rate_ = prior_rate;
  if (n == 0) return process;

  // Facts are standardised over the points that have them.
  size_t columns = 0;
  for (const SpacePosition& point : points) columns = std::max(columns, point.facts.size());
  process.active_facts_ = 0;
  process.fact_means_.assign(columns, 0.0f);
  process.fact_inverse_scales_.assign(columns, 0.0f);
  for (size_t column = 0; column < columns; ++column) {
    double count = 0;
    double sum = 0;
    double square = 0;
    for (const SpacePosition& point : points) {
      if (point.facts.size() != columns || std::isnan(point.facts[column])) continue;
      ++count;
      sum += point.facts[column];
      square += static_cast<double>(point.facts[column]) * point.facts[column];
    }
    if (count == 0) continue;
    const double mean = sum / count;
    const double variance = std::max(0.0, square / count - mean * mean);
    process.fact_means_[column] = static_cast<float>(mean);
    if (variance < 1e-10) continue;
    process.active_facts_ += 1;
    process.fact_inverse_scales_[column] =
        static_cast<float>(1 / std::sqrt(variance + kFactDeviationFloor * kFactDeviationFloor));
  }
  process.active_facts_ = std::max(process.active_facts_, 1.0f);
  for (SpacePosition& point : points) point.facts = process.ScaleFacts(point.facts);

  const size_t tunables = points[0].tunables.size();
  process.tunable_weights_.assign(tunables, 1.0f);
  std::vector<double> tunable_distances(n * n);
  std::vector<double> fact_distances(n * n);
  std::vector<char> same(n * n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      tunable_distances[i * n + j] =
          process.TunableDistance(points[i].tunables, points[j].tunables);
      fact_distances[i * n + j] = process.FactDistance(points[i].facts, points[j].facts);
      same[i * n + j] = points[i].template_index == points[j].template_index ? 1 : 0;
    }
  }

  std::vector<double> matrix(n * n);
  std::vector<double> whitened(n);
  const auto fill = [&](const Kernel& kernel) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        const size_t at = i * n + j;
        matrix[at] = kernel(same[at] != 0, tunable_distances[at], fact_distances[at]);
      }
      matrix[i * n + i] += kernel.noise;
    }
  };
  // Negative log marginal likelihood with the overall variance integrated out, and a weak prior on
  // the noise.
  const auto cost = [&](const Kernel& kernel) {
    fill(kernel);
    double half_log_determinant = 0;
    if (!Cholesky(matrix, n, half_log_determinant)) {
      return std::numeric_limits<double>::infinity();
    }
    whitened.assign(values.begin(), values.end());
    ForwardSubstitute(matrix, n, whitened);
    double square = 0;
    for (const double value : whitened) square += value * value;
    const double noise = std::log(kernel.noise / kNoiseCentre) / kNoiseLogDeviation;
    return half_log_determinant +
           (kPriorShape + 0.5 * static_cast<double>(n)) * std::log(prior_rate + 0.5 * square) +
           0.5 * noise * noise;
  };

  struct Axis {
    double Kernel::*field;
    std::vector<double> values;
  };
  static const std::vector<Axis>& kAxes = *new std::vector<Axis>{
      {&Kernel::same_template, {0.05, 0.2, 0.5, 1}},
      {&Kernel::within_template, {0.1, 0.3, 1}},
      {&Kernel::within_length, {0.5, 1, 2, 4}},
      {&Kernel::tunables, {0, 0.1, 0.3}},
      {&Kernel::tunables_length, {1, 3}},
      {&Kernel::facts, {0, 0.1, 0.3, 1}},
      {&Kernel::facts_length, {0.3, 1, 3}},
      {&Kernel::noise, {0.003, 0.01, 0.03, 0.1}},
  };
  constexpr int kSweeps = 3;
  Kernel best;
  double best_cost = cost(best);
  if (n >= 2) {
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      bool changed = false;
      for (const Axis& axis : kAxes) {
        for (const double value : axis.values) {
          if (value == best.*axis.field) continue;
          Kernel trial = best;
          trial.*axis.field = value;
          const double trial_cost = cost(trial);
          if (trial_cost < best_cost - 1e-9) {
            best_cost = trial_cost;
            best = trial;
            changed = true;
          }
        }
      }
      if (!changed) break;
    }
  }

  // Then how much each tunable matters, one after the other, with a price for being different.
  if (n >= kLeastPointsForWeights) {
    const auto price = [](float weight) {
      const double deviation = std::log(static_cast<double>(weight)) / kWeightLogDeviation;
      return 0.5 * deviation * deviation;
    };
    double prices = 0;  // part of best_cost
    std::vector<double> others(n * n);
    for (size_t column = 0; column < tunables; ++column) {
      float& weight = process.tunable_weights_[column];
      bool varies = false;
      for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j <= i; ++j) {
          const float square =
              SquaredDifference(points[i].tunables[column], points[j].tunables[column]);
          varies = varies || square > 0;
          const double distance = tunable_distances[i * n + j];
          others[i * n + j] = std::max(0.0, distance * distance - weight * square);
        }
      }
      if (!varies) continue;
      const auto apply = [&](float value) {
        for (size_t i = 0; i < n; ++i) {
          for (size_t j = 0; j <= i; ++j) {
            tunable_distances[i * n + j] = std::sqrt(
                others[i * n + j] +
                value * SquaredDifference(points[i].tunables[column], points[j].tunables[column]));
          }
        }
      };
      for (const float value : {0.1f, 0.33f, 3.0f, 9.0f}) {
        apply(value);
        const double trial_prices = prices - price(weight) + price(value);
        const double trial_cost = cost(best) + trial_prices;
        if (trial_cost < best_cost - 1e-9) {
          best_cost = trial_cost;
          prices = trial_prices;
          weight = value;
        }
      }
      apply(weight);
    }
  }

  process.kernel_ = best;
  fill(best);
  double half_log_determinant = 0;
  if (!Cholesky(matrix, n, half_log_determinant)) return process;  // as good as no points
  std::vector<double> inverse(n * n, 0.0);
  std::vector<double> column(n);
  for (size_t j = 0; j < n; ++j) {
    std::fill(column.begin(), column.end(), 0.0);
    column[j] = 1;
    for (size_t i = j; i < n; ++i) {
      double sum = column[i];
      for (size_t k = j; k < i; ++k) sum -= matrix[i * n + k] * column[k];
      column[i] = sum / matrix[i * n + i];
      inverse[i * n + j] = column[i];
    }
  }
  // K^-1 = L^-T L^-1.
  whitened.assign(n, 0.0);
  double square = 0;
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k <= i; ++k) whitened[i] += inverse[i * n + k] * values[k];
    square += whitened[i] * whitened[i];
  }
  process.alpha_.assign(n, 0.0);
  std::vector<double> precision(n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k <= i; ++k) {
      process.alpha_[k] += inverse[i * n + k] * whitened[i];
      precision[k] += inverse[i * n + k] * inverse[i * n + k];
    }
  }
  process.shape_ = kPriorShape + 0.5 * static_cast<double>(n);
  process.rate_ = prior_rate + 0.5 * square;
  process.leave_one_out_.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    // Taking the point out takes its share out of the sum of squares as well.
    const double rest =
        std::max(0.0, square - process.alpha_[i] * process.alpha_[i] / precision[i]);
    const double shape = process.shape_ - 0.5;
    StudentT& out = process.leave_one_out_.emplace_back();
    out.location = values[i] - process.alpha_[i] / precision[i];
    out.scale = std::sqrt((prior_rate + 0.5 * rest) / shape / precision[i]);
    out.degrees_of_freedom = 2 * shape;
  }
  process.points_ = std::move(points);
  process.inverse_factor_ = std::move(inverse);
  return process;
}

StudentT GaussianProcess::Predict(const SpacePosition& point) const {
  const size_t n = points_.size();
  const std::vector<float> facts = ScaleFacts(point.facts);
  StudentT out;
  double explained = 0;
  if (n > 0) {
    std::vector<double> covariance(n);
    for (size_t i = 0; i < n; ++i) {
      covariance[i] = kernel_(points_[i].template_index == point.template_index,
                              TunableDistance(points_[i].tunables, point.tunables),
                              FactDistance(points_[i].facts, facts));
      out.location += covariance[i] * alpha_[i];
    }
    for (size_t i = 0; i < n; ++i) {
      const double* row = &inverse_factor_[i * n];
      double sum = 0;
      for (size_t k = 0; k <= i; ++k) sum += row[k] * covariance[k];
      explained += sum * sum;
    }
  }
  const double variance =
      std::max(kernel_.Variance() + kernel_.noise - explained, 0.5 * kernel_.noise);
  out.scale = std::sqrt(variance * rate_ / shape_);
  out.degrees_of_freedom = 2 * shape_;
  return out;
}

}  // namespace kernelcast::forecaster
