#include "services/forecaster/embedded/failure_prior.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/base/status.h"
#include "services/forecaster/embedded/random.h"

namespace kernelcast::forecaster {
namespace {

// Failures are few and diverse, so steps are shallow and each split uses a few columns.
constexpr int kPriorMembers = 8;
constexpr int kPriorFoldMembers = 4;
constexpr size_t kMaxPriorFolds = 8;
constexpr size_t kLeastPriorRows = 40;
// Pull of the scaling towards the trees' own log odds, in rows.
constexpr double kScalePull = 1;
constexpr double kMaxPriorSlope = 1.5;
constexpr int kNewtonSteps = 30;

BoosterOptions PriorOptions(uint64_t seed) {
  BoosterOptions options;
  options.logistic = true;
  options.rounds = 100;
  options.max_depth = 4;
  options.eta = 0.05;
  options.lambda = 10;
  options.min_child_weight = 2;
  options.column_share = 0.15;
  options.seed = static_cast<uint32_t>(seed);
  return options;
}

struct Data {
  Matrix rows;
  std::vector<float> failed;
  std::vector<size_t> family;
};

double Mean(const std::vector<Forest>& members, std::span<const float> row) {
  double sum = 0;
  for (const Forest& forest : members) sum += forest.Predict(row);
  return sum / static_cast<double>(members.size());
}

// Learns from the rows whose family is not in the fold `left_out`.
absl::StatusOr<std::vector<Forest>> Learn(const Data& data, size_t folds, size_t left_out,
                                          int members, uint64_t seed) {
  std::vector<size_t> kept;
  for (size_t i = 0; i < data.failed.size(); ++i) {
    if (data.family[i] % folds != left_out) kept.push_back(i);
  }
  if (kept.empty()) return absl::NotFoundError("no rows to learn from");
  std::vector<Forest> forests;
  for (int member = 0; member < members; ++member) {
    Random random(DeriveSeed(seed, "failures", static_cast<uint64_t>(member)));
    std::vector<float> weights(data.failed.size(), 0.0f);
    for (size_t i = 0; i < kept.size(); ++i) weights[kept[random.Below(kept.size())]] += 1;
    KC_ASSIGN_OR_RETURN(Forest forest,
                        TrainForest(data.rows, data.failed, weights, PriorOptions(random.Next())));
    forests.push_back(std::move(forest));
  }
  return forests;
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

absl::StatusOr<FailurePrior> FailurePrior::Train(const std::map<std::string, ProblemRows>& problems,
                                                 uint64_t seed) {
  FailurePrior prior;
  for (const auto& [name, problem] : problems) {
    for (const TrainingRow* row : problem.rows) {
      if (!row->features.failure.empty()) prior.of_device_code_ = true;
    }
  }
  Data data;
  std::map<std::string, size_t> families;
  std::set<size_t> failing;
  for (const auto& [name, problem] : problems) {
    const std::string family = problem.family.empty() ? "problem " + name : problem.family;
    const size_t number = families.emplace(family, families.size()).first->second;
    for (const TrainingRow* row : problem.rows) {
      if (row->compile_error || !prior.Covers(row->features)) continue;
      data.rows.Append(prior.RowOf(row->features));
      data.failed.push_back(row->log2_speedup.has_value() ? 0.0f : 1.0f);
      data.family.push_back(number);
      if (!row->log2_speedup.has_value()) failing.insert(number);
    }
  }
  const size_t n = data.failed.size();
  if (failing.size() < kLeastFamilies || n < kLeastPriorRows) {
    return absl::NotFoundError("too few failures to learn from");
  }
  // No family has this fold number, so nothing is left out.
  KC_ASSIGN_OR_RETURN(prior.members_,
                      Learn(data, families.size() + 1, families.size(), kPriorMembers, seed));

  std::vector<double> margins(n);
  const size_t folds = std::min(kMaxPriorFolds, families.size());
  for (size_t fold = 0; fold < folds; ++fold) {
    KC_ASSIGN_OR_RETURN(
        const std::vector<Forest> members,
        Learn(data, folds, fold, kPriorFoldMembers, DeriveSeed(seed, "failure fold", fold)));
    for (size_t i = 0; i < n; ++i) {
      if (data.family[i] % folds == fold) margins[i] = Mean(members, data.rows.row(i));
    }
  }
  // Logistic regression of the outcomes on the log odds, by Newton's method.
  double a = 0;
  double b = 1;
  for (int step = 0; step < kNewtonSteps; ++step) {
    double ga = -kScalePull * a, gb = -kScalePull * (b - 1);
    double haa = kScalePull, hab = 0, hbb = kScalePull;
    for (size_t i = 0; i < n; ++i) {
      const double p = Sigmoid(a + b * margins[i]);
      const double error = data.failed[i] - p;
      const double weight = p * (1 - p);
      ga += error;
      gb += error * margins[i];
      haa += weight;
      hab += weight * margins[i];
      hbb += weight * margins[i] * margins[i];
    }
    const double determinant = haa * hbb - hab * hab;
    if (!(determinant > 0)) break;
    a += (hbb * ga - hab * gb) / determinant;
    b += (haa * gb - hab * ga) / determinant;
  }
  prior.slope_ = std::clamp(b, 0.0, kMaxPriorSlope);
  // Keeps the mean correct if the slope was limited.
  double low = -20, high = 20;
  double failures = 0;
  for (const float failed : data.failed) failures += failed;
  for (int step = 0; step < 60; ++step) {
    prior.intercept_ = 0.5 * (low + high);
    double sum = 0;
    for (const double margin : margins) sum += Sigmoid(prior.intercept_ + prior.slope_ * margin);
    (sum < failures ? low : high) = prior.intercept_;
  }
  return prior;
}

double FailurePrior::Predict(const CandidateFeatures& features) const {
  return Sigmoid(intercept_ + slope_ * Mean(members_, RowOf(features)));
}

}  // namespace kernelcast::forecaster
