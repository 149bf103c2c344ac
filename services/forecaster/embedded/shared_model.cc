#include "services/forecaster/embedded/shared_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "common/base/status.h"
#include "services/forecaster/core/predictive.h"
#include "services/forecaster/core/simulation_features.h"
#include "services/forecaster/embedded/random.h"

namespace kernelcast::forecaster {
namespace {

constexpr int kSharedMembers = 4;
constexpr int kSharedFoldMembers = 1;
constexpr size_t kMaxSharedFolds = 8;
// Weight of the default error in problems: for compile facts, and for simulations, whose accuracy
// varies little between operations.
constexpr double kPriorProblems = 2;
constexpr double kPriorProblemsSimulated = 0.1;
// Assumed increase of errors on a device model without records. There are no data from two GPUs to
// learn it from.
constexpr double kOtherDeviceError = 1.25;
constexpr size_t kLeastModelRows = 8;
// Strength of the usual slope, in problems times squared octaves.
constexpr double kSlopePrior = 1;

BoosterOptions SharedOptions(uint64_t seed) {
  BoosterOptions options;
  options.rounds = 80;
  options.max_depth = 4;
  options.eta = 0.08;
  options.min_child_weight = 1;
  options.column_share = 0.4;
  options.seed = static_cast<uint32_t>(seed);
  return options;
}

SpacePosition PositionOf(const TunableEncoder* encoder, const CandidateFeatures& features) {
  if (encoder != nullptr) return kernelcast::forecaster::PositionOf(*encoder, features);
  CandidateFeatures without_tunables = features;
  without_tunables.tunables.clear();
  static const TunableEncoder kNoTunables;
  return kernelcast::forecaster::PositionOf(kNoTunables, without_tunables);
}

// Distance to the nearest centre that is not left out. 0: there is none.
double Novelty(std::span<const float> shares, std::span<const std::vector<float>> centres,
               const std::function<bool(size_t)>& left_out) {
  double least = std::numeric_limits<double>::infinity();
  for (size_t c = 0; c < centres.size(); ++c) {
    if (left_out(c)) continue;
    double square = 0;
    for (size_t i = 0; i < shares.size(); ++i) {
      square += std::pow(shares[i] - centres[c][i], 2);
    }
    least = std::min(least, square);
  }
  return std::isfinite(least) ? std::sqrt(least) : 0;
}

}  // namespace

struct SharedModel::Data {
  Matrix rows;
  bool simulated = false;
  std::vector<float> values;
  std::vector<float> weights;
  std::vector<size_t> problem;  // index of each row's problem
  std::vector<SpacePosition> positions;
  std::vector<std::string> families;
};

double SharedModel::Core::Correction(std::span<const float> row) const {
  double sum = 0;
  for (const Forest& forest : members) sum += forest.Predict(row);
  return sum / static_cast<double>(members.size());
}

// Learns from the rows whose problem is not `left_out`: boosters on bootstrap resamples of the
// base's residuals.
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
    // Computed within problems, each with the same weight.
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
    KC_ASSIGN_OR_RETURN(Forest forest, TrainForest(data.rows, targets, drawn_weights,
                                                   SharedOptions(random.Next())));
    core.members.push_back(std::move(forest));
  }
  return core;
}

