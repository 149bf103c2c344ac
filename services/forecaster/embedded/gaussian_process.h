#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_GAUSSIAN_PROCESS_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_GAUSSIAN_PROCESS_H_

#include <span>
#include <vector>

#include "services/forecaster/core/predictive.h"
#include "services/forecaster/embedded/process_prior.h"
#include "services/forecaster/embedded/space_covariance.h"

namespace kernelcast::forecaster {

// Gaussian process regression by similarity: same template, similar tunables individually and
// jointly, similar compile facts, and a part common to all candidates. Exact, with an inverse-gamma
// prior on the overall scale, so that predictions are Student-t and as wide as the prior where
// nothing is known. The weight of each kind of similarity and of each tunable starts at the prior
// and moves, on a coarse grid, only as far as the marginal likelihood justifies. Immutable and
// thread-safe.
class GaussianProcess {
 public:
  // Training takes cubic and predicting quadratic time in the number of points.
  static constexpr size_t kMaxPoints = 200;

  // Needs at most kMaxPoints points and equally many values. Deterministic.
  static GaussianProcess Fit(std::span<const SpacePosition> points, std::span<const double> values,
                             const ProcessPrior& prior);

  StudentT Predict(const SpacePosition& point) const;

  // The change, from the points, of the slope on the predicted values of candidates.
  double slope() const { return slope_; }
  // The same for the share transferred by the labels of another device model.
  double transferred_share() const { return transferred_share_; }

  // Negative log marginal likelihood of the values, under the adapted weights.
  double cost() const { return cost_; }

  // Leave-one-out prediction for each point.
  const std::vector<StudentT>& LeaveOneOut() const { return leave_one_out_; }

 private:
  ProcessPrior kernel_;  // the prior, adapted
  double cost_ = 0;
  double slope_ = 0;
  double transferred_share_ = 0;
  PositionTable points_;
  // Inverse of the Cholesky factor, column-major lower triangle.
  std::vector<double> inverse_factor_;
  std::vector<double> alpha_;
  double shape_ = 1.5;
  double rate_ = 1.5;
  std::vector<StudentT> leave_one_out_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_GAUSSIAN_PROCESS_H_
