#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_SHARED_MODEL_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_SHARED_MODEL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/forecaster/embedded/booster.h"
#include "services/forecaster/embedded/failure_prior.h"
#include "services/forecaster/embedded/problem_rows.h"
#include "services/forecaster/embedded/process_prior.h"
#include "services/forecaster/embedded/training_row.h"

namespace kernelcast::forecaster {

// Predicts the candidates of one problem from labels of other problems on the same target. For
// simulated candidates, it corrects the simulation's estimate of the speedup, linearly and by
// boosted trees over simulation features; the trees count as far as they helped on families left
// out of training. For others it uses boosted trees over compile facts and the size of the work.
// Immutable and thread-safe.
class SharedModel {
 public:
  // `rows` are by problem, all of one device model. Speedups are learnt from rows with shared
  // features. Of a problem at most kMaxRowsPerProblem rows are used, the newest. If most rows have
  // simulations, these are used and the other rows left out. NOT_FOUND: nothing to learn from.
  [[nodiscard]] static absl::StatusOr<SharedModel> Train(
      const std::map<std::string, ProblemRows>& rows, uint64_t seed);

  static constexpr size_t kMaxRowsPerProblem = 200;
  static constexpr size_t kMaxRows = 4000;
  // Factor of simulated log2 speedups before anything is learnt.
  static constexpr double kUsualSlope = 0.9;

  // Whether the candidate has the features of the model. Recorded candidates have not: their
  // simulations have PyTorch's operations, which no label of the model has.
  bool Covers(const CandidateFeatures& features) const;
  // Expected log2 speedup. The candidate must be covered.
  double Predict(const CandidateFeatures& features) const;
  // Size of the expected error relative to that on familiar candidates: it grows with the distance
  // of the candidate's resource shares to those of the most similar problem. 1 without simulations.
  // The candidate must be covered.
  double Width(const CandidateFeatures& features) const;

  // Number of problems learnt from.
  size_t problems() const { return problems_; }
  // Null: no failures were learnt from.
  const FailurePrior* failures() const { return failures_ ? &*failures_ : nullptr; }
  // The model for a device model that it was not trained on: wider by an assumed factor.
  SharedModel ForOtherDevice() const;
  bool uses_simulations() const { return uses_simulations_; }
  // Structure of the errors on families left out: how a problem's own labels are interpreted, and
  // how wide forecasts are without labels.
  const ProcessPrior& process_prior() const { return process_prior_; }
  // Shrinkage factor of the predicted log2 speedup for a problem without labels.
  double trust() const { return trust_; }
  // Shrinkage factor of the trees' correction of simulations, and factor of simulated log2
  // speedups.
  double correction_share() const { return core_.correction_share; }
  double simulated_slope() const { return core_.slope; }

 private:
  friend class PriorCodec;
  struct Data;
  // Learnt from a subset of the problems.
  struct Core {
    double slope = 0;
    double centre = 0;
    double correction_share = 1;
    std::vector<Forest> members;

    double Base(std::span<const float> row) const { return centre + slope * row[0]; }
    double Correction(std::span<const float> row) const;
  };

  static std::vector<std::vector<float>> CentresOf(const Data& data);
  static absl::StatusOr<Core> Learn(const Data& data, const std::vector<char>& left_out,
                                    int members, uint64_t seed);
  // Empty: not covered.
  std::span<const float> RowOf(const CandidateFeatures& features) const {
    if (features.is_recorded) return {};
    return uses_simulations_ ? features.simulation : features.shared;
  }

  bool uses_simulations_ = false;
  Core core_;
  size_t problems_ = 0;
  ProcessPrior process_prior_;
  // Mean ResourceShares of each problem learnt from. Empty without simulations.
  std::vector<std::vector<float>> centres_;
  std::optional<FailurePrior> failures_;
  double trust_ = 0;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_SHARED_MODEL_H_