// Mean ResourceShares of each problem.
std::vector<std::vector<float>> SharedModel::CentresOf(const Data& data) {
  std::vector<std::vector<float>> centres(data.families.size());
  std::vector<float> counts(data.families.size(), 0.0f);
  for (size_t i = 0; i < data.rows.rows; ++i) {
    const size_t p = data.problem[i];
    const std::vector<float> shares = ResourceShares(data.rows.row(i));
    centres[p].resize(shares.size(), 0.0f);
    ++counts[p];
    for (size_t k = 0; k < shares.size(); ++k) {
      centres[p][k] += (shares[k] - centres[p][k]) / counts[p];
    }
  }
  return centres;
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
      data.positions.push_back(PositionOf(of_problem.encoder, row->features));
    }
    data.families.push_back(of_problem.family.empty() ? "problem " + problem : of_problem.family);
  }
  const size_t n = data.rows.rows;
  if (n < kLeastModelRows) return absl::NotFoundError("too few labels with facts");
  // Scales weights to a mean of 1, so that regularisation does not depend on the number of labels.
  double weight_sum = 0;
  for (const float weight : data.weights) weight_sum += weight;
  for (float& weight : data.weights) weight *= static_cast<float>(n / weight_sum);

  if (absl::StatusOr<FailurePrior> failures = FailurePrior::Train(rows, seed); failures.ok()) {
    model.failures_ = *std::move(failures);
  }

  const size_t problems = data.families.size();
  model.problems_ = problems;
  KC_ASSIGN_OR_RETURN(model.core_,
                      Learn(data, std::vector<char>(problems, 0), kSharedMembers, seed));

  if (model.uses_simulations_) model.centres_ = CentresOf(data);

  // Cross-validation: performance of such a model on families left out.
  std::map<std::string, size_t> family_of;
  for (const std::string& family : data.families) family_of.emplace(family, family_of.size());
  const RegressedValues of =
      model.uses_simulations_ ? RegressedValues::kErrorsOfSimulation : RegressedValues::kSpeedups;
  model.process_prior_ = UsualProcessPrior(of, kPrior.scale);
  if (family_of.size() < 2) {
    model.trust_ = model.uses_simulations_ ? 1 : 0.25;
    model.core_.correction_share = model.uses_simulations_ ? 0 : 1;
    return model;
  }
  std::vector<double> counts(problems, 0.0);
  for (const size_t p : data.problem) ++counts[p];
  std::vector<double> bases(n);
  std::vector<double> corrections(n);
  std::vector<double> weights(n);
  const size_t folds = std::min(kMaxSharedFolds, family_of.size());
  for (size_t fold = 0; fold < folds; ++fold) {
    std::vector<char> left_out(problems, 0);
    for (size_t p = 0; p < problems; ++p) {
      left_out[p] = family_of.at(data.families[p]) % folds == fold ? 1 : 0;
    }
    KC_ASSIGN_OR_RETURN(const Core core,
                        Learn(data, left_out, kSharedFoldMembers, DeriveSeed(seed, "fold", fold)));
    for (size_t i = 0; i < n; ++i) {
      const size_t p = data.problem[i];
      if (left_out[p] == 0) continue;
      weights[i] = 1 / counts[p];
      bases[i] = core.Base(data.rows.row(i));
      corrections[i] = core.Correction(data.rows.row(i));
    }
  }
  if (model.uses_simulations_) {
    // A conservative share: the best one minus its uncertainty across families.
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
  double square = 1;  // pulls the trust towards zero
  for (size_t i = 0; i < n; ++i) {
    const double predicted = bases[i] + model.core_.correction_share * corrections[i];
    product += weights[i] * predicted * data.values[i];
    square += weights[i] * predicted * predicted;
    data.positions[i].predicted = predicted;
  }
  // With simulations, the slope already plays this part.
  model.trust_ = model.uses_simulations_ ? 1 : std::clamp(product / square, 0.0, 1.0);
  std::vector<ProblemErrors> all_errors(problems);
  for (size_t i = 0; i < n; ++i) {
    ProblemErrors& of_problem = all_errors[data.problem[i]];
    data.positions[i].predicted *= model.trust_;
    of_problem.errors.push_back(data.values[i] - data.positions[i].predicted);
    of_problem.positions.push_back(std::move(data.positions[i]));
    if (!model.uses_simulations_) continue;
    const std::string& family = data.families[data.problem[i]];
    of_problem.novelties.push_back(Novelty(ResourceShares(data.rows.row(i)), model.centres_,
                                           [&](size_t p) { return data.families[p] == family; }));
  }
  model.process_prior_ =
      LearnProcessPrior(all_errors, model.process_prior_,
                        model.uses_simulations_ ? kPriorProblemsSimulated : kPriorProblems, seed);
  return model;
}

SharedModel SharedModel::ForOtherDevice() const {
  SharedModel other = *this;
  other.process_prior_.scale *= kOtherDeviceError;
  return other;
}

bool SharedModel::Covers(const CandidateFeatures& features) const {
  return !RowOf(features).empty();
}

double SharedModel::Width(const CandidateFeatures& features) const {
  if (centres_.empty()) return 1;
  return process_prior_.Width(
      Novelty(ResourceShares(features.simulation), centres_, [](size_t) { return false; }));
}

double SharedModel::Predict(const CandidateFeatures& features) const {
  const std::span<const float> row = RowOf(features);
  return core_.Base(row) + core_.correction_share * core_.Correction(row);
}

}  // namespace kernelcast::forecaster
