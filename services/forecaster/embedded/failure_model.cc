#include "services/forecaster/embedded/failure_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/log.h"

namespace kernelcast::forecaster {
namespace {

constexpr double kProblemPriorRows = 4;
constexpr double kTemplatePriorRows = 2;
constexpr int kLeastOfEach = 5;
constexpr int kMembers = 6;
constexpr double kLowest = 0.002;
constexpr double kHighest = 0.998;

double Shrunk(double failures, double total, double prior, double prior_rows) {
  return (failures + prior * prior_rows) / (total + prior_rows);
}

double LogOdds(double p) { return std::log(p / (1 - p)); }

// Tunables, then facts; absent facts are missing values.
std::vector<float> Row(const CandidateFeatures& features, size_t columns) {
  std::vector<float> row = features.tunables;
  row.insert(row.end(), features.facts.begin(), features.facts.end());
  row.resize(columns, std::numeric_limits<float>::quiet_NaN());
  return row;
}

}  // namespace

FailureModel FailureModel::Train(std::span<const TrainingRow* const> rows, uint64_t seed) {
  FailureModel model;
  size_t columns = 0;
  for (const TrainingRow* row : rows) {
    columns = std::max(columns, row->features.tunables.size() + row->features.facts.size());
    for (Counts* counts : {&model.problem_, &model.templates_[row->features.template_index]}) {
      ++counts->all;
      if (row->compile_error) {
        ++counts->failed_compiling;
        continue;
      }
      ++counts->compiled;
      if (!row->log2_speedup.has_value()) ++counts->failed_running;
    }
  }
  const double failures = model.problem_.failed_running;
  if (failures < kLeastOfEach || model.problem_.compiled - failures < kLeastOfEach ||
      columns == 0) {
    return model;
  }
  Matrix matrix;
  std::vector<float> labels;
  for (const TrainingRow* row : rows) {
    if (row->compile_error) continue;
    matrix.Append(Row(row->features, columns));
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

double FailureModel::Predict(const CandidateFeatures& features) const {
  const auto found = templates_.find(features.template_index);
  const Counts own = found == templates_.end() ? Counts() : found->second;
  double p =
      Shrunk(own.failed_running, own.compiled,
             Shrunk(problem_.failed_running, problem_.compiled, kPriorRate, kProblemPriorRows),
             kTemplatePriorRows);
  if (ensemble_.has_value()) {
    const double log_odds = 0.5 * (LogOdds(p) + ensemble_->Mean(Row(features, ensemble_columns_)));
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
