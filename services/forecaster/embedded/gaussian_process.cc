#include "services/forecaster/embedded/gaussian_process.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "services/forecaster/embedded/marginal_likelihood.h"
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

// Adapts a kernel to the points.
class Adaptation {
 public:
  Adaptation(MarginalLikelihood& likelihood, double rate) : likelihood_(likelihood), rate_(rate) {}

  // Adapts the kernel where the gain in likelihood exceeds the prior's cost. The likelihood is then
  // related for the result.
  void Adapt(ProcessPrior& kernel) {
    likelihood_.Relate(kernel.lengths);
    const size_t n = likelihood_.points().size();
    if (n < kLeastPointsForNoise) return;
    best_cost_ = likelihood_.Cost(kernel, rate_);
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
          likelihood_.Relate(trial.lengths);
          Try(kernel, trial,
              price(ratio, kLogDeviation) -
                  price(kernel.lengths.*field / (usual.lengths.*field), kLogDeviation));
        }
        likelihood_.Relate(kernel.lengths);
      }
      if (best_cost_ > before - 1e-9) break;
    }
    if (n < kLeastPointsForTunables) return;
    const size_t tunables = likelihood_.points()[0].tunables.size();
    kernel.lengths.weights.assign(tunables, 1.0f);
    for (size_t column = 0; column < tunables; ++column) {
      if (!Varies(column)) continue;
      for (const float weight : {0.1f, 0.33f, 3.0f, 9.0f}) {
        ProcessPrior trial = kernel;
        trial.lengths.weights[column] = weight;
        likelihood_.Relate(trial.lengths);
        Try(kernel, trial,
            price(weight, kTunableLogDeviation) -
                price(kernel.lengths.weights[column], kTunableLogDeviation));
      }
    }
    likelihood_.Relate(kernel.lengths);
  }

 private:
  void Try(ProcessPrior& kernel, const ProcessPrior& trial, double further) {
    Yield();
    const double cost = likelihood_.Cost(trial, rate_) + prices_ + further;
    if (cost >= best_cost_ - 1e-9) return;
    best_cost_ = cost;
    prices_ += further;
    kernel = trial;
  }

  bool Varies(size_t column) const {
    std::optional<float> known;
    for (const SpacePosition& point : likelihood_.points()) {
      const float value = point.tunables[column];
      if (std::isnan(value)) continue;
      if (known.has_value() && *known != value) return true;
      known = value;
    }
    return false;
  }

  MarginalLikelihood& likelihood_;
  const double rate_;
  double best_cost_ = 0;
  double prices_ = 0;  // included in best_cost_
};

Eigen::Map<const Eigen::MatrixXd> Square(const std::vector<double>& columns, size_t n) {
  return {columns.data(), static_cast<Eigen::Index>(n), static_cast<Eigen::Index>(n)};
}

Eigen::Map<const Eigen::VectorXd> Vector(std::span<const double> values) {
  return {values.data(), static_cast<Eigen::Index>(values.size())};
}

}  // namespace

GaussianProcess GaussianProcess::Fit(std::span<const SpacePosition> points,
                                     std::span<const double> values, const ProcessPrior& prior) {
  GaussianProcess process;
  process.kernel_ = prior;
  const size_t n = points.size();
  process.shape_ = prior.shape;
  process.rate_ = prior.rate();
  if (n == 0) return process;

  MarginalLikelihood likelihood(points, values);
  Adaptation(likelihood, prior.rate()).Adapt(process.kernel_);
  process.cost_ = likelihood.Cost(process.kernel_, prior.rate());
  if (!std::isfinite(process.cost_)) return process;  // same as without points
  Yield();
  const auto size = static_cast<Eigen::Index>(n);
  const Eigen::MatrixXd inverse = Square(likelihood.factor(), n)
                                      .triangularView<Eigen::Lower>()
                                      .solve(Eigen::MatrixXd::Identity(size, size));
  // K^-1 = L^-T L^-1.
  const Eigen::VectorXd whitened = inverse * Vector(values);
  const Eigen::VectorXd alpha = inverse.transpose() * whitened;
  const Eigen::RowVectorXd precision = inverse.colwise().squaredNorm();
  const double square = whitened.squaredNorm();
  process.alpha_.assign(alpha.begin(), alpha.end());
  process.inverse_factor_.assign(inverse.data(), inverse.data() + inverse.size());
  process.shape_ = prior.shape + 0.5 * static_cast<double>(n);
  process.rate_ = prior.rate() + 0.5 * square;
  for (size_t i = 0; i < n; ++i) {
    process.slope_ += process.kernel_.weights.slope * process.alpha_[i] * points[i].predicted;
    process.transferred_share_ +=
        process.kernel_.weights.transferred * process.alpha_[i] * points[i].transferred;
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
  process.points_ = likelihood.table();
  return process;
}

StudentT GaussianProcess::Predict(const SpacePosition& point) const {
  const size_t n = points_.size();
  StudentT out;
  std::vector<Likeness> likeness(n);
  points_.Compare(point, kernel_.lengths, PositionTable::Facts::kCompared, likeness);
  Eigen::VectorXd covariance(static_cast<Eigen::Index>(n));
  std::ranges::transform(likeness, covariance.begin(), kernel_.weights);
  out.location = covariance.dot(Vector(alpha_));
  const double explained =
      (Square(inverse_factor_, n).triangularView<Eigen::Lower>() * covariance).squaredNorm();
  const double growth = point.width * point.width;
  const double before = growth * (kernel_.weights.Variance() + kernel_.noise) +
                        kernel_.weights.slope * point.predicted * point.predicted +
                        kernel_.weights.transferred * point.transferred * point.transferred;
  const double variance = std::max(before - explained, 0.5 * growth * kernel_.noise);
  const double points = static_cast<double>(n) / kAssumedPoints;
  const double assumed = 1 + kAssumedShare * 4 * points / ((1 + points) * (1 + points));
  out.scale = std::sqrt(assumed * variance * rate_ / shape_);
  out.degrees_of_freedom = 2 * shape_;
  return out;
}

}  // namespace kernelcast::forecaster
