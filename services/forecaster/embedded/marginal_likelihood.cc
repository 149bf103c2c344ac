#include "services/forecaster/embedded/marginal_likelihood.h"

#include <Eigen/Cholesky>
#include <cmath>
#include <limits>

namespace kernelcast::forecaster {

MarginalLikelihood::MarginalLikelihood(std::span<const SpacePosition> points,
                                       std::span<const double> values)
    : points_(points.begin(), points.end()),
      values_(values.begin(), values.end()),
      table_(points_),
      likeness_(points.size() * points.size()),
      factor_(points.size() * points.size()) {}

void MarginalLikelihood::Relate(const LikenessLengths& lengths) {
  const size_t n = points_.size();
  for (size_t i = 0; i < n; ++i) {
    table_.Compare(points_[i], lengths, PositionTable::Facts::kCompared,
                   std::span(likeness_).subspan(i * n + i, n - i));
  }
}

bool MarginalLikelihood::Factor(const ProcessPrior& prior) {
  const size_t n = points_.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i; j < n; ++j) factor_[i * n + j] = prior.weights(likeness_[i * n + j]);
    factor_[i * n + i] += prior.noise * points_[i].width * points_[i].width;
  }
  const auto size = static_cast<Eigen::Index>(n);
  Eigen::Map<Eigen::MatrixXd> matrix(factor_.data(), size, size);
  const Eigen::LLT<Eigen::Ref<Eigen::MatrixXd>> in_place(matrix);
  half_log_determinant_ = matrix.diagonal().array().log().sum();
  return in_place.info() == Eigen::Success && std::isfinite(half_log_determinant_);
}

double MarginalLikelihood::Cost(const ProcessPrior& prior, double rate) {
  if (!Factor(prior)) return std::numeric_limits<double>::infinity();
  const auto n = static_cast<Eigen::Index>(points_.size());
  const Eigen::Map<const Eigen::MatrixXd> lower(factor_.data(), n, n);
  const Eigen::Map<const Eigen::VectorXd> values(values_.data(), n);
  const double square = lower.triangularView<Eigen::Lower>().solve(values).squaredNorm();
  const double shape = prior.shape;
  const double more = shape + 0.5 * static_cast<double>(n);
  return half_log_determinant_ + more * std::log(rate + 0.5 * square) - shape * std::log(rate) -
         std::lgamma(more) + std::lgamma(shape);
}

}  // namespace kernelcast::forecaster
