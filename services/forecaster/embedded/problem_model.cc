#include "services/forecaster/embedded/problem_model.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "services/forecaster/embedded/random.h"

namespace kernelcast::forecaster {
namespace {

// Prior weight of the Gaussian process, and its strength in labels.
constexpr double kProcessWeightPrior = 0.85;
constexpr double kProcessWeightPriorRows = 20;
// Above this number of labels a smaller ensemble is enough and keeps training fast.
constexpr size_t kManyRows = 150;
constexpr int kMembersForManyRows = 6;
// Prior mean and standard deviation of the share transferred by labels of another device model.
constexpr double kTransferredShare = 0.5;
constexpr double kTransferredShareError = 0.5;
// Assumed scale of the errors of recorded candidates' estimates, in log2 speedup: half of them are
// within a factor of 1.5. It grows by this share of what is claimed.
constexpr double kRecordedError = 0.75;
constexpr double kClaimError = 0.5;
// A label that differs by more from the estimate shows that the recording is unlike the candidate.
constexpr double kMostRecordedError = 3;
// Template of recorded candidates, which have none. Their errors are unlike those of candidates
// without a recording.
constexpr int kRecordedTemplate = -2;

// The row without its recording.
TrainingRow WithoutRecording(TrainingRow row) {
  row.features.is_recorded = false;
  row.features.simulation.clear();
  row.features.facts.clear();
  return row;
}

// Weight w that minimises the squared error of w a + (1 - w) b.
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

ProblemModel::Expected ProblemModel::ExpectedOf(const CandidateFeatures& features) const {
  const double scale = shared_ != nullptr ? shared_->process_prior().scale : kPrior.scale;
  const bool simulates = shared_ != nullptr && shared_->uses_simulations();
  if (features.is_recorded) {
    const double slope = simulates ? shared_->simulated_slope() : SharedModel::kUsualSlope;
    const double claimed = features.simulation[0];
    const double width = std::hypot(kRecordedError, kClaimError * claimed) / scale;
    return {slope * claimed, width, width};
  }
  if (shared_ != nullptr && shared_->Covers(features)) {
    return {shared_->trust() * shared_->Predict(features), shared_->Width(features), 1};
  }
  // Errors of simulations say nothing about candidates without one.
  const double width = simulates ? kPrior.scale / scale : 1;
  return {0, width, width};
}

ForecastBasis ProblemModel::BasisOf(const CandidateFeatures& features) const {
  if (features.is_recorded) return ForecastBasis::kRecording;
  if (features.has_findings || features.has_wrong_outputs) return ForecastBasis::kSimulation;
  if (shared_ != nullptr) {
    if (shared_->Covers(features) && shared_->trust() > 0) {
      return shared_->uses_simulations() ? ForecastBasis::kSimulation : ForecastBasis::kFacts;
    }
    const FailurePrior* const failures = shared_->failures();
    if (failures != nullptr && failures->Covers(features) && failures->slope() > 0) {
      return ForecastBasis::kFacts;
    }
  }
  const bool has_labels = labels_ > 0 || other_ != nullptr;
  return has_labels && HasOwnFeatures(features) ? ForecastBasis::kLabels
                                                : ForecastBasis::kPriorOnly;
}

ProblemModel ProblemModel::Train(const TunableEncoder& encoder,
                                 std::span<const TrainingRow* const> rows,
                                 std::shared_ptr<const SharedModel> shared,
                                 const ProblemModelOptions& options, OtherDevice other) {
  ProblemModel model;
  model.labels_ = rows.size();
  model.shared_ = std::move(shared);
  model.other_ = std::move(other.model);
  if (rows.size() > kMaxRows) rows = rows.last(kMaxRows);
  std::vector<TrainingRow> contradicted;
  contradicted.reserve(rows.size());
  std::vector<SpacePosition> all_positions;
  std::vector<const TrainingRow*> correct;
  std::vector<SpacePosition> positions;
  std::vector<const TrainingRow*> all(other.rows.begin(), other.rows.end());
  for (const TrainingRow* row : all) all_positions.push_back(PositionOf(encoder, row->features));
  for (const TrainingRow* row : rows) {
    if (row->features.is_recorded && row->log2_speedup.has_value() &&
        std::abs(*row->log2_speedup - model.ExpectedOf(row->features).log2_speedup) >
            kMostRecordedError) {
      row = &contradicted.emplace_back(WithoutRecording(*row));
    }
    all.push_back(row);
    all_positions.push_back(model.Position(encoder, row->features));
    if (!row->log2_speedup.has_value()) continue;
    correct.push_back(row);
    positions.push_back(all_positions.back());
  }
  model.failures_ = FailureModel::Train(
      all, all_positions, model.shared_ != nullptr ? model.shared_->failures() : nullptr,
      DeriveSeed(options.seed, "failure", 0));

  std::vector<double> residuals;
  residuals.reserve(correct.size());
  for (size_t i = 0; i < correct.size(); ++i) {
    residuals.push_back(*correct[i]->log2_speedup - positions[i].predicted -
                        kTransferredShare * positions[i].transferred);
  }
  const size_t n = correct.size();
  const size_t skipped = n > GaussianProcess::kMaxPoints ? n - GaussianProcess::kMaxPoints : 0;
  positions.erase(positions.begin(), positions.begin() + static_cast<ptrdiff_t>(skipped));
  ProcessPrior prior = model.shared_ != nullptr
                           ? model.shared_->process_prior()
                           : UsualProcessPrior(RegressedValues::kSpeedups, kPrior.scale);
  if (model.other_ != nullptr) {
    prior.weights.transferred = kTransferredShareError * kTransferredShareError *
                                (prior.weights.Variance() + prior.noise) /
                                (prior.scale * prior.scale);
  }
  model.process_ =
      ProcessMixture::Fit(positions, std::span<const double>(residuals).subspan(skipped), prior);
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
    const SpacePosition position = model.Position(encoder, correct[i]->features);
    const double target = residuals[i] - model.process_->slope() * position.predicted -
                          model.process_->transferred_share() * position.transferred;
    targets.push_back(static_cast<float>(target));
    mean += target / static_cast<double>(n);
  }
  double variance = 0;
  for (const float target : targets) {
    variance += (target - mean) * (target - mean) / static_cast<double>(n);
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
    ensemble_errors.push_back(*out_of_bag - targets[i]);
  }
  model.process_weight_ = StackingWeight(process_errors, ensemble_errors);
  return model;
}

SpacePosition ProblemModel::Position(const TunableEncoder& encoder,
                                     const CandidateFeatures& features) const {
  SpacePosition position = PositionOf(encoder, features);
  if (features.is_recorded) position.template_index = kRecordedTemplate;
  const Expected expected = ExpectedOf(features);
  position.predicted = expected.log2_speedup;
  position.width = expected.width;
  position.plain_width = expected.plain_width;
  if (other_ != nullptr && other_->process_.has_value()) {
    position.transferred = other_->Residual(other_->Position(encoder, features), features).location;
  }
  return position;
}

StudentT ProblemModel::Residual(const SpacePosition& position,
                                const CandidateFeatures& features) const {
  const StudentT by_process = process_->Predict(position);
  if (!ensemble_.has_value()) return by_process;
  StudentT other = ensemble_->Predict(EnsembleRow(features, ensemble_columns_));
  other.location += process_->slope() * position.predicted;
  other.location += process_->transferred_share() * position.transferred;
  return Mixture(by_process, other, process_weight_);
}

ProblemModel::Prediction ProblemModel::Predict(const TunableEncoder& encoder,
                                               const CandidateFeatures& features) const {
  Prediction prediction;
  prediction.basis = BasisOf(features);
  const SpacePosition position = Position(encoder, features);
  prediction.failure_probability =
      failures_.Predict(features, position, shared_ == nullptr ? nullptr : shared_->failures());
  StudentT& out = prediction.log2_speedup;
  if (!process_.has_value()) {
    out = kPrior;
    return prediction;
  }
  out = Residual(position, features);
  out.location += position.predicted + kTransferredShare * position.transferred;
  // Candidates that the shared model does not cover keep the default prior.
  if (shared_ != nullptr && !shared_->Covers(features) && !features.is_recorded && labels_ == 0 &&
      other_ == nullptr) {
    out = kPrior;
  }
  return prediction;
}

}  // namespace kernelcast::forecaster
