#include "services/forecaster/embedded/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "services/forecaster/embedded/cholesky.h"
#include "services/forecaster/embedded/give_way.h"

namespace kernelcast::forecaster {
namespace {

constexpr double kPriorShape = 1.5;

// How far, in natural log, weights and lengths are taken to lie from the usual.
constexpr double kLogDeviation = 0.7;
constexpr double kNoiseLogDeviation = 1.5;
constexpr double kTunableLogDeviation = 1.0;
// With fewer points the noise, the kinds of likeness and single tunables stay as usual.
constexpr size_t kLeastPointsForNoise = 6;
constexpr size_t kLeastPointsToAdapt = 24;
constexpr size_t kLeastPointsForTunables = 32;
constexpr int kSweeps = 2;
// What kinds of likeness count is assumed, not known, which is felt most where there are labels,
// but too few to tell: this much is added to the variance, in shares of it, at so many points.
constexpr double kAssumedShare = 0.65;
constexpr double kAssumedPoints = 12;

}  // namespace

// The cost of kernels for one set of points, with what they have in common worked out once.
class GaussianProcess::Fitter {
 public:
  Fitter(std::span<const SpacePosition> points, const PositionTable& table,
         std::span<const double> values, double prior_rate)
      : points_(points),
        table_(table),
        values_(values),
        prior_rate_(prior_rate),
        likeness_(points.size() * points.size()),
        matrix_(points.size() * points.size()) {}

  void Relate(const LikenessLengths& lengths) {
    const size_t n = points_.size();
    for (size_t i = 0; i < n; ++i) {
      table_.Compare(points_[i], lengths, PositionTable::Facts::kCompared,
                     std::span(likeness_).subspan(i * n + i, n - i));
    }
  }

  // The factor of the covariance matrix; false if it has none.
  bool Factor(const Kernel& kernel) {
    const size_t n = points_.size();
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = i; j < n; ++j) matrix_[i * n + j] = kernel.weights(likeness_[i * n + j]);
      matrix_[i * n + i] += kernel.noise;
    }
    return Cholesky(matrix_, n, half_log_determinant_);
  }
  std::vector<double>& matrix() { return matrix_; }

  // Negative log marginal likelihood with the overall variance integrated out. Needs Relate for the
  // kernel's lengths.
  double Cost(const Kernel& kernel) {
    if (!Factor(kernel)) return std::numeric_limits<double>::infinity();
    whitened_.assign(values_.begin(), values_.end());
    ForwardSubstitute(matrix_, points_.size(), whitened_);
    double square = 0;
    for (const double value : whitened_) square += value * value;
    return half_log_determinant_ + (kPriorShape + 0.5 * static_cast<double>(points_.size())) *
                                       std::log(prior_rate_ + 0.5 * square);
  }

  // Moves the kernel where the likelihood gains more than the distance costs. Leaves Relate done
  // for it.
  void Adapt(Kernel& kernel) {
    Relate(kernel.lengths);
    const size_t n = points_.size();
    if (n < kLeastPointsForNoise) return;
    best_cost_ = Cost(kernel);
    const auto price = [](double ratio, double deviation) {
      return 0.5 * std::pow(std::log(ratio) / deviation, 2);
    };
    const Kernel usual = kernel;
    const auto adapt_noise = [&] {
      for (const double ratio : {0.3, 1.0, 3.0, 10.0, 30.0, 100.0}) {
        Kernel trial = kernel;
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
          Kernel trial = kernel;
          trial.weights.*field = usual.weights.*field * ratio;
          Try(kernel, trial,
              price(ratio, kLogDeviation) -
                  price(kernel.weights.*field / (usual.weights.*field), kLogDeviation));
        }
      }
      adapt_noise();
      for (double LikenessLengths::*field : {&LikenessLengths::tunables, &LikenessLengths::facts}) {
        for (const double ratio : {0.5, 1.0, 2.0}) {
          Kernel trial = kernel;
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
        Kernel trial = kernel;
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
  void Try(Kernel& kernel, const Kernel& trial, double further) {
    GiveWay();
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
  const double prior_rate_;
  std::vector<Likeness> likeness_;
  std::vector<double> matrix_;
  std::vector<double> whitened_;
  double half_log_determinant_ = 0;
  double best_cost_ = 0;
  double prices_ = 0;  // part of best_cost_
};

GaussianProcess::Kernel GaussianProcess::UsualKernel(Values values) {
  Kernel kernel;
  kernel.weights = {.constant = 0.5,
                    .same_template = 0.4,
                    .main_effects = 0.3,
                    .interactions = 0.15,
                    .shared_effects = 0.2,
                    .facts = 0.15};
  kernel.noise = 0.01;
  if (values == Values::kErrorsOfSimulation) {
    // Tunables matter less once what they do has been simulated, and what looks alike to the
    // virtual GPU is misjudged alike.
    kernel.weights = {.constant = 0.5,
                      .same_template = 0.4,
                      .main_effects = 0.2,
                      .interactions = 0.2,
                      .shared_effects = 0.1,
                      .facts = 0.4};
    kernel.noise = 0.03;
  }
  return kernel;
}

GaussianProcess GaussianProcess::Fit(std::span<const SpacePosition> points,
                                     std::span<const double> values, double prior_scale,
                                     Values of) {
  GaussianProcess process;
  process.kernel_ = UsualKernel(of);
  const size_t n = points.size();
  const double prior_rate = kPriorShape * prior_scale * prior_scale /
                            (process.kernel_.weights.Variance() + process.kernel_.noise);
  process.shape_ = kPriorShape;
  process.rate_ = prior_rate;
  if (n == 0) return process;

  PositionTable table(points);
  Fitter fitter(points, table, values, prior_rate);
  fitter.Adapt(process.kernel_);
  if (!fitter.Factor(process.kernel_)) return process;  // as good as no points
  const std::vector<double>& matrix = fitter.matrix();
  std::vector<double> inverse(n * n, 0.0);
  for (size_t j = 0; j < n; ++j) {
    GiveWay();
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
  const double variance =
      std::max(kernel_.weights.Variance() + kernel_.noise - explained, 0.5 * kernel_.noise);
  const double points = static_cast<double>(n) / kAssumedPoints;
  const double assumed = 1 + kAssumedShare * 4 * points / ((1 + points) * (1 + points));
  out.scale = std::sqrt(assumed * variance * rate_ / shape_);
  out.degrees_of_freedom = 2 * shape_;
  return out;
}

}  // namespace kernelcast::forecaster
