#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_BOOSTER_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_BOOSTER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast::forecaster {

// Row-major floats; NaN is a missing value.
struct Matrix {
  size_t rows = 0;
  size_t columns = 0;
  std::vector<float> values;

  std::span<const float> row(size_t i) const {
    return std::span<const float>(values).subspan(i * columns, columns);
  }
  void Append(std::span<const float> row_values);
};

// Gradient-boosted trees as flat arrays: trained by XGBoost, but evaluated much faster than through
// its interface. Immutable and thread-safe.
class Forest {
 public:
  // Sum over the trees, without link function. `row` has the columns of the training set.
  float Predict(std::span<const float> row) const;

  size_t trees() const { return roots_.size(); }

 private:
  friend class BoosterTrainer;
  friend class PriorCodec;
  struct Node {
    // Threshold (go left below it), or the value of a leaf.
    float value = 0;
    // Children within nodes_. -1: a leaf.
    int32_t left = -1;
    int32_t right = -1;
    uint32_t feature : 31 = 0;
    uint32_t missing_left : 1 = 0;
  };
  std::vector<Node> nodes_;
  std::vector<uint32_t> roots_;
};

struct BoosterOptions {
  // If true, labels are 0 or 1 and predictions are log odds. If false, squared error is minimised.
  bool logistic = false;
  int rounds = 60;
  int max_depth = 3;
  double eta = 0.15;
  double lambda = 1;
  double min_child_weight = 1;
  double column_share = 0.5;
  uint32_t seed = 0;
};

// Trains on rows with positive weight, on the calling thread only. Deterministic. INTERNAL: XGBoost
// failed. INVALID_ARGUMENT: no rows, or sizes do not match.
[[nodiscard]] absl::StatusOr<Forest> TrainForest(const Matrix& rows, std::span<const float> labels,
                                                 std::span<const float> weights,
                                                 const BoosterOptions& options);

// Same as TrainForest, but also returns XGBoost's own predictions for `rows`, for comparison.
[[nodiscard]] absl::StatusOr<Forest> TrainForest(const Matrix& rows, std::span<const float> labels,
                                                 std::span<const float> weights,
                                                 const BoosterOptions& options,
                                                 std::vector<float>* own_predictions);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_BOOSTER_H_
