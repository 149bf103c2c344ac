#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PROCESS_MIXTURE_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PROCESS_MIXTURE_H_

#include <optional>
#include <span>
#include <vector>

#include "services/forecaster/core/predictive.h"
#include "services/forecaster/embedded/gaussian_process.h"
#include "services/forecaster/embedded/process_prior.h"
#include "services/forecaster/embedded/space_covariance.h"

namespace kernelcast::forecaster {

// Two Gaussian processes, weighted by how well they explain a problem's labels. In one the errors
// of forecasts grow with the novelty of candidates, as they do before a problem has labels. In the
// other they do not, because labels have shown the error that novel candidates have in common.
// Immutable and thread-safe.
class ProcessMixture {
 public:
  // Arguments are those of GaussianProcess::Fit. Without points only the first process counts.
  static ProcessMixture Fit(std::span<const SpacePosition> points, std::span<const double> values,
                            const ProcessPrior& prior);

  // See Mixture of StudentT.
  StudentT Predict(const SpacePosition& point) const;

  // As those of GaussianProcess; means over the mixture.
  double slope() const;
  double transferred_share() const;
  const std::vector<StudentT>& LeaveOneOut() const { return leave_one_out_; }

  // Weight of the process whose errors grow with novelty.
  double novelty_weight() const { return novelty_weight_; }

 private:
  // Null: its weight is negligible.
  std::optional<GaussianProcess> novel_;
  std::optional<GaussianProcess> plain_;
  double novelty_weight_ = 1;
  std::vector<StudentT> leave_one_out_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PROCESS_MIXTURE_H_
