#include "services/forecaster/embedded/shared_model.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "common/domain/scoring.h"
#include "services/forecaster/core/predictive.h"
#include "services/forecaster/embedded/random.h"

namespace kernelcast::forecaster {
namespace {

// Rows of one problem whose speedup follows the first feature in all problems alike, or in none.
std::vector<TrainingRow> Problem(int count, bool lawful, uint64_t seed) {
  std::vector<TrainingRow> rows;
  Random random(seed);
  for (int i = 0; i < count; ++i) {
    TrainingRow& row = rows.emplace_back();
    const double x = 4 * random.Uniform() - 2;
    row.features.shared = {static_cast<float>(x), static_cast<float>(random.Uniform())};
    row.log2_speedup = lawful ? 0.8 * x : 3 * random.Uniform() - 1.5;
  }
  return rows;
}

using ByProblem = std::map<std::string, ProblemRows>;

void Add(ByProblem& all, const std::string& name, const std::vector<TrainingRow>& rows) {
  for (const TrainingRow& row : rows) all[name].rows.push_back(&row);
}

TEST_CASE("What holds for all problems is learnt and trusted", "[forecaster][shared]") {
  std::vector<std::vector<TrainingRow>> problems;
  for (int i = 0; i < 6; ++i) problems.push_back(Problem(30, true, 10 + i));
  ByProblem rows;
  for (int i = 0; i < 6; ++i) Add(rows, "p" + std::to_string(i), problems[i]);
  const absl::StatusOr<SharedModel> model = SharedModel::Train(rows, 1);
  REQUIRE(model.ok());
  CHECK(model->problems() == 6);
  CHECK(model->trust() > 0.7);
  CHECK(model->error_scale() < 0.6 * kPrior.scale);

  std::vector<double> predicted;
  std::vector<double> truth;
  const std::vector<TrainingRow> unseen = Problem(40, true, 99);
  for (const TrainingRow& row : unseen) {
    predicted.push_back(model->Predict(row.features));
    truth.push_back(*row.log2_speedup);
  }
  CHECK(Spearman(predicted, truth) > 0.9);
}

TEST_CASE("Where nothing carries over the model is not trusted", "[forecaster][shared]") {
  std::vector<std::vector<TrainingRow>> problems;
  for (int i = 0; i < 6; ++i) problems.push_back(Problem(30, false, 20 + i));
  ByProblem rows;
  for (int i = 0; i < 6; ++i) Add(rows, "p" + std::to_string(i), problems[i]);
  const absl::StatusOr<SharedModel> model = SharedModel::Train(rows, 1);
  REQUIRE(model.ok());
  CHECK(model->trust() < 0.3);
  CHECK(model->error_scale() > 0.6);
}

TEST_CASE("One problem tells little of another", "[forecaster][shared]") {
  const std::vector<TrainingRow> only = Problem(40, true, 1);
  ByProblem rows;
  Add(rows, "only", only);
  const absl::StatusOr<SharedModel> model = SharedModel::Train(rows, 1);
  REQUIRE(model.ok());
  CHECK(model->trust() <= 0.25);
  CHECK(model->error_scale() == Approx(kPrior.scale));
}

TEST_CASE("Failures and rows without facts are left out", "[forecaster][shared]") {
  std::vector<TrainingRow> rows = Problem(20, true, 1);
  for (size_t i = 0; i < 7; ++i) rows[i].log2_speedup.reset();
  for (size_t i = 7; i < 13; ++i) rows[i].features.shared.clear();
  ByProblem all;
  Add(all, "p", rows);
  CHECK(absl::IsNotFound(SharedModel::Train(all, 1).status()));
  CHECK(absl::IsNotFound(SharedModel::Train({}, 1).status()));
}

}  // namespace
}  // namespace kernelcast::forecaster
