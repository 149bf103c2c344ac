#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_GAUSSIAN_PROCESS_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_GAUSSIAN_PROCESS_H_

#include <span>
#include <vector>

#include "services/forecaster/core/predictive.h"

namespace kernelcast::forecaster {

// Where a candidate lies within one problem's space. Tunables without the template's own columns,
// each divided by its range; NaN where a template has no such tunable. Facts are scaled logarithms,
// NaN or none at all where unknown.
struct SpacePosition {
  int template_index = -1;
  std::vector<float> tunables;
  std::vector<float> facts;
};

// Regression by similarity: same template, near tunables, near compile facts. Exact Gaussian
// process with an inverse-gamma prior on the overall scale, so that predictions are Student-t and
// as wide as kPrior (in units of `prior_scale`) where nothing is known. The relative weights and
// length scales of the terms, and how much each tunable matters, are those of highest marginal
// likelihood on a coarse grid. Immutable; thread-safe.
class GaussianProcess {
 public:
  // Training costs the cube and predicting the square of the number of points.
  static constexpr size_t kMaxPoints = 200;

  // At most kMaxPoints points, as many values. Deterministic.
  static GaussianProcess Fit(std::vector<SpacePosition> points, std::span<const double> values,
                             double prior_scale);

  StudentT Predict(const SpacePosition& point) const;

  // For each point, what the others predict for it.
  const std::vector<StudentT>& LeaveOneOut() const { return leave_one_out_; }

 private:
  // Relative to the overall variance.
  struct Kernel {
    double same_template = 0.5;
    double within_template = 0.3;
    double within_length = 1;
    double tunables = 0.1;
    double tunables_length = 1;
    double facts = 0.3;
    double facts_length = 1;
    double noise = 0.03;

    double operator()(bool same, double tunable_distance, double fact_distance) const;
    double Variance() const;
  };

  std::vector<float> ScaleFacts(const std::vector<float>& facts) const;
  double TunableDistance(const std::vector<float>& a, const std::vector<float>& b) const;
  double FactDistance(const std::vector<float>& a, const std::vector<float>& b) const;

  Kernel kernel_;
  std::vector<SpacePosition> points_;  // facts standardised
  std::vector<float> tunable_weights_;
  std::vector<float> fact_means_;
  std::vector<float> fact_inverse_scales_;
  float active_facts_ = 1;              // facts that vary among the points
  std::vector<double> inverse_factor_;  // inverse of the Cholesky factor, row-major lower triangle
  std::vector<double> alpha_;
  double shape_ = 1.5;
  double rate_ = 1.5;
  std::vector<StudentT> leave_one_out_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_GAUSSIAN_PROCESS_H_
