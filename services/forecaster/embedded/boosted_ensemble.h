#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_BOOSTED_ENSEMBLE_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_BOOSTED_ENSEMBLE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "services/forecaster/core/predictive.h"
#include "services/forecaster/embedded/booster.h"

namespace kernelcast::forecaster {

struct EnsembleOptions {
  BoosterOptions booster;
  int members = 12;
  uint64_t seed = 0;
};

// Boosters trained on bootstrap resamples. How far they lie apart, and how far off each is on the
// rows that it did not see, say how wide a prediction is. Immutable; thread-safe.
class BoostedEnsemble {
 public:
  // At least two rows. `prior_variance` is the variance of an error before anything is known.
  [[nodiscard]] static absl::StatusOr<BoostedEnsemble> Train(const Matrix& rows,
                                                             std::span<const float> values,
                                                             double prior_variance,
                                                             const EnsembleOptions& options);

  StudentT Predict(std::span<const float> row) const;

  // Mean margin of the members.
  double Mean(std::span<const float> row) const;

  // Per row of the training set, the mean of the members that did not see it; none where all did.
  const std::vector<std::optional<double>>& OutOfBag() const { return out_of_bag_; }

 private:
  std::vector<Forest> members_;
  double centre_ = 0;
  double error_variance_ = 0;
  double degrees_of_freedom_ = 3;
  std::vector<std::optional<double>> out_of_bag_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_BOOSTED_ENSEMBLE_H_
