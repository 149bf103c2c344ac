#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PROBLEM_MODEL_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PROBLEM_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "common/domain/forecast.h"
#include "services/forecaster/core/predictive.h"
#include "services/forecaster/core/tunable_encoder.h"
#include "services/forecaster/embedded/boosted_ensemble.h"
#include "services/forecaster/embedded/failure_model.h"
#include "services/forecaster/embedded/process_mixture.h"
#include "services/forecaster/embedded/shared_model.h"
#include "services/forecaster/embedded/training_row.h"

namespace kernelcast::forecaster {

struct ProblemModelOptions {
  uint64_t seed = 0;
  int members = 12;
  int rounds = 60;
  int max_depth = 3;
  double eta = 0.15;
  double min_child_weight = 1;
  double column_share = 0.5;
};

// Model of one problem on one target: the prediction from other problems (SharedModel), or from the
// recording of a Python candidate, corrected by a Gaussian process and a boosted ensemble over
// tunables and facts. The two are weighted by how well they predict labels that they were not
// given. Immutable and thread-safe.
class ProblemModel {
 public:
  // Maximum number of labels used. The oldest are left out.
  static constexpr size_t kMaxRows = 1024;
  // With fewer rows the ensemble cannot make useful splits.
  static constexpr size_t kLeastRowsForEnsemble = 24;

  // Information from labels of the same problem on another device model.
  struct OtherDevice {
    // Trained on `rows` with that device's shared model. Shared, because it may also serve on its
    // own.
    std::shared_ptr<const ProblemModel> model = nullptr;
    std::span<const TrainingRow* const> rows = {};
  };

  struct Prediction {
    StudentT log2_speedup;
    double failure_probability = 0;
    // kPriorOnly: the model knows nothing that tells this candidate from others of its kind.
    ForecastBasis basis = ForecastBasis::kPriorOnly;
  };

  // Prediction without labels and without other problems: kPrior.
  ProblemModel() = default;

  // `shared` may be null. It is shared because the models of many problems refer to it. `rows` must
  // be in order of arrival. Deterministic.
  //
  // With labels of another device model, a candidate's log2 speedup is modelled as
  //
  //   own shared model + share * (correction of the other's shared model by its labels) + error
  //
  // The share is 0.5 +- 0.5 before own labels, and the error has its own offset, slope and scale. A
  // failure on the other device model counts as a failure here.
  static ProblemModel Train(const TunableEncoder& encoder, std::span<const TrainingRow* const> rows,
                            std::shared_ptr<const SharedModel> shared,
                            const ProblemModelOptions& options, OtherDevice other);
  static ProblemModel Train(const TunableEncoder& encoder, std::span<const TrainingRow* const> rows,
                            std::shared_ptr<const SharedModel> shared,
                            const ProblemModelOptions& options) {
    return Train(encoder, rows, std::move(shared), options, OtherDevice());
  }

  Prediction Predict(const TunableEncoder& encoder, const CandidateFeatures& features) const;

  uint64_t labels() const { return labels_; }

 private:
  // Log2 speedup predicted without labels, and the widths of its errors as in SpacePosition. For
  // recorded candidates the prediction is the simulated one; for others that the shared model does
  // not cover, 0.
  struct Expected {
    double log2_speedup = 0;
    double width = 1;
    double plain_width = 1;
  };
  Expected ExpectedOf(const CandidateFeatures& features) const;
  ForecastBasis BasisOf(const CandidateFeatures& features) const;
  // Position with `predicted` and `transferred` set.
  SpacePosition Position(const TunableEncoder& encoder, const CandidateFeatures& features) const;
  // The correction by the labels to ExpectedOf and to the default share of `transferred`.
  StudentT Residual(const SpacePosition& position, const CandidateFeatures& features) const;

  uint64_t labels_ = 0;
  std::shared_ptr<const SharedModel> shared_;
  std::shared_ptr<const ProblemModel> other_;  // of another device model; may be null
  std::optional<ProcessMixture> process_;
  std::optional<BoostedEnsemble> ensemble_;
  size_t ensemble_columns_ = 0;
  double process_weight_ = 1;
  FailureModel failures_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PROBLEM_MODEL_H_
