#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_FAILURE_MODEL_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_FAILURE_MODEL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "services/forecaster/embedded/boosted_ensemble.h"
#include "services/forecaster/embedded/space_covariance.h"
#include "services/forecaster/embedded/training_row.h"

namespace kernelcast::forecaster {

// P(failure) of candidates of one problem and target: a prior rate, drawn towards what became of
// candidates of the same template, the more so the more alike their tunables are (regression of the
// outcome on SpacePosition); with enough failures and successes, averaged in log odds with boosted
// trees. A candidate that has compile facts has compiled, so that for it the failures of compiling
// do not count. Immutable; thread-safe.
class FailureModel {
 public:
  static constexpr double kPriorRate = 0.15;
  static constexpr size_t kMaxPoints = 200;

  FailureModel() = default;
  // `positions` are those of the rows. Of more than kMaxPoints the newest count.
  static FailureModel Train(std::span<const TrainingRow* const> rows,
                            std::span<const SpacePosition> positions, uint64_t seed);

  // `position` is that of the features.
  double Predict(const CandidateFeatures& features, const SpacePosition& position) const;

 private:
  struct Counts {
    double all = 0;
    double failed_compiling = 0;
  };

  void TrainProcess(std::span<const TrainingRow* const> rows,
                    std::span<const SpacePosition> positions);

  Counts problem_;
  std::map<int, Counts> templates_;
  // Of the candidates that compiled: where they lie, and how much each counts.
  PositionTable points_;
  std::vector<double> alpha_;
  std::optional<BoostedEnsemble> ensemble_;
  size_t ensemble_columns_ = 0;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_FAILURE_MODEL_H_
