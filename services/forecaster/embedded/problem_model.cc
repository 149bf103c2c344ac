#include "services/forecaster/embedded/problem_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "services/forecaster/embedded/random.h"

namespace kernelcast::forecaster {
namespace {

// How firmly the slope on the shared model's prediction is held at its trust, in squared octaves.
constexpr double kSlopePrior = 3;
// The weight of the process before labels say otherwise, and how many labels that counts for.
constexpr double kProcessWeightPrior = 0.85;
constexpr double kProcessWeightPriorRows = 20;
// Beyond this number of labels fewer members do, and training stays quick.
constexpr size_t kManyRows = 150;
constexpr int kMembersForManyRows = 6;

std::vector<float> EnsembleRow(const CandidateFeatures& features, size_t columns) {
  std::vector<float> row = features.tunables;
  row.insert(row.end(), features.facts.begin(), features.facts.end());
  row.resize(columns, std::numeric_limits<float>::quiet_NaN());
  return row;
}

// Weight w of errors `a` against errors `b` with the least squared error of w a + (1 - w) b.
double StackingWeight(std::span<const double> a, std::span<const double> b) {
  double product = 0;
  double square = 0;
  double scale = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = a[i] - b[i];
    product += -b[i] * difference;
    square += difference * difference;
    scale += a[i] * a[i] + b[i] * b[i];
  }
  if (a.empty() || !(scale > 0)) return kProcessWeightPrior;
  const double prior = kProcessWeightPriorRows * 0.25 * scale / (2 * static_cast<double>(a.size()));
  return std::clamp((product + prior * kProcessWeightPrior) / (square + prior), 0.0, 1.0);
}

}  // namespace

double ProblemModel::Offset(const CandidateFeatures& features) const {
  if (shared_ == nullptr || !shared_->Covers(features)) return 0;
  return shared_slope_ * shared_->Predict(features);
}

