#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_FAILURE_MODEL_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_FAILURE_MODEL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "services/forecaster/embedded/boosted_ensemble.h"
#include "services/forecaster/embedded/failure_prior.h"
#include "services/forecaster/embedded/space_covariance.h"
#include "services/forecaster/embedded/training_row.h"

namespace kernelcast::forecaster {

// P(failure) of candidates of one problem and target. Starts from the failures of other problems,
// or a default rate. This is pulled towards the outcomes of candidates of the same template, more
// strongly the more similar their tunables are (regression of the outcome on SpacePosition). With
// enough failures and successes the result is averaged in log odds with boosted trees. For a
// candidate with compile facts, compile errors do not count, because it has compiled. Immutable and
// thread-safe.
class FailureModel {
 public:
  // For candidates that a FailurePrior does not cover.
  static constexpr double kPriorRate = 0.15;
  // Minimum rates of candidates in which the simulation found a fault, and of those whose outputs
  // it found wrong or unwritten.
  static constexpr double kFindingRate = 0.9;
  static constexpr double kWrongOutputRate = 0.98;
  // The share of wrong candidates whose simulated outputs agree. An assumption: 13 of 53 recorded
  // wrong points agreed, at larger margins than now.
  static constexpr double kMissedShare = 0.3;
  static constexpr size_t kMaxPoints = 200;

  FailureModel() = default;
  // `positions` are those of the rows. Of more than kMaxPoints the newest are used. `prior` may be
  // null.
  static FailureModel Train(std::span<const TrainingRow* const> rows,
                            std::span<const SpacePosition> positions, const FailurePrior* prior,
                            uint64_t seed);

  // `position` is that of the features. `prior` must be the one the model was trained with.
  double Predict(const CandidateFeatures& features, const SpacePosition& position,
                 const FailurePrior* prior) const;

 private:
  struct Counts {
    double all = 0;
    double failed_compiling = 0;
  };

  void TrainProcess(std::span<const TrainingRow* const> rows,
                    std::span<const SpacePosition> positions, const FailurePrior* prior);

  Counts problem_;
  std::map<int, Counts> templates_;
  // Candidates that compiled: their positions and their weights.
  PositionTable points_;
  std::vector<double> alpha_;
  std::optional<BoostedEnsemble> ensemble_;
  size_t ensemble_columns_ = 0;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_FAILURE_MODEL_H_
