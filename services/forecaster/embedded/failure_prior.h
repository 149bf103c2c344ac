#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_FAILURE_PRIOR_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_FAILURE_PRIOR_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/forecaster/embedded/booster.h"
#include "services/forecaster/embedded/problem_rows.h"
#include "services/forecaster/embedded/training_row.h"

namespace kernelcast::forecaster {

// P(failure) of candidates that compile, for problems without labels: boosted trees over indicators
// of wrong results (FailureRow; on the cpu target the row of the FeatureSchema). Their log odds are
// scaled to fit families left out of training. Immutable and thread-safe.
class FailurePrior {
 public:
  // Candidates that do not compile are left out. NOT_FOUND: failures in fewer than kLeastFamilies
  // families, or too few rows.
  [[nodiscard]] static absl::StatusOr<FailurePrior> Train(
      const std::map<std::string, ProblemRows>& problems, uint64_t seed);

  static constexpr size_t kLeastFamilies = 3;

  // Whether the candidate has the features of the model.
  bool Covers(const CandidateFeatures& features) const { return !RowOf(features).empty(); }
  // The candidate must be covered.
  double Predict(const CandidateFeatures& features) const;

  // Factor of the trees' log odds. 0 if they do not generalise to other families.
  double slope() const { return slope_; }
  bool of_device_code() const { return of_device_code_; }

 private:
  friend class PriorCodec;

  std::span<const float> RowOf(const CandidateFeatures& features) const {
    return of_device_code_ ? features.failure : features.shared;
  }

  bool of_device_code_ = false;
  double intercept_ = 0;
  double slope_ = 0;
  std::vector<Forest> members_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_FAILURE_PRIOR_H_
