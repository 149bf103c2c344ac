#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_FAILURE_MODEL_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_FAILURE_MODEL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "services/forecaster/embedded/boosted_ensemble.h"
#include "services/forecaster/embedded/training_row.h"

namespace kernelcast::forecaster {

// P(failure) of candidates of one problem and target: the rate of the candidate's template, drawn
// towards the problem's rate, drawn towards a prior; with enough failures and successes, averaged
// in log odds with boosted trees. A candidate that has compile facts has compiled, so that for it
// the failures of compiling do not count. Immutable; thread-safe.
class FailureModel {
 public:
  static constexpr double kPriorRate = 0.15;

  FailureModel() = default;
  static FailureModel Train(std::span<const TrainingRow* const> rows, uint64_t seed);

  double Predict(const CandidateFeatures& features) const;

 private:
  struct Counts {
    double compiled = 0;
    double failed_running = 0;
    double all = 0;
    double failed_compiling = 0;
  };

  Counts problem_;
  std::map<int, Counts> templates_;
  std::optional<BoostedEnsemble> ensemble_;
  size_t ensemble_columns_ = 0;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_FAILURE_MODEL_H_
