#include "services/forecaster/embedded/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "services/forecaster/embedded/cholesky.h"
#include "services/forecaster/embedded/yield.h"

namespace kernelcast::forecaster {
namespace {

// Prior standard deviation, in natural log, of weights and lengths around their defaults.
constexpr double kLogDeviation = 0.7;
constexpr double kNoiseLogDeviation = 1.5;
constexpr double kTunableLogDeviation = 1.0;
// With fewer points the noise, the kinds of similarity and single tunables keep their defaults.
constexpr size_t kLeastPointsForNoise = 6;
constexpr size_t kLeastPointsToAdapt = 24;
constexpr size_t kLeastPointsForTunables = 32;
constexpr int kSweeps = 2;
// The weights of the kinds of similarity are assumed. This matters most with few labels, so the
// variance is increased by this share at this many points.
constexpr double kAssumedShare = 0.65;
constexpr double kAssumedPoints = 12;

}  // namespace

// Computes the cost of kernels for one set of points; similarities are computed once.
class GaussianProcess::Fitter {
 public:
  Fitter(std::span<const SpacePosition> points, const PositionTable& table,
         std::span<const double> values, const ProcessPrior& prior)
      : points_(points),
        table_(table),
        values_(values),
        shape_(prior.shape),
        rate_(prior.rate()),
        likeness_(points.size() * points.size()),
        matrix_(points.size() * points.size()) {}

  void Relate(const LikenessLengths& lengths) {
    const size_t n = points_.size();
    for (size_t i = 0; i < n; ++i) {
      table_.Compare(points_[i], lengths, PositionTable::Facts::kCompared,
                     std::span(likeness_).subspan(i * n + i, n - i));
    }
  }

  // Factors the covariance matrix. Returns false if it is not positive definite.
  bool Factor(const ProcessPrior& kernel) {
    const size_t n = points_.size();
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = i; j < n; ++j) matrix_[i * n + j] = kernel.weights(likeness_[i * n + j]);
      matrix_[i * n + i] += kernel.noise;
    }
    return Cholesky(matrix_, n, half_log_determinant_);
  }
  std::vector<double>& matrix() { return matrix_; }

  // Negative log marginal likelihood with the overall variance integrated out. Requires Relate for
  // the kernel's lengths.
  double Cost(const ProcessPrior& kernel) {
    if (!Factor(kernel)) return std::numeric_limits<double>::infinity();
    whitened_.assign(values_.begin(), values_.end());
    ForwardSubstitute(matrix_, points_.size(), whitened_);
    double square = 0;
    for (const double value : whitened_) square += value * value;
    return half_log_determinant_ +
           (shape_ + 0.5 * static_cast<double>(points_.size())) * std::log(rate_ + 0.5 * square);
  }

  // Adapts the kernel where the gain in likelihood exceeds the prior's cost. Relate is then done
  // for the result.
  void Adapt(ProcessPrior& kernel) {
    Relate(kernel.lengths);
    const size_t n = points_.size();
    if (n < kLeastPointsForNoise) return;
    best_cost_ = Cost(kernel);
    const auto price = [](double ratio, double deviation) {
      return 0.5 * std::pow(std::log(ratio) / deviation, 2);
    };
    const ProcessPrior usual = kernel;
    const auto adapt_noise = [&] {
      for (const double ratio : {0.3, 1.0, 3.0, 10.0, 30.0, 100.0}) {
        ProcessPrior trial = kernel;
        trial.noise = usual.noise * ratio;
        Try(kernel, trial,
            price(ratio, kNoiseLogDeviation) -
                price(kernel.noise / usual.noise, kNoiseLogDeviation));
      }
    };
    adapt_noise();
    if (n < kLeastPointsToAdapt) return;
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      const double before = best_cost_;
      for (double CovarianceWeights::*field :
           {&CovarianceWeights::same_template, &CovarianceWeights::main_effects,
            &CovarianceWeights::interactions, &CovarianceWeights::shared_effects,
            &CovarianceWeights::facts}) {
        for (const double ratio : {0.1, 0.3, 1.0, 3.0, 10.0}) {
          ProcessPrior trial = kernel;
          trial.weights.*field = usual.weights.*field * ratio;
          Try(kernel, trial,
              price(ratio, kLogDeviation) -
                  price(kernel.weights.*field / (usual.weights.*field), kLogDeviation));
        }
      }
      adapt_noise();
      for (double LikenessLengths::*field : {&LikenessLengths::tunables, &LikenessLengths::facts}) {
        for (const double ratio : {0.5, 1.0, 2.0}) {
          ProcessPrior trial = kernel;
          trial.lengths.*field = usual.lengths.*field * ratio;
          if (trial.lengths.*field == kernel.lengths.*field) continue;
          Relate(trial.lengths);
          Try(kernel, trial,
              price(ratio, kLogDeviation) -
                  price(kernel.lengths.*field / (usual.lengths.*field), kLogDeviation));
        }
        Relate(kernel.lengths);
      }
      if (best_cost_ > before - 1e-9) break;
    }
    if (n < kLeastPointsForTunables) return;
    const size_t tunables = points_[0].tunables.size();
    kernel.lengths.weights.assign(tunables, 1.0f);
    for (size_t column = 0; column < tunables; ++column) {
      if (!Varies(column)) continue;
      for (const float weight : {0.1f, 0.33f, 3.0f, 9.0f}) {
        ProcessPrior trial = kernel;
        trial.lengths.weights[column] = weight;
        Relate(trial.lengths);
        Try(kernel, trial,
            price(weight, kTunableLogDeviation) -
                price(kernel.lengths.weights[column], kTunableLogDeviation));
      }
    }
    Relate(kernel.lengths);
  }

 private:
  void Try(ProcessPrior& kernel, const ProcessPrior& trial, double further) {
    Yield();
    const double cost = Cost(trial) + prices_ + further;
    if (cost >= best_cost_ - 1e-9) return;
    best_cost_ = cost;
    prices_ += further;
    kernel = trial;
  }

  bool Varies(size_t column) const {
    std::optional<float> known;
    for (const SpacePosition& point : points_) {
      const float value = point.tunables[column];
      if (std::isnan(value)) continue;
      if (known.has_value() && *known != value) return true;
      known = value;
    }
    return false;
  }

  const std::span<const SpacePosition> points_;
  const PositionTable& table_;  // of the points
  const std::span<const double> values_;
  const double shape_;
  const double rate_;
  std::vector<Likeness> likeness_;
  std::vector<double> matrix_;
  std::vector<double> whitened_;
  double half_log_determinant_ = 0;
  double best_cost_ = 0;
  double prices_ = 0;  // included in best_cost_
};

