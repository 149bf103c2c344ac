#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_SHARED_MODEL_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_SHARED_MODEL_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/forecaster/embedded/booster.h"
#include "services/forecaster/embedded/training_row.h"

namespace kernelcast::forecaster {

// The labels of one problem, for a SharedModel.
struct ProblemRows {
  // Problems of one family are never held against one another; empty: the problem is alone.
  std::string family;
  std::vector<const TrainingRow*> rows;
};

// What the labels of some problems tell about another one on the same target. Where a virtual GPU
// has simulated candidates, its estimate of the speedup is what is corrected, linearly and by
// boosted trees over what it saw, the trees as far as that helped problems of families left out;
// else boosted trees over compile facts and the size of the work. Immutable; thread-safe.
class SharedModel {
 public:
  // Rows by problem; those that failed or have no shared features are left out. At most
  // kMaxRowsPerProblem of a problem are used, the newest. Simulations are used if most rows have
  // them, and the others left out. NOT_FOUND: nothing to learn from.
  [[nodiscard]] static absl::StatusOr<SharedModel> Train(
      const std::map<std::string, ProblemRows>& rows, uint64_t seed);

  static constexpr size_t kMaxRowsPerProblem = 200;
  static constexpr size_t kMaxRows = 4000;

  // Whether the candidate has the features that the model is of.
  bool Covers(const CandidateFeatures& features) const;
  // Expected log2 speedup of what is covered.
  double Predict(const CandidateFeatures& features) const;

  // Problems learnt from.
  size_t problems() const { return problems_; }
  bool uses_simulations() const { return uses_simulations_; }
  // Scale of a Student-t with the degrees of freedom of kPrior that the error on problems of
  // families left out follows, drawn towards the prior's.
  double error_scale() const { return error_scale_; }
  // What the square of the scale grows by, as a root, with each octave that is predicted: the
  // further from the reference, the less sure.
  double slope_error() const { return slope_error_; }
  // Share of the predicted log2 speedup to believe of a problem without labels.
  double trust() const { return trust_; }
  // Share of the trees' correction of simulations that is believed, and what simulated log2
  // speedups are multiplied by.
  double correction_share() const { return core_.correction_share; }
  double simulated_slope() const { return core_.slope; }

 private:
  friend class PriorCodec;
  struct Data;
  // What is learnt from some of the problems.
  struct Core {
    double slope = 0;
    double centre = 0;
    double correction_share = 1;
    std::vector<Forest> members;

    double Base(std::span<const float> row) const { return centre + slope * row[0]; }
    double Correction(std::span<const float> row) const;
  };

  static absl::StatusOr<Core> Learn(const Data& data, const std::vector<char>& left_out,
                                    int members, uint64_t seed);
  std::span<const float> RowOf(const CandidateFeatures& features) const {
    return uses_simulations_ ? features.simulation : features.shared;
  }

  bool uses_simulations_ = false;
  Core core_;
  size_t problems_ = 0;
  double error_scale_ = 0;
  double slope_error_ = 0;
  double trust_ = 0;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_SHARED_MODEL_H_
