#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PROCESS_PRIOR_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PROCESS_PRIOR_H_

#include <cmath>
#include <span>
#include <vector>

#include "services/forecaster/embedded/space_covariance.h"

namespace kernelcast::forecaster {

// Prior of a Gaussian process for a problem without labels: the parts of the error that are common
// to all candidates (constant, slope), to candidates of the same template, to similar tunables and
// facts, and the rest (noise). All are relative to each other; `scale` sets their size in log2
// speedup.
struct ProcessPrior {
  CovarianceWeights weights;
  LikenessLengths lengths;
  double noise = 0;  // a variance, relative like the weights
  // A candidate that is forecast to be as fast as the reference has a Student-t prediction with
  // this scale and twice `shape` degrees of freedom.
  double scale = 1;
  double shape = 1.5;
  // Growth of the width with the novelty of a candidate.
  double novelty = 0;

  // Width of the errors at this novelty, relative to those at novelty 0.
  double Width(double candidate_novelty) const {
    return std::hypot(1.0, novelty * candidate_novelty);
  }
  // Rate of the inverse gamma distribution of the overall variance.
  double rate() const { return shape * scale * scale / (weights.Variance() + noise); }
};

// Regressed values: log2 speedups, or the part not explained by compile facts; or errors of
// simulations.
enum class RegressedValues { kSpeedups, kErrorsOfSimulation };

// Default prior, with the degrees of freedom of kPrior.
ProcessPrior UsualProcessPrior(RegressedValues of, double scale);

// Errors on one problem of a model that was not trained on its family.
struct ProblemErrors {
  std::vector<SpacePosition> positions;  // their widths are not used
  std::vector<double> errors;
  std::vector<double> novelties;  // empty: all 0
};

// Empirical Bayes. The width of forecasts before a problem has labels (scale, slope, novelty)
// maximises the likelihood of each error of all problems separately, and is pulled to `usual` with
// the weight of `prior_problems` further problems. The division of that variance maximises the
// joint likelihood of the errors, over a few samples of each problem's rows; each problem has its
// own overall variance and the same weight. No problem may have empty errors. Deterministic.
ProcessPrior LearnProcessPrior(std::span<const ProblemErrors> problems, const ProcessPrior& usual,
                               double prior_problems, uint64_t seed);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PROCESS_PRIOR_H_
