#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_MARGINAL_LIKELIHOOD_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_MARGINAL_LIKELIHOOD_H_

#include <span>
#include <vector>

#include "services/forecaster/embedded/process_prior.h"
#include "services/forecaster/embedded/space_covariance.h"

namespace kernelcast::forecaster {

// How likely the values at some points are under different priors. Not thread-safe.
class MarginalLikelihood {
 public:
  // As many values as points.
  MarginalLikelihood(std::span<const SpacePosition> points, std::span<const double> values);

  // Computes the similarities of the points, which priors with the same lengths share.
  void Relate(const LikenessLengths& lengths);

  // Negative log marginal likelihood with the overall variance integrated out, whose inverse gamma
  // distribution has this rate and the prior's shape. Infinite if the covariance is not positive
  // definite. Requires Relate for the prior's lengths.
  double Cost(const ProcessPrior& prior, double rate);

  // Factors the covariance matrix. Returns false if it is not positive definite. Requires Relate
  // for the prior's lengths.
  [[nodiscard]] bool Factor(const ProcessPrior& prior);
  // The Cholesky factor, column-major. Only the lower triangle is meaningful.
  const std::vector<double>& factor() const { return factor_; }

  std::span<const SpacePosition> points() const { return points_; }
  const PositionTable& table() const { return table_; }  // of the points

 private:
  std::vector<SpacePosition> points_;
  std::vector<double> values_;
  PositionTable table_;
  std::vector<Likeness> likeness_;  // column-major, lower triangle
  std::vector<double> factor_;
  double half_log_determinant_ = 0;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_MARGINAL_LIKELIHOOD_H_
