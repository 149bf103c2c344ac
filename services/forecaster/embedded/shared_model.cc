#include "services/forecaster/embedded/shared_model.h"

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "services/forecaster/core/predictive.h"
#include "services/forecaster/embedded/random.h"

namespace kernelcast::forecaster {
namespace {

constexpr int kMembers = 4;
constexpr int kFoldMembers = 1;
constexpr size_t kMaxFolds = 5;
// The prior counts as much as this many problems.
constexpr double kPriorProblems = 2;
constexpr size_t kLeastRows = 8;

struct Data {
  Matrix rows;
  std::vector<float> values;
  std::vector<float> weights;
  std::vector<size_t> problem;  // index of each row's problem
  size_t problems = 0;
};

BoosterOptions Options(uint64_t seed) {
  BoosterOptions options;
  options.rounds = 80;
  options.max_depth = 4;
  options.eta = 0.08;
  options.min_child_weight = 1;
  options.column_share = 0.4;
  options.seed = static_cast<uint32_t>(seed);
  return options;
}

// Boosters on bootstrap resamples of the rows whose problem is not `left_out`.
absl::StatusOr<std::vector<Forest>> TrainMembers(const Data& data,
                                                 const std::vector<char>& left_out, double centre,
                                                 int members, uint64_t seed) {
  std::vector<size_t> kept;
  for (size_t i = 0; i < data.rows.rows; ++i) {
    if (left_out[data.problem[i]] == 0) kept.push_back(i);
  }
  std::vector<float> targets(data.values);
  for (float& target : targets) target -= static_cast<float>(centre);
  std::vector<Forest> forests;
  for (int member = 0; member < members; ++member) {
    Random random(DeriveSeed(seed, "shared", static_cast<uint64_t>(member)));
    std::vector<float> weights(data.rows.rows, 0.0f);
    for (size_t i = 0; i < kept.size(); ++i) {
      const size_t drawn = kept[random.Below(kept.size())];
      weights[drawn] += data.weights[drawn];
    }
    KC_ASSIGN_OR_RETURN(Forest forest,
                        TrainForest(data.rows, targets, weights, Options(random.Next())));
    forests.push_back(std::move(forest));
  }
  return forests;
}

double Mean(const std::vector<Forest>& forests, std::span<const float> row) {
  double sum = 0;
  for (const Forest& forest : forests) sum += forest.Predict(row);
  return sum / static_cast<double>(forests.size());
}

}  // namespace

absl::StatusOr<SharedModel> SharedModel::Train(
    const std::map<std::string, std::vector<const TrainingRow*>>& rows, uint64_t seed) {
  Data data;
  for (const auto& [problem, problem_rows] : rows) {
    std::vector<const TrainingRow*> usable;
    for (auto row = problem_rows.rbegin(); row != problem_rows.rend(); ++row) {
      if (usable.size() == kMaxRowsPerProblem || data.rows.rows + usable.size() == kMaxRows) break;
      if (!(*row)->log2_speedup.has_value() || (*row)->features.shared.empty()) continue;
      usable.push_back(*row);
    }
    if (usable.empty()) continue;
    // A problem with four times the labels counts twice as much.
    const float weight = 1 / std::sqrt(static_cast<float>(usable.size()));
    for (const TrainingRow* row : usable) {
      data.rows.Append(row->features.shared);
      data.values.push_back(static_cast<float>(*row->log2_speedup));
      data.weights.push_back(weight);
      data.problem.push_back(data.problems);
    }
    ++data.problems;
  }
  const size_t n = data.rows.rows;
  if (n < kLeastRows) return absl::NotFoundError("too few labels with facts");
  // Weights of mean one, so that the regularisation means the same however many labels there are.
  double weight_sum = 0;
  double value_sum = 0;
  for (size_t i = 0; i < n; ++i) {
    weight_sum += data.weights[i];
    value_sum += data.weights[i] * data.values[i];
  }
  for (float& weight : data.weights) weight *= static_cast<float>(n / weight_sum);

  SharedModel model;
  model.problems_ = data.problems;
  model.centre_ = value_sum / weight_sum;
  KC_ASSIGN_OR_RETURN(model.members_, TrainMembers(data, std::vector<char>(data.problems, 0),
                                                   model.centre_, kMembers, seed));

  // How well such a model does on problems that it has not seen: per problem, mean squared error
  // with and without believing it.
  const double prior_variance = kPrior.scale * kPrior.scale;
  double variance_sum = kPriorProblems * prior_variance;
  double product = 0;
  double square = 1;  // draws the trust towards zero
  if (data.problems >= 2) {
    const size_t folds = std::min(kMaxFolds, data.problems);
    for (size_t fold = 0; fold < folds; ++fold) {
      std::vector<char> left_out(data.problems, 0);
      for (size_t p = fold; p < data.problems; p += folds) left_out[p] = 1;
      KC_ASSIGN_OR_RETURN(const std::vector<Forest> forests,
                          TrainMembers(data, left_out, model.centre_, kFoldMembers,
                                       DeriveSeed(seed, "fold", fold)));
      std::vector<double> errors(data.problems, 0.0);
      std::vector<double> counts(data.problems, 0.0);
      for (size_t i = 0; i < n; ++i) {
        const size_t p = data.problem[i];
        if (left_out[p] == 0) continue;
        const double predicted = model.centre_ + Mean(forests, data.rows.row(i));
        const double error = data.values[i] - predicted;
        errors[p] += error * error;
        ++counts[p];
      }
      for (size_t p = 0; p < data.problems; ++p) {
        if (counts[p] > 0) variance_sum += errors[p] / counts[p];
      }
      for (size_t i = 0; i < n; ++i) {
        const size_t p = data.problem[i];
        if (left_out[p] == 0) continue;
        const double predicted = model.centre_ + Mean(forests, data.rows.row(i));
        product += predicted * data.values[i] / counts[p];
        square += predicted * predicted / counts[p];
      }
    }
    model.trust_ = std::clamp(product / square, 0.0, 1.0);
    model.error_variance_ = variance_sum / (kPriorProblems + static_cast<double>(data.problems));
  } else {
    model.trust_ = 0.25;
    model.error_variance_ = prior_variance;
  }
  return model;
}

double SharedModel::Predict(std::span<const float> shared_features) const {
  return centre_ + Mean(members_, shared_features);
}

}  // namespace kernelcast::forecaster
