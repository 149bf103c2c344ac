#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PROBLEM_MODEL_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PROBLEM_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "services/forecaster/core/predictive.h"
#include "services/forecaster/core/tunable_encoder.h"
#include "services/forecaster/embedded/boosted_ensemble.h"
#include "services/forecaster/embedded/failure_model.h"
#include "services/forecaster/embedded/gaussian_process.h"
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

// What is known of one problem on one target: what other problems tell (SharedModel), corrected by
// a Gaussian process and a boosted ensemble over tunables and facts, weighted by how well each
// predicts the labels that it was not given. Immutable; thread-safe.
class ProblemModel {
 public:
  // Labels beyond this are left out, the oldest first.
  static constexpr size_t kMaxRows = 1024;
  // With fewer the ensemble has nothing to split.
  static constexpr size_t kLeastRowsForEnsemble = 24;

  struct Prediction {
    StudentT log2_speedup;
    double failure_probability = 0;
  };

  // What is predicted where there is neither a label nor another problem: kPrior.
  ProblemModel() = default;

  // `shared` may be null; shared, because the models of many problems refer to one. `rows` in the
  // order of their arrival. Deterministic.
  static ProblemModel Train(const TunableEncoder& encoder, std::span<const TrainingRow* const> rows,
                            std::shared_ptr<const SharedModel> shared,
                            const ProblemModelOptions& options);

  Prediction Predict(const TunableEncoder& encoder, const CandidateFeatures& features) const;

  uint64_t labels() const { return labels_; }
  // Weight of the Gaussian process against the ensemble, for tests and logs.
  double process_weight() const { return process_weight_; }

 private:
  double Offset(const CandidateFeatures& features) const;

  uint64_t labels_ = 0;
  std::shared_ptr<const SharedModel> shared_;
  double shared_slope_ = 0;
  double slope_error_ = 0;  // scale of the error for each octave of the offset
  std::optional<GaussianProcess> process_;
  std::optional<BoostedEnsemble> ensemble_;
  size_t ensemble_columns_ = 0;
  double process_weight_ = 1;
  FailureModel failures_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PROBLEM_MODEL_H_
