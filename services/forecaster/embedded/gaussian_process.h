#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_GAUSSIAN_PROCESS_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_GAUSSIAN_PROCESS_H_

#include <span>
#include <vector>

#include "services/forecaster/core/predictive.h"
#include "services/forecaster/embedded/space_covariance.h"

namespace kernelcast::forecaster {

// Regression by similarity: same template, like tunables one by one and all at once, like compile
// facts. Exact Gaussian process with an inverse-gamma prior on the overall scale, so that
// predictions are Student-t and as wide as kPrior (in units of `prior_scale`) where nothing is
// known. How much each kind of likeness and each tunable counts starts from what is usual among
// kernels, and moves from it only as far as the marginal likelihood pays for, on a coarse grid.
// Immutable; thread-safe.
class GaussianProcess {
 public:
  // Training costs the cube and predicting the square of the number of points.
  static constexpr size_t kMaxPoints = 200;

  // What is regressed, which says what is usual: log2 speedups or what compile facts leave of them,
  // or how far simulations are off.
  enum class Values { kSpeedups, kErrorsOfSimulation };

  // At most kMaxPoints points, as many values. Deterministic.
  static GaussianProcess Fit(std::span<const SpacePosition> points, std::span<const double> values,
                             double prior_scale, Values of = Values::kSpeedups);

  StudentT Predict(const SpacePosition& point) const;

  // For each point, what the others predict for it.
  const std::vector<StudentT>& LeaveOneOut() const { return leave_one_out_; }

 private:
  struct Kernel {
    CovarianceWeights weights;
    LikenessLengths lengths;
    double noise = 0;  // variance, relative like the weights
  };
  class Fitter;

  static Kernel UsualKernel(Values values);

  Kernel kernel_;
  PositionTable points_;
  std::vector<double> inverse_factor_;  // of the Cholesky factor, column-major lower triangle
  std::vector<double> alpha_;
  double shape_ = 1.5;
  double rate_ = 1.5;
  std::vector<StudentT> leave_one_out_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_GAUSSIAN_PROCESS_H_