ProblemModel ProblemModel::Train(const TunableEncoder& encoder,
                                 std::span<const TrainingRow* const> rows,
                                 std::shared_ptr<const SharedModel> shared,
                                 const ProblemModelOptions& options) {
  ProblemModel model;
  model.labels_ = rows.size();
  model.shared_ = std::move(shared);
  if (rows.size() > kMaxRows) rows = rows.last(kMaxRows);
  std::vector<SpacePosition> all_positions;
  std::vector<const TrainingRow*> correct;
  std::vector<SpacePosition> positions;
  for (const TrainingRow* row : rows) {
    all_positions.push_back(PositionOf(encoder, row->features));
    if (!row->log2_speedup.has_value()) continue;
    correct.push_back(row);
    positions.push_back(all_positions.back());
  }
  model.failures_ =
      FailureModel::Train(rows, all_positions, DeriveSeed(options.seed, "failure", 0));

  double prior_scale = kPrior.scale;
  if (model.shared_ != nullptr) {
    prior_scale = model.shared_->error_scale();
    model.shared_slope_ = model.shared_->trust();
    std::vector<std::pair<double, double>> points;
    double mean_x = 0;
    double mean_y = 0;
    for (const TrainingRow* row : correct) {
      if (!model.shared_->Covers(row->features)) continue;
      points.emplace_back(model.shared_->Predict(row->features), *row->log2_speedup);
      mean_x += points.back().first;
      mean_y += points.back().second;
    }
    double product = kSlopePrior * model.shared_slope_;
    double square = kSlopePrior;
    for (const auto& [x, y] : points) {
      const double deviation = x - mean_x / static_cast<double>(points.size());
      product += deviation * (y - mean_y / static_cast<double>(points.size()));
      square += deviation * deviation;
    }
    model.shared_slope_ = std::clamp(product / square, 0.0, 1.5);
    // Labels that lie apart tell the slope.
    model.slope_error_ = model.shared_->slope_error() * std::sqrt(kSlopePrior / square);
  }

  std::vector<double> residuals;
  residuals.reserve(correct.size());
  for (const TrainingRow* row : correct) {
    residuals.push_back(*row->log2_speedup - model.Offset(row->features));
  }
  const size_t n = correct.size();
  const size_t skipped = n > GaussianProcess::kMaxPoints ? n - GaussianProcess::kMaxPoints : 0;
  positions.erase(positions.begin(), positions.begin() + static_cast<ptrdiff_t>(skipped));
  const bool simulated = model.shared_ != nullptr && model.shared_->uses_simulations();
  model.process_ = GaussianProcess::Fit(
      positions, std::span<const double>(residuals).subspan(skipped), prior_scale,
      simulated ? GaussianProcess::Values::kErrorsOfSimulation
                : GaussianProcess::Values::kSpeedups);
  if (n < kLeastRowsForEnsemble) return model;

  for (const TrainingRow* row : correct) {
    model.ensemble_columns_ = std::max(model.ensemble_columns_,
                                       row->features.tunables.size() + row->features.facts.size());
  }
  if (model.ensemble_columns_ == 0) return model;
  Matrix matrix;
  std::vector<float> targets;
  double mean = 0;
  for (size_t i = 0; i < n; ++i) {
    matrix.Append(EnsembleRow(correct[i]->features, model.ensemble_columns_));
    targets.push_back(static_cast<float>(residuals[i]));
    mean += residuals[i] / static_cast<double>(n);
  }
  double variance = 0;
  for (const double residual : residuals) {
    variance += (residual - mean) * (residual - mean) / static_cast<double>(n);
  }
  EnsembleOptions ensemble_options;
  ensemble_options.booster.rounds = options.rounds;
  ensemble_options.booster.max_depth = options.max_depth;
  ensemble_options.booster.eta = options.eta;
  ensemble_options.booster.min_child_weight = options.min_child_weight;
  ensemble_options.booster.column_share = options.column_share;
  ensemble_options.members =
      n > kManyRows ? std::min(options.members, kMembersForManyRows) : options.members;
  ensemble_options.seed = DeriveSeed(options.seed, "ensemble", 0);
  absl::StatusOr<BoostedEnsemble> ensemble =
      BoostedEnsemble::Train(matrix, targets, variance, ensemble_options);
  if (!ensemble.ok()) {
    Log(LogLevel::kWarning, "training of the ensemble failed; the process is used alone",
        {{"error", std::string(ensemble.status().message())}});
    return model;
  }
  model.ensemble_ = *std::move(ensemble);

  std::vector<double> process_errors;
  std::vector<double> ensemble_errors;
  const std::vector<StudentT>& left_out = model.process_->LeaveOneOut();
  for (size_t i = skipped; i < n; ++i) {
    const std::optional<double>& out_of_bag = model.ensemble_->OutOfBag()[i];
    if (!out_of_bag.has_value() || left_out.size() != n - skipped) continue;
    process_errors.push_back(left_out[i - skipped].location - residuals[i]);
    ensemble_errors.push_back(*out_of_bag - residuals[i]);
  }
  model.process_weight_ = StackingWeight(process_errors, ensemble_errors);
  return model;
}

ProblemModel::Prediction ProblemModel::Predict(const TunableEncoder& encoder,
                                               const CandidateFeatures& features) const {
  Prediction prediction;
  const SpacePosition position = PositionOf(encoder, features);
  prediction.failure_probability = failures_.Predict(features, position);
  StudentT& out = prediction.log2_speedup;
  if (!process_.has_value()) {
    out = kPrior;
    return prediction;
  }
  out = process_->Predict(position);
  if (ensemble_.has_value()) {
    // Moments of the mixture of the two.
    const StudentT other = ensemble_->Predict(EnsembleRow(features, ensemble_columns_));
    const double w = process_weight_;
    const double gap = out.location - other.location;
    out.scale = std::sqrt(w * out.scale * out.scale + (1 - w) * other.scale * other.scale +
                          w * (1 - w) * gap * gap);
    out.location = w * out.location + (1 - w) * other.location;
    out.degrees_of_freedom = std::min(out.degrees_of_freedom, other.degrees_of_freedom);
  }
  const double offset = Offset(features);
  out.location += offset;
  out.scale = std::hypot(out.scale, slope_error_ * offset);
  // What the shared model cannot tell of is as unknown as before.
  if (shared_ != nullptr && !shared_->Covers(features) && labels_ == 0) out = kPrior;
  return prediction;
}

}  // namespace kernelcast::forecaster
