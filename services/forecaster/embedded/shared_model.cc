#include "services/forecaster/embedded/shared_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/status.h"
#include "services/forecaster/core/predictive.h"
#include "services/forecaster/embedded/random.h"

namespace kernelcast::forecaster {
namespace {

constexpr int kMembers = 4;
constexpr int kFoldMembers = 1;
constexpr size_t kMaxFolds = 8;
// The prior counts as much as this many problems: of the error, and of the error of simulations,
// which are right about as often for one operation as for another.
constexpr double kPriorProblems = 2;
constexpr double kPriorProblemsSimulated = 0.1;
constexpr size_t kLeastRows = 8;
// Slope on simulated speedups before anything is known, and how firmly it is held, in problems'
// worth of squared octaves.
constexpr double kUsualSlope = 0.9;
constexpr double kSlopePrior = 1;
constexpr double kMaxSlopeError = 0.6;

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

// Error scales: that of kernels like the reference, and what it grows by for each octave that is
// predicted between them.
struct ErrorScales {
  double level = kPrior.scale;
  double slope = 0;
};

// Maximum of the likelihood of Student-t errors, with `prior_weight` further ones at the prior's
// scale; on a grid, which is fine enough for what so few problems can tell.
ErrorScales FitErrorScales(std::span<const double> errors, std::span<const double> predicted,
                           std::span<const double> weights, double prior_weight, double max_slope) {
  constexpr double kLeastLevel = 0.05;
  constexpr double kStep = 1.04;
  constexpr double kSlopeStep = 0.05;
  const double dof = kPrior.degrees_of_freedom;
  const auto cost = [dof](double error, double variance) {
    return 0.5 * std::log(variance) + 0.5 * (dof + 1) * std::log1p(error * error / variance / dof);
  };
  ErrorScales best;
  double least = std::numeric_limits<double>::infinity();
  for (double slope = 0; slope <= max_slope + 1e-9; slope += kSlopeStep) {
    for (double level = kLeastLevel; level < 2 * kPrior.scale; level *= kStep) {
      double sum = prior_weight * cost(kPrior.scale, level * level);
      for (size_t i = 0; i < errors.size(); ++i) {
        const double growth = slope * predicted[i];
        sum += weights[i] * cost(errors[i], level * level + growth * growth);
      }
      if (sum >= least) continue;
      least = sum;
      best = {level, slope};
    }
  }
  return best;
}

}  // namespace

struct SharedModel::Data {
  Matrix rows;
  bool simulated = false;
  std::vector<float> values;
  std::vector<float> weights;
  std::vector<size_t> problem;  // index of each row's problem
  std::vector<std::string> families;
};

double SharedModel::Core::Correction(std::span<const float> row) const {
  double sum = 0;
  for (const Forest& forest : members) sum += forest.Predict(row);
  return sum / static_cast<double>(members.size());
}

// From the rows whose problem is not `left_out`: boosters on bootstrap resamples of what the base
// leaves.
absl::StatusOr<SharedModel::Core> SharedModel::Learn(const Data& data,
                                                     const std::vector<char>& left_out, int members,
                                                     uint64_t seed) {
  const size_t problems = data.families.size();
  std::vector<size_t> kept;
  std::vector<double> weights(problems, 0.0);
  std::vector<double> mean_x(problems, 0.0);
  std::vector<double> mean_y(problems, 0.0);
  for (size_t i = 0; i < data.rows.rows; ++i) {
    const size_t p = data.problem[i];
    if (left_out[p] != 0) continue;
    kept.push_back(i);
    weights[p] += 1;
    mean_x[p] += data.rows.row(i)[0];
    mean_y[p] += data.values[i];
  }
  Core core;
  if (data.simulated) {
    // Within problems, each of which counts once.
    double product = kSlopePrior * kUsualSlope;
    double square = kSlopePrior;
    for (const size_t i : kept) {
      const size_t p = data.problem[i];
      const double x = data.rows.row(i)[0] - mean_x[p] / weights[p];
      product += x * (data.values[i] - mean_y[p] / weights[p]) / weights[p];
      square += x * x / weights[p];
    }
    core.slope = std::clamp(product / square, 0.0, 1.5);
  }
  double weight_sum = 0;
  for (const size_t i : kept) {
    core.centre += data.weights[i] * (data.values[i] - core.slope * data.rows.row(i)[0]);
    weight_sum += data.weights[i];
  }
  core.centre /= weight_sum;
  std::vector<float> targets(data.rows.rows, 0.0f);
  for (const size_t i : kept) {
    targets[i] = static_cast<float>(data.values[i] - core.Base(data.rows.row(i)));
  }
  for (int member = 0; member < members; ++member) {
    Random random(DeriveSeed(seed, "shared", static_cast<uint64_t>(member)));
    std::vector<float> drawn_weights(data.rows.rows, 0.0f);
    for (size_t i = 0; i < kept.size(); ++i) {
      const size_t drawn = kept[random.Below(kept.size())];
      drawn_weights[drawn] += data.weights[drawn];
    }
    KC_ASSIGN_OR_RETURN(Forest forest,
                        TrainForest(data.rows, targets, drawn_weights, Options(random.Next())));
    core.members.push_back(std::move(forest));
  }
  return core;
}

absl::StatusOr<SharedModel> SharedModel::Train(const std::map<std::string, ProblemRows>& rows,
                                               uint64_t seed) {
  size_t with_facts = 0;
  size_t simulated = 0;
  for (const auto& [problem, of_problem] : rows) {
    for (const TrainingRow* row : of_problem.rows) {
      if (!row->log2_speedup.has_value() || row->features.shared.empty()) continue;
      ++with_facts;
      if (!row->features.simulation.empty()) ++simulated;
    }
  }
  SharedModel model;
  model.uses_simulations_ = simulated > 0 && 2 * simulated >= with_facts;
  Data data;
  data.simulated = model.uses_simulations_;
  for (const auto& [problem, of_problem] : rows) {
    std::vector<const TrainingRow*> usable;
    for (auto row = of_problem.rows.rbegin(); row != of_problem.rows.rend(); ++row) {
      if (usable.size() == kMaxRowsPerProblem || data.rows.rows + usable.size() == kMaxRows) break;
      if (!(*row)->log2_speedup.has_value() || !model.Covers((*row)->features)) continue;
      usable.push_back(*row);
    }
    if (usable.empty()) continue;
    // A problem with four times the labels counts twice as much.
    const float weight = 1 / std::sqrt(static_cast<float>(usable.size()));
    for (const TrainingRow* row : usable) {
      data.rows.Append(model.RowOf(row->features));
      data.values.push_back(static_cast<float>(*row->log2_speedup));
      data.weights.push_back(weight);
      data.problem.push_back(data.families.size());
    }
    data.families.push_back(of_problem.family.empty() ? "problem " + problem : of_problem.family);
  }
  const size_t n = data.rows.rows;
  if (n < kLeastRows) return absl::NotFoundError("too few labels with facts");
  // Weights of mean one, so that the regularisation means the same however many labels there are.
  double weight_sum = 0;
  for (const float weight : data.weights) weight_sum += weight;
  for (float& weight : data.weights) weight *= static_cast<float>(n / weight_sum);

  const size_t problems = data.families.size();
  model.problems_ = problems;
  KC_ASSIGN_OR_RETURN(model.core_, Learn(data, std::vector<char>(problems, 0), kMembers, seed));

  // How well such a model does on problems of families that it has not seen.
  std::map<std::string, size_t> family_of;
  for (const std::string& family : data.families) family_of.emplace(family, family_of.size());
  if (family_of.size() < 2) {
    model.trust_ = model.uses_simulations_ ? 1 : 0.25;
    model.core_.correction_share = model.uses_simulations_ ? 0 : 1;
    model.error_scale_ = kPrior.scale;
    return model;
  }
  std::vector<double> counts(problems, 0.0);
  for (const size_t p : data.problem) ++counts[p];
  std::vector<double> bases(n);
  std::vector<double> corrections(n);
  std::vector<double> weights(n);
  const size_t folds = std::min(kMaxFolds, family_of.size());
  for (size_t fold = 0; fold < folds; ++fold) {
    std::vector<char> left_out(problems, 0);
    for (size_t p = 0; p < problems; ++p) {
      left_out[p] = family_of.at(data.families[p]) % folds == fold ? 1 : 0;
    }
    KC_ASSIGN_OR_RETURN(const Core core,
                        Learn(data, left_out, kFoldMembers, DeriveSeed(seed, "fold", fold)));
    for (size_t i = 0; i < n; ++i) {
      const size_t p = data.problem[i];
      if (left_out[p] == 0) continue;
      weights[i] = 1 / counts[p];
      bases[i] = core.Base(data.rows.row(i));
      corrections[i] = core.Correction(data.rows.row(i));
    }
  }
  if (model.uses_simulations_) {
    // What is sure to help: the best share, less how far it is unsure by the families.
    std::vector<double> products(family_of.size(), 0.0);
    std::vector<double> squares(family_of.size(), 0.0);
    double product = 0;
    double square = 1e-9;
    for (size_t i = 0; i < n; ++i) {
      const size_t family = family_of.at(data.families[data.problem[i]]);
      const double part = weights[i] * (data.values[i] - bases[i]) * corrections[i];
      products[family] += part;
      product += part;
      squares[family] += weights[i] * corrections[i] * corrections[i];
      square += weights[i] * corrections[i] * corrections[i];
    }
    const double best = product / square;
    double variance = 0;
    for (size_t f = 0; f < products.size(); ++f) {
      variance += std::pow(products[f] - best * squares[f], 2);
    }
    model.core_.correction_share = std::clamp(best - std::sqrt(variance) / square, 0.0, 1.0);
  }
  double product = 0;
  double square = 1;  // draws the trust towards zero
  std::vector<double> errors(n);
  std::vector<double> all_predicted(n);
  for (size_t i = 0; i < n; ++i) {
    const double predicted = bases[i] + model.core_.correction_share * corrections[i];
    product += weights[i] * predicted * data.values[i];
    square += weights[i] * predicted * predicted;
    errors[i] = data.values[i] - predicted;
    all_predicted[i] = predicted;
  }
  // The slope on simulations is trust already.
  model.trust_ = model.uses_simulations_ ? 1 : std::clamp(product / square, 0.0, 1.0);
  const ErrorScales scales =
      FitErrorScales(errors, all_predicted, weights,
                     model.uses_simulations_ ? kPriorProblemsSimulated : kPriorProblems,
                     model.uses_simulations_ ? kMaxSlopeError : 0);
  model.error_scale_ = scales.level;
  model.slope_error_ = scales.slope;
  return model;
}

bool SharedModel::Covers(const CandidateFeatures& features) const {
  return !RowOf(features).empty();
}

double SharedModel::Predict(const CandidateFeatures& features) const {
  const std::span<const float> row = RowOf(features);
  return core_.Base(row) + core_.correction_share * core_.Correction(row);
}

}  // namespace kernelcast::forecaster
