#include "services/forecaster/embedded/boosted_ensemble.h"

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "services/forecaster/embedded/random.h"

namespace kernelcast::forecaster {
namespace {

// Weight of the prior variance, in rows.
constexpr double kPriorRows = 2;

}  // namespace

absl::StatusOr<BoostedEnsemble> BoostedEnsemble::Train(const Matrix& rows,
                                                       std::span<const float> values,
                                                       double prior_variance,
                                                       const EnsembleOptions& options) {
  const size_t n = rows.rows;
  if (n < 2 || values.size() != n) {
    return absl::InvalidArgumentError("an ensemble needs at least two rows with a value each");
  }
  BoostedEnsemble ensemble;
  if (!options.booster.logistic) {
    for (const float value : values) ensemble.centre_ += value / static_cast<double>(n);
  }
  std::vector<float> targets(values.begin(), values.end());
  for (float& target : targets) target -= static_cast<float>(ensemble.centre_);

  std::vector<double> unseen_sum(n, 0.0);
  std::vector<int> unseen_count(n, 0);
  std::vector<float> weights(n);
  for (int member = 0; member < options.members; ++member) {
    Random random(DeriveSeed(options.seed, "member", static_cast<uint64_t>(member)));
    std::fill(weights.begin(), weights.end(), 0.0f);
    for (size_t i = 0; i < n; ++i) weights[random.Below(n)] += 1;
    BoosterOptions booster = options.booster;
    booster.seed = static_cast<uint32_t>(random.Next());
    KC_ASSIGN_OR_RETURN(Forest forest, TrainForest(rows, targets, weights, booster));
    for (size_t i = 0; i < n; ++i) {
      if (weights[i] > 0) continue;
      unseen_sum[i] += forest.Predict(rows.row(i));
      ++unseen_count[i];
    }
    ensemble.members_.push_back(std::move(forest));
  }

  double squares = kPriorRows * prior_variance;
  double count = kPriorRows;
  ensemble.out_of_bag_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    if (unseen_count[i] == 0) continue;
    const double prediction = unseen_sum[i] / unseen_count[i];
    ensemble.out_of_bag_[i] = prediction + ensemble.centre_;
    squares += (targets[i] - prediction) * (targets[i] - prediction);
    ++count;
  }
  const double size = static_cast<double>(n);
  ensemble.error_variance_ = squares / count * (size + 1) / size;
  ensemble.degrees_of_freedom_ = std::max(3.0, size - 1);
  return ensemble;
}

double BoostedEnsemble::Mean(std::span<const float> row) const {
  double sum = 0;
  for (const Forest& member : members_) sum += member.Predict(row);
  return centre_ + sum / static_cast<double>(members_.size());
}

StudentT BoostedEnsemble::Predict(std::span<const float> row) const {
  double sum = 0;
  double square = 0;
  for (const Forest& member : members_) {
    const double value = member.Predict(row);
    sum += value;
    square += value * value;
  }
  const double count = static_cast<double>(members_.size());
  const double mean = sum / count;
  const double spread = count > 1 ? std::max(0.0, square - count * mean * mean) / (count - 1) : 0.0;
  return {centre_ + mean, std::sqrt(error_variance_ + spread), degrees_of_freedom_};
}

}  // namespace kernelcast::forecaster