GaussianProcess GaussianProcess::Fit(std::span<const SpacePosition> points,
                                     std::span<const double> values, const ProcessPrior& prior) {
  GaussianProcess process;
  process.kernel_ = prior;
  const size_t n = points.size();
  process.shape_ = prior.shape;
  process.rate_ = prior.rate();
  if (n == 0) return process;

  PositionTable table(points);
  Fitter fitter(points, table, values, prior);
  fitter.Adapt(process.kernel_);
  if (!fitter.Factor(process.kernel_)) return process;  // same as without points
  const std::vector<double>& matrix = fitter.matrix();
  std::vector<double> inverse(n * n, 0.0);
  for (size_t j = 0; j < n; ++j) {
    Yield();
    inverse[j * n + j] = 1;
    ForwardSubstitute(matrix, n, std::span(inverse).subspan(j * n, n));
  }
  // K^-1 = L^-T L^-1.
  std::vector<double> whitened(n, 0.0);
  double square = 0;
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k <= i; ++k) whitened[i] += inverse[k * n + i] * values[k];
    square += whitened[i] * whitened[i];
  }
  process.alpha_.assign(n, 0.0);
  std::vector<double> precision(n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k <= i; ++k) {
      process.alpha_[k] += inverse[k * n + i] * whitened[i];
      precision[k] += inverse[k * n + i] * inverse[k * n + i];
    }
  }
  process.shape_ = prior.shape + 0.5 * static_cast<double>(n);
  process.rate_ = prior.rate() + 0.5 * square;
  for (size_t i = 0; i < n; ++i) {
    process.slope_ += process.kernel_.weights.slope * process.alpha_[i] * points[i].predicted;
    process.taught_share_ += process.kernel_.weights.taught * process.alpha_[i] * points[i].taught;
  }
  process.leave_one_out_.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    // Removing the point also removes its part of the sum of squares.
    const double rest =
        std::max(0.0, square - process.alpha_[i] * process.alpha_[i] / precision[i]);
    const double shape = process.shape_ - 0.5;
    StudentT& out = process.leave_one_out_.emplace_back();
    out.location = values[i] - process.alpha_[i] / precision[i];
    out.scale = std::sqrt((prior.rate() + 0.5 * rest) / shape / precision[i]);
    out.degrees_of_freedom = 2 * shape;
  }
  process.points_ = std::move(table);
  process.inverse_factor_ = std::move(inverse);
  return process;
}

StudentT GaussianProcess::Predict(const SpacePosition& point) const {
  const size_t n = points_.size();
  StudentT out;
  std::vector<Likeness> likeness(n);
  points_.Compare(point, kernel_.lengths, PositionTable::Facts::kCompared, likeness);
  std::vector<double> whitened(n, 0.0);
  for (size_t k = 0; k < n; ++k) {
    const double covariance = kernel_.weights(likeness[k]);
    out.location += covariance * alpha_[k];
    const double* const column = &inverse_factor_[k * n];
    for (size_t i = k; i < n; ++i) whitened[i] += column[i] * covariance;
  }
  double explained = 0;
  for (const double value : whitened) explained += value * value;
  const double before = kernel_.weights.Variance() +
                        kernel_.weights.slope * point.predicted * point.predicted +
                        kernel_.weights.taught * point.taught * point.taught + kernel_.noise;
  const double variance = std::max(before - explained, 0.5 * kernel_.noise);
  const double points = static_cast<double>(n) / kAssumedPoints;
  const double assumed = 1 + kAssumedShare * 4 * points / ((1 + points) * (1 + points));
  out.scale = std::sqrt(assumed * variance * rate_ / shape_);
  out.degrees_of_freedom = 2 * shape_;
  return out;
}

}  // namespace kernelcast::forecaster
