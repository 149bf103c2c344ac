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

// Boosters trained on bootstrap resamples. The spread of their predictions and each one's error on
// the rows it was not trained on give the width of a prediction. Immutable and thread-safe.
class BoostedEnsemble {
 public:
  // Needs at least two rows. `prior_variance` is the prior variance of an error.
  [[nodiscard]] static absl::StatusOr<BoostedEnsemble> Train(const Matrix& rows,
                                                             std::span<const float> values,
                                                             double prior_variance,
                                                             const EnsembleOptions& options);

  StudentT Predict(std::span<const float> row) const;

  // Mean margin of the members.
  double Mean(std::span<const float> row) const;

  // For each row of the training set, the mean of the members that were not trained on it. Empty if
  // all were.
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
