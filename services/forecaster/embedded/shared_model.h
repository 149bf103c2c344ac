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

// What the labels of some problems tell about another one on the same target, from compile facts
// and the size of the work alone. Immutable; thread-safe.
class SharedModel {
 public:
  // Rows by problem; those that failed or have no shared features are left out. At most
  // kMaxRowsPerProblem of a problem are used, the newest. NOT_FOUND: nothing to learn from.
  [[nodiscard]] static absl::StatusOr<SharedModel> Train(
      const std::map<std::string, std::vector<const TrainingRow*>>& rows, uint64_t seed);

  static constexpr size_t kMaxRowsPerProblem = 200;
  static constexpr size_t kMaxRows = 4000;

  // Expected log2 speedup of a row of the FeatureSchema.
  double Predict(std::span<const float> shared_features) const;

  // Problems learnt from.
  size_t problems() const { return problems_; }
  // Variance of the error on a problem that was left out, drawn towards the prior's.
  double error_variance() const { return error_variance_; }
  // Share of the predicted log2 speedup to believe of a problem without labels.
  double trust() const { return trust_; }

 private:
  std::vector<Forest> members_;
  double centre_ = 0;
  size_t problems_ = 0;
  double error_variance_ = 0;
  double trust_ = 0;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_SHARED_MODEL_H_
