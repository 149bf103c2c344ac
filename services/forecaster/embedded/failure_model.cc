#include "services/forecaster/embedded/failure_model.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "common/base/log.h"

namespace kernelcast::forecaster {
namespace {

constexpr double kProblemPriorRows = 4;
constexpr double kTemplatePriorRows = 2;
constexpr int kLeastOfEach = 5;
constexpr int kMembers = 6;
constexpr double kLowest = 0.002;
constexpr double kHighest = 0.998;
// Limits of the regression's result.
constexpr double kLowestRate = 0.01;
constexpr double kHighestRate = 0.98;

// A failure says more about its neighbours than about the template, and little about the problem:
// most spaces have a template that never works, and some have combinations of tunables that do not.
constexpr CovarianceWeights kAlike = {.constant = 0.15,
                                      .same_template = 0.5,
                                      .main_effects = 1,
                                      .interactions = 1,
                                      .shared_effects = 0.2,
                                      .facts = 0};
constexpr PositionTable::Facts kFacts = PositionTable::Facts::kLeftOut;
constexpr double kNoise = 0.2;

const LikenessLengths& Lengths() {
  static const LikenessLengths& kLengths =
      *new LikenessLengths{.tunables = 0.5, .facts = 1, .weights = {}};
  return kLengths;
}

double Shrunk(double failures, double total, double prior, double prior_rows) {
  return (failures + prior * prior_rows) / (total + prior_rows);
}

// The rate without labels of the problem.
double Expected(const CandidateFeatures& features, const FailurePrior* prior) {
  double p = prior != nullptr && prior->Covers(features) ? prior->Predict(features)
                                                         : FailureModel::kPriorRate;
  if (features.has_findings) p = 1 - (1 - p) * (1 - FailureModel::kFindingRate);
  if (features.has_wrong_outputs) p = 1 - (1 - p) * (1 - FailureModel::kWrongOutputRate);
  if (features.has_agreed_outputs) {
    p *= FailureModel::kMissedShare / (FailureModel::kMissedShare * p + 1 - p);
  }
  return p;
}

double LogOdds(double p) { return std::log(p / (1 - p)); }

}  // namespace

FailureModel FailureModel::Train(std::span<const TrainingRow* const> rows,
                                 std::span<const SpacePosition> positions,
                                 const FailurePrior* prior, uint64_t seed) {
  FailureModel model;
  size_t columns = 0;
  double failures = 0;
  double compiled = 0;
  for (const TrainingRow* row : rows) {
    columns = std::max(columns, row->features.tunables.size() + row->features.facts.size());
    for (Counts* counts : {&model.problem_, &model.templates_[row->features.template_index]}) {
      ++counts->all;
      if (row->compile_error) ++counts->failed_compiling;
    }
    if (row->compile_error) continue;
    ++compiled;
    if (!row->log2_speedup.has_value()) ++failures;
  }
  model.TrainProcess(rows, positions, prior);
  if (failures < kLeastOfEach || compiled - failures < kLeastOfEach || columns == 0) {
    return model;
  }
  Matrix matrix;
  std::vector<float> labels;
  for (const TrainingRow* row : rows) {
    if (row->compile_error) continue;
    matrix.Append(EnsembleRow(row->features, columns));
    labels.push_back(row->log2_speedup.has_value() ? 0.0f : 1.0f);
  }
  EnsembleOptions options;
  options.booster.logistic = true;
  options.booster.rounds = 30;
  options.members = kMembers;
  options.seed = seed;
  absl::StatusOr<BoostedEnsemble> ensemble = BoostedEnsemble::Train(matrix, labels, 1.0, options);
  if (!ensemble.ok()) {
    Log(LogLevel::kWarning, "training of the failure model failed; rates are used alone",
        {{"error", std::string(ensemble.status().message())}});
    return model;
  }
  model.ensemble_ = *std::move(ensemble);
  model.ensemble_columns_ = columns;
  return model;
}

void FailureModel::TrainProcess(std::span<const TrainingRow* const> rows,
                                std::span<const SpacePosition> positions,
                                const FailurePrior* prior) {
  std::vector<SpacePosition> points;
  std::vector<double> outcomes;
  for (size_t i = rows.size(); i-- > 0 && points.size() < kMaxPoints;) {
    if (rows[i]->compile_error) continue;
    points.push_back(positions[i]);
    outcomes.push_back((rows[i]->log2_speedup.has_value() ? 0.0 : 1.0) -
                       Expected(rows[i]->features, prior));
  }
  const size_t n = points.size();
  PositionTable table(points);
  std::vector<Likeness> likeness(n);
  std::vector<double> matrix(n * n);
  for (size_t i = 0; i < n; ++i) {
    table.Compare(points[i], Lengths(), kFacts, std::span(likeness).subspan(i));
    for (size_t j = i; j < n; ++j) matrix[i * n + j] = kAlike(likeness[j]);
    matrix[i * n + i] += kNoise;
  }
  const auto size = static_cast<Eigen::Index>(n);
  Eigen::Map<Eigen::MatrixXd> covariance(matrix.data(), size, size);
  const Eigen::LLT<Eigen::Ref<Eigen::MatrixXd>> factor(covariance);
  if (factor.info() != Eigen::Success) return;  // same as without points
  Eigen::Map<Eigen::VectorXd> solution(outcomes.data(), size);
  factor.solveInPlace(solution);
  points_ = std::move(table);
  alpha_ = std::move(outcomes);
}

double FailureModel::Predict(const CandidateFeatures& features, const SpacePosition& position,
                             const FailurePrior* prior) const {
  const auto found = templates_.find(features.template_index);
  const Counts own = found == templates_.end() ? Counts() : found->second;
  double p = Expected(features, prior);
  std::vector<Likeness> likeness(points_.size());
  points_.Compare(position, Lengths(), kFacts, likeness);
  for (size_t i = 0; i < likeness.size(); ++i) p += alpha_[i] * kAlike(likeness[i]);
  p = std::clamp(p, kLowestRate, kHighestRate);
  if (ensemble_.has_value()) {
    const double log_odds =
        0.5 * (LogOdds(p) + ensemble_->Mean(EnsembleRow(features, ensemble_columns_)));
    p = 1 / (1 + std::exp(-log_odds));
  }
  if (features.facts.empty()) {
    const double compile =
        Shrunk(own.failed_compiling, own.all,
               Shrunk(problem_.failed_compiling, problem_.all, 0.05, kProblemPriorRows),
               kTemplatePriorRows);
    p = 1 - (1 - p) * (1 - compile);
  }
  return std::clamp(p, kLowest, kHighest);
}

}  // namespace kernelcast::forecaster
